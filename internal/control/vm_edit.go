package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/flavors"
	"quantix/internal/control/macs"
	"quantix/internal/control/network"
	"quantix/internal/control/placing"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// UpdateVM is the input of Control.UpdateVM. nil fields do not change.
type UpdateVM struct {
	Name        *string
	Labels      map[string]string // the complete set
	Description *string
	Spec        *fleet.VMSpec // the complete spec; missing MAC addresses and volumes are filled in
	// Allow the edit to overcommit pools and the host. This needs the permission to change infrastructure.
	Overcommit   bool
	IfGeneration int64 // expected generation; 0: not checked

	grow  *diskGrowth // the growth of one disk, instead of a complete spec
	plans []imagePlan // sources for the spec's new disks
}

// UpdateVM changes a VM, raises its generation by one and queues vm.apply. If nothing changes, it writes nothing and
// the job's id is empty. A stale IfGeneration is a Conflict.
func (c *Control) UpdateVM(ctx context.Context, a fleet.Actor, id fleet.VMID, in UpdateVM) (fleet.VMView, fleet.TaskID, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.VMView{}, "", err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.VMView{}, "", err
	}
	in, err := revealEdit(ctx, c, a, id, in)
	if err != nil {
		return fleet.VMView{}, "", err
	}
	if in.plans, err = c.planNewDisks(ctx, a, id, in.Spec); err != nil {
		return fleet.VMView{}, "", err
	}
	var vm fleet.VMView
	var job fleet.TaskID
	err = c.store.Tx(ctx, func(q *db.Queries) (err error) {
		_, vm, job, err = c.updateVM(ctx, q, a, id, in, "")
		return err
	})
	if err != nil {
		return fleet.VMView{}, "", err
	}
	vm, err = c.shownVM(ctx, a, vm, nil)
	return vm, job, err
}

// updateVM works like UpdateVM within a transaction. It returns the VM before and after the edit. child is the child of
// a bulk task for the edit: see vmChange.
func (c *Control) updateVM(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.VMID, in UpdateVM, child fleet.TaskID) (old, vm fleet.VMView, job fleet.TaskID, err error) {
	if old, err = store.LockVM(ctx, q, a, id, policy.VMChange); err != nil {
		return old, vm, "", err
	}
	if in.IfGeneration != 0 && in.IfGeneration != old.Generation {
		return old, vm, "", store.ChangedMeanwhileError("VM", old.Generation, in.IfGeneration)
	}
	if ok, why := old.Allows(fleet.ActEdit); !ok {
		return old, vm, "", fleet.RefusalError(why)
	}
	if in.Spec, err = in.editedSpec(old); err != nil {
		return old, vm, "", err
	}
	vm = in.applyToVM(old)
	if err := placing.ResolveCPUModel(ctx, q, &vm.Spec); err != nil {
		return old, vm, "", err
	}
	vm.Spec.HostDevices = placing.FillDeviceHost(vm.Spec.HostDevices, old.HostID)
	if err := placing.ResolveDeviceClasses(ctx, q, a, old.ProjectID, old.Spec, &vm.Spec); err != nil {
		return old, vm, "", err
	}
	if vm.Spec.Rules, err = placing.MergeRules(a, old.Spec.Rules, vm.Spec.Rules); err != nil {
		return old, vm, "", err
	}
	entered := slices.Clone(vm.Spec.NICs)
	if _, err := network.ResolveNICs(ctx, q, old.ProjectID, vm.Spec.NICs); err != nil {
		return old, vm, "", err
	}
	if err := fillFilterSettings(ctx, q, a, old.ProjectID, old.Spec.NICs, vm.Spec.NICs); err != nil {
		return old, vm, "", err
	}
	if in.Overcommit && (vm.Spec.MemoryMiB > old.Spec.MemoryMiB || vm.Spec.CPUs > old.Spec.CPUs) {
		vm.Spec.Placement.Overcommit = true
	}
	changes := old.Diff(vm.VM)
	if err := checkEditable(old, vm, changes); err != nil || len(changes) == 0 {
		return old, vm, "", err
	}
	if err := flavors.CheckEdit(ctx, q, a, old.VM, vm.VM); err != nil {
		return old, vm, "", err
	}
	edit := vmEdit{old: old, vm: &vm, enteredNICs: entered, imagePlans: in.plans, overcommit: in.Overcommit}
	if err := edit.check(ctx, q, a, macs.Prefix(c.opts.MACPrefix)); err != nil {
		return old, vm, "", err
	}
	if err := checkDiskGrowth(ctx, q, a, old, vm.Spec, in.grow); err != nil {
		return old, vm, "", err
	}
	first, err := edit.prepareAddedDisks(ctx, q, a)
	if err != nil {
		return old, vm, "", err
	}
	if err := checkDetachable(ctx, q, old, vm.Spec); err != nil {
		return old, vm, "", err
	}
	if err := applyFirstBootEdit(ctx, q, old.VM, vm.VM); err != nil {
		return old, vm, "", err
	}
	change := vmChange{
		vm: vm, action: in.auditAction(), detail: describeChanges(old.Diff(vm.VM)) + overcommitAuditSuffix(in.Overcommit), child: child,
	}
	if vm, job, err = applyVMChange(ctx, q, a, change); err != nil {
		return old, vm, "", err
	}
	if err := placing.ReallocateDevices(ctx, q, old.Spec, vm.VM); err != nil {
		return old, vm, "", err
	}
	return old, vm, job, first.queuePreparationJobs(ctx, q, a, job)
}

