package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"quantix/db"
	"quantix/internal/drift"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// VMFromRow returns the VM of a row.
func VMFromRow(r db.VM) fleet.VM {
	return fleet.VM{
		Meta: fleet.Meta{
			ID: r.ID, Name: r.Name, ProjectID: r.ProjectID, HostID: r.HostID, Labels: r.Labels, Description: r.Description,
			Generation: r.Generation, ObservedGeneration: r.ObservedGeneration, RequestedPower: r.Ordered, CreatedAt: r.CreatedAt, DeletedAt: r.DeletedAt,
			Misplaced:       intsFromInt32s(r.Misplaced),
			Protection:      fleet.VMProtection{Protected: r.Protected, Lock: r.Lock, ExpiresAt: r.ExpiresAt, ExpiryStops: r.ExpiryStops, Expiry: r.Expiry},
			ScheduleTrouble: r.ScheduleTrouble,
		},
		Spec: r.Spec, Status: withIgnoredDrift(r.Status, r.IgnoredDrift), Sightings: r.Elsewhere, Adoption: r.Adoption,
	}
}

// withIgnoredDrift returns the reported status with the drift marked that a user ignores.
func withIgnoredDrift(reported *fleet.VMStatus, ignored []fleet.Drift) *fleet.VMStatus {
	if reported == nil || len(reported.Drift) == 0 {
		return reported
	}
	s := *reported
	s.Drift = drift.MarkIgnored(s.Drift, ignored)
	return &s
}

func intsFromInt32s(all []int32) (out []int) {
	for _, n := range all {
		out = append(out, int(n))
	}
	return out
}

// MarkOfflineSightings marks the offline hosts among the other hosts that report a domain with the VM's ID. It runs no query
// in the usual case that no other host reports one.
func MarkOfflineSightings(ctx context.Context, q *db.Queries, v *fleet.VMView, now time.Time) error {
	if len(v.Sightings) == 0 {
		return nil
	}
	rows, err := q.SightingsSeen(ctx, v.ID)
	fresh := map[fleet.HostID]bool{}
	for _, r := range rows {
		fresh[r.HostID] = fleet.IsReportFresh(fleet.NewReportTime(r.LookedAt, r.FreshFor), now)
	}
	for i, s := range v.Sightings {
		v.Sightings[i].Offline = !fresh[s.HostID]
	}
	return UserError(err)
}

// FillNetworkNames adds kinds and names of networks to NICs. Each element of networks has the form "id kind name".
func FillNetworkNames(nics []fleet.NIC, networks []string) {
	for _, network := range networks {
		id, on, _ := strings.Cut(network, " ")
		kind, name, _ := strings.Cut(on, " ")
		for i, n := range nics {
			if string(n.NetworkID) == id {
				nics[i] = n.WithNetwork(n.NetworkID, fleet.NetworkKind(kind), name)
			}
		}
	}
}

// GetVM returns a VM that the actor may see. The VM is not redacted: use cases redact it with RedactVM.
func GetVM(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.VMID) (fleet.VMView, error) {
	r, err := q.GetVM(ctx, db.GetVMParams{ID: id, AllProjects: policy.SeesAllProjects(a), Projects: VisibleProjects(a)})
	if err != nil {
		return fleet.VMView{}, NotFoundError(err, "VM")
	}
	FillNetworkNames(r.VM.Spec.NICs, r.Networks)
	if err := NameDeviceClasses(ctx, q, a, &r.VM.Spec); err != nil {
		return fleet.VMView{}, err
	}
	v := VMView(r.VM, r.HostName, r.ProjectName, fleet.NewReportTime(r.LookedAt, r.FreshFor), fleet.MaintenanceState(r.HostMaintenance), r.Now)
	err = MarkOfflineSightings(ctx, q, &v, r.Now)
	return RedactVMForActions(a, v), err
}

// LockVM works like GetVM and locks the row until the transaction ends. It checks the permission in the VM's project,
// and returns a conflict if another user has locked the VM against changes, or if the VM is in the recycle bin.
func LockVM(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.VMID, permission policy.Permission) (fleet.VMView, error) {
	v, recycled, err := LockVMOrRecycled(ctx, q, a, id, permission)
	if err == nil && recycled {
		return fleet.VMView{}, fleet.Errorf(fleet.Conflict, "The VM is in the recycle bin. Restore it first.")
	}
	return v, err
}

// LockVMOrRecycled works like LockVM, also for a VM in the recycle bin.
func LockVMOrRecycled(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.VMID, permission policy.Permission) (v fleet.VMView, recycled bool, err error) {
	r, err := q.LockVM(ctx, db.LockVMParams{ID: id, AllProjects: policy.SeesAllProjects(a), Projects: VisibleProjects(a)})
	if err != nil {
		return fleet.VMView{}, false, NotFoundError(err, "VM")
	}
	if err := policy.Check(a, permission, r.VM.ProjectID); err != nil {
		return fleet.VMView{}, false, err
	}
	FillNetworkNames(r.VM.Spec.NICs, r.Networks)
	if err := NameDeviceClasses(ctx, q, a, &r.VM.Spec); err != nil {
		return fleet.VMView{}, false, err
	}
	v = VMView(r.VM, r.HostName, r.ProjectName, fleet.NewReportTime(r.LookedAt, r.FreshFor), fleet.MaintenanceState(r.HostMaintenance), r.Now)
	if err := MarkOfflineSightings(ctx, q, &v, r.Now); err != nil {
		return v, false, err
	}
	if v = RedactVMForActions(a, v); v.ChangeRefusal != "" {
		return fleet.VMView{}, false, fleet.RefusalError(v.ChangeRefusal)
	}
	return v, r.VM.RecycledAt != nil, nil
}

// VMView returns the view of a VM row at time now. seen is the time of the last inventory of the VM's host, and m the
// host's maintenance.
func VMView(r db.VM, host, project string, seen *fleet.ReportTime, m fleet.MaintenanceState, now time.Time) fleet.VMView {
	vm := VMFromRow(r)
	if seen != nil {
		seen.PoweredOff = m == fleet.MaintenancePoweredOff
	}
	if f := vm.LocationFault(host, seen, now); f != nil && vm.Status != nil {
		status := *vm.Status
		status.Faults = append([]fleet.Fault{*f}, status.Faults...)
		vm.Status = &status
	}
	if f := vm.ExpiryFault(); f != nil && vm.Status != nil {
		status := *vm.Status
		status.Faults = append(slices.Clone(status.Faults), *f)
		vm.Status = &status
	}
	if vm.ScheduleTrouble != "" && vm.Status != nil {
		status := *vm.Status
		status.Faults = append(slices.Clone(status.Faults), fleet.Fault{Code: fleet.FaultSchedule, Text: vm.ScheduleTrouble})
		vm.Status = &status
	}
	if f := vm.RuleFault(false); f != nil && vm.Status != nil {
		status := *vm.Status
		status.Faults = append(slices.Clone(status.Faults), *f)
		vm.Status = &status
	}
	return fleet.VMView{
		VM: vm, Phase: vm.Phase(seen, now), Attention: vm.NeedsAttention(seen, now), HostName: host, ProjectName: project, SeenAt: seen,
		HostMaintenance: m, StartRefusal: m.StartRefusal(host),
	}
}