// applyToVM returns the VM with the changes applied.
func (in UpdateVM) applyToVM(vm fleet.VMView) fleet.VMView {
	if in.Name != nil {
		vm.Name = *in.Name
	}
	if in.Labels != nil {
		vm.Labels = in.Labels
	}
	if in.Description != nil {
		vm.Description = *in.Description
	}
	if in.Spec != nil {
		vm.Spec = in.Spec.NormalizeDefaults()
		vm.Spec.NICs = normalizeMACs(vm.Spec.NICs)
	}
	return vm
}

// checkEditable refuses changes of fields that cannot be edited, changes that need the VM off, and invalid values.
func checkEditable(old, vm fleet.VMView, changes []fleet.Change) error {
	var checks fleet.Checks
	if vm.Spec.Power != old.Spec.Power {
		checks.Add("spec.power", "The power state cannot be edited. Use an action: start, shut down, stop, pause or resume the VM.")
	}
	first := map[fleet.Volref]int{}
	for i, d := range vm.Spec.Disks {
		switch k, twice := first[d.Ref()]; {
		case d.Volume == "":
		case twice:
			checks.Add(fmt.Sprintf("spec.disks[%d].volume", i), "Disk %d is this volume already.", k+1)
		default:
			first[d.Ref()] = i
		}
	}
	for _, c := range changes {
		switch {
		case c.When == fleet.WhenNever && reducesDiskSize(old, vm, c.Field):
			checks.Add(c.Field+".sizeBytes", "Disks cannot shrink: %s.", c.Words)
		case c.When == fleet.WhenNever && reasonNotEditable(c.Field) != "":
			checks.Add(c.Field, "This cannot be changed by an edit (%s): %s.", c.Words, reasonNotEditable(c.Field))
		case c.When == fleet.WhenNever:
			checks.Add(c.Field, "This cannot be changed by an edit: %s.", c.Words)
		case c.When == fleet.WhenPoweredOff:
			checks.Add(c.Field, "This can be changed only while the VM is off: %s. Shut it down first.", c.Words)
		}
		switch c.Field {
		case "name":
			fleet.CheckName(&checks, "name", vm.Name)
		case "labels":
			fleet.CheckLabels(&checks, "labels", vm.Labels)
		case "description":
			fleet.CheckDescription(&checks, "description", vm.Description)
		}
	}
	if len(changes) > 0 {
		vm.Spec.Check(&checks, "spec")
	}
	return checks.Err()
}

// reasonNotEditable returns the reason why an edit cannot change the field; empty: no specific reason.
func reasonNotEditable(field string) string {
	f, _ := fleet.FieldByName(strings.TrimPrefix(field, "spec."))
	return f.FixedReason
}

func describeChanges(changes []fleet.Change) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.Words
	}
	return strings.Join(texts, ", ")
}

// vmEdit is an edit of a VM. The VM is locked, and the edit is not yet written to the database.
type vmEdit struct {
	old         fleet.VMView
	vm          *fleet.VMView // the edited VM; gets the addresses of new NICs and the names of new disks
	enteredNICs []fleet.NIC   // the NICs as entered: errors may only mention these
	imagePlans  []imagePlan   // sources for new disks
	overcommit  bool
}

// check refuses new values that the VM's host does not support or that the project may not use, and assigns addresses
// to new NICs.
func (e vmEdit) check(ctx context.Context, q *db.Queries, a fleet.Actor, prefix macs.Prefix) error {
	if err := checkMayOvercommit(a, e.overcommit); err != nil {
		return err
	}
	old, vm := e.old, e.vm
	if err := checkDisksMadeExclusive(ctx, q, old, vm.Spec); err != nil {
		return err
	}
	var fresh []string
	for _, c := range old.Spec.Diff(vm.Spec, false) {
		fresh = append(fresh, c.Field)
	}
	isFresh := func(field string) bool {
		return slices.ContainsFunc(fresh, func(f string) bool { return f == field || strings.HasPrefix(field, f+".") })
	}
	isChanged := func(field string) bool { // a list's name covers its elements
		return isFresh(field) || slices.ContainsFunc(fresh, func(f string) bool { return strings.HasPrefix(f, field+"[") })
	}
	// needed contains only the fields that the host must support. Placement rules are left out: an edit may violate them,
	// and the page then shows the violated rules.
	needed := fleet.VMSpec{Firmware: vm.Spec.Firmware, NICs: make([]fleet.NIC, len(vm.Spec.NICs))}
	// needsHost is whether the check needs facts that are unknown while the host is offline. Allocated memory and CPUs are
	// known.
	needsHost := isFresh("spec.firmware")
	for _, f := range fleet.OptionalFields() {
		if isChanged("spec."+f.Name) && !f.Default(vm.Spec) && !f.PortalOnly {
			f.Copy(&needed, vm.Spec)
			needsHost = true
		}
	}
	if isChanged("spec.deviceClasses") && len(vm.Spec.DeviceClasses) > 0 {
		needed.DeviceClasses, needsHost = vm.Spec.DeviceClasses, true
	}
	disks := changedDiskFields(old.Spec, vm.Spec)
	needsHost = needsHost || len(disks.UsedFields()) > 0
	for i, n := range e.enteredNICs {
		if isFresh(fmt.Sprintf("spec.nics[%d]", i)) {
			needed.NICs[i], needsHost = changedNICFields(old.Spec.NICs, n), true
		}
	}
	if isFresh("spec.iso") && vm.Spec.ISO != nil {
		needed.ISO, needsHost = vm.Spec.ISO, true
	}
	more := false
	if vm.Spec.MemoryMiB > old.Spec.MemoryMiB {
		needed.MemoryMiB, more = vm.Spec.MemoryMiB, true
	}
	if vm.Spec.CPUs > old.Spec.CPUs {
		needed.CPUs, more = vm.Spec.CPUs, true
	}
	if vm.Spec.ReservedCPU() > old.Spec.ReservedCPU() {
		needed.CPUs, needed.CPU.Reserved, more = vm.Spec.CPUs, vm.Spec.CPU.Reserved, true
	}
	if needed.Memory.HugePageKiB > 0 { // huge pages back all of the memory
		needed.MemoryMiB, more = vm.Spec.MemoryMiB, true
	}
	if err := checkReservedFields(a, old.Spec, vm.Spec); err != nil || !needsHost && !more {
		return err
	}
	if err := network.CheckNICs(ctx, q, a, vm.ProjectID, needed.NICs); err != nil {
		return err
	}
	if err := prefix.Assign(ctx, q, a, old, vm.Spec.NICs); err != nil {
		return err
	}
	hosts, err := placing.Candidates{Host: vm.HostID, Spec: needed, VM: vm.ID}.Read(ctx, q, a)
	if err != nil || len(hosts) == 0 {
		return err
	}
	if err := placing.LockDevicesOf(ctx, q, old.Spec); err != nil {
		return err
	}
	var removed []fleet.NIC
	for _, was := range old.Spec.NICs {
		stays := false
		for i, n := range vm.Spec.NICs {
			stays = stays || n.MAC == was.MAC && !isFresh(fmt.Sprintf("spec.nics[%d]", i))
		}
		if !stays {
			removed = append(removed, was)
		}
	}
	placing.ReleaseNICCapacity(&hosts[0], removed)
	var checks fleet.Checks
	for _, f := range append(placement.Faults(needed, hosts[0]), placement.FieldFaults(disks, hosts[0])...) {
		if isFresh(f.Field) || needsHost && f.Field == "hostId" {
			checks.Add(f.Field, "%s", placementFaultText(a, f))
		}
	}
	if err := checks.Err(); err != nil {
		return err
	}
	if err := checkVolumesPublished(ctx, q, a, vm.ProjectID, sourceVolumes(needed)); err != nil || !more {
		return err
	}
	hosts[0].Overcommit = e.overcommit
	return checkAllocation(ctx, q, a, needed, hosts[0], old.Spec)
}

// checkReservedFields refuses new values of fields that only administrators may set.
func checkReservedFields(a fleet.Actor, was, edited fleet.VMSpec) error {
	var checks fleet.Checks
	for _, f := range fleet.OptionalFields() {
		switch {
		case f.ReservedReason == "" || policy.May(a, policy.InfraChange, ""):
		case f.ReservedPaths != nil:
			for _, at := range f.ReservedPaths(was, edited) {
				checks.Add("spec."+at, "Only those who may change infrastructure may choose this value of %s: %s.", f.Type, f.ReservedReason)
			}
		case !f.Default(edited) && !f.Same(was, edited):
			checks.Add("spec."+f.Name, "Only those who may change infrastructure may choose %s: %s.", f.Type, f.ReservedReason)
		}
	}
	return checks.Err()
}

// changedNICFields returns NIC n without the fields that the old NIC of the same MAC address has too. The host's
// support for those fields need not be checked again.
func changedNICFields(old []fleet.NIC, n fleet.NIC) fleet.NIC {
	k := slices.IndexFunc(old, func(o fleet.NIC) bool { return n.MAC != "" && strings.EqualFold(o.MAC, n.MAC) })
	for _, f := range fleet.NICFields {
		if k >= 0 && f.Same(old[k], n) {
			f.Copy(&n, fleet.NIC{})
		}
	}
	return n
}
