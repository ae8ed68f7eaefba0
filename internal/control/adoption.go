package control

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/adoption"
	"quantix/internal/control/agentapi"
	"quantix/internal/control/quotas"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/quota"
)

// AdoptVM is the input of Control.AdoptVM.
type AdoptVM struct {
	ProjectID fleet.ProjectID `json:"projectId"`
	Name      string          `json:"name,omitempty" doc:"Name of the VM; empty: made from the domain's name"`
}

// DiscoveredVMRef names a domain of a host that Quantix does not manage.
type DiscoveredVMRef struct {
	HostID fleet.HostID `json:"hostId"`
	ID     fleet.VMID   `json:"id"`
}

// AdoptVM requests the adoption of a discovered VM into a project. The host reads the definition, then the portal makes
// the VM, and then the host marks the domain: see agentapi. The error is a Conflict with all reasons that the portal
// already knows.
func (c *Control) AdoptVM(ctx context.Context, a fleet.Actor, host fleet.HostID, id fleet.VMID, in AdoptVM) (fleet.Task, error) {
	if err := checkMayAdopt(a, in.ProjectID); err != nil {
		return fleet.Task{}, err
	}
	var task fleet.Task
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		plan, err := planAdoption(ctx, q, a, DiscoveredVMRef{host, id}, in)
		if err != nil {
			return err
		}
		params := fleet.AdoptionParams{ProjectID: in.ProjectID, Name: plan.Name}
		if err := refuseOtherAdoption(ctx, q, DiscoveredVMRef{host, id}, plan.VM.Name, params); err != nil {
			return err
		}
		if len(plan.Refusals) > 0 {
			return fleet.Errorf(fleet.Conflict, "%s cannot be adopted: %s", plan.VM.Name, strings.Join(plan.Refusals, " "))
		}
		subject := fleet.SubjectDiscoveredVM(host, id)
		queued, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
			HostID: host, Kind: fleet.DiscoveredAdopt, Subject: subject, SubjectName: plan.VM.Name,
			Args: fleet.JobArgs{Adopt: &params},
		})
		if err != nil {
			return fmt.Errorf("queue %s: %w", fleet.DiscoveredAdopt, err)
		}
		if err := store.Audit(ctx, q, a, "found.adopt", subject, plan.VM.Name, "on "+plan.VM.HostName+" as "+plan.Name); err != nil {
			return err
		}
		task, err = store.GetTask(ctx, q, fleet.SystemActor, queued)
		return err
	})
	return task, err
}

// PlanAdoption returns what an adoption would take over, and the reasons against it that the portal knows. The host adds
// its own reasons, and the list of the parts that it keeps verbatim, when it reads the definition.
func (c *Control) PlanAdoption(ctx context.Context, a fleet.Actor, host fleet.HostID, id fleet.VMID, in AdoptVM) (plan adoption.VMPlan, err error) {
	if err := checkMayAdopt(a, in.ProjectID); err != nil {
		return plan, err
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		plan, err = planAdoption(ctx, q, a, DiscoveredVMRef{host, id}, in)
		return err
	})
	return plan, err
}

// checkMayAdopt refuses actors who may not change hosts, or may not create VMs in the project.
func checkMayAdopt(a fleet.Actor, project fleet.ProjectID) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if project == "" {
		var checks fleet.Checks
		checks.Add("projectId", "Choose the project.")
		return checks.Err()
	}
	if err := store.CheckID(project, "project"); err != nil {
		return err
	}
	return policy.Check(a, policy.VMChange, project)
}

func planAdoption(ctx context.Context, q *db.Queries, a fleet.Actor, of DiscoveredVMRef, in AdoptVM) (plan adoption.VMPlan, err error) {
	vm, err := getDiscoveredVM(ctx, q, a, of.HostID, of.ID)
	if err != nil {
		return plan, err
	}
	project, err := q.ProjectName(ctx, in.ProjectID)
	if err != nil {
		return plan, store.NotFoundError(err, "project")
	}
	pools, err := q.PoolsOfHost(ctx, of.HostID)
	if err != nil {
		return plan, err
	}
	plan = adoption.VMPlan{VM: vm, ProjectID: in.ProjectID, Name: in.Name, Disks: []adoption.PlannedDisk{}, NICs: []adoption.PlannedNIC{}, Refusals: []string{}}
	if plan.Name == "" {
		plan.Name = adoption.Name(vm.Name)
	}
	if ok, why := vm.Allows(fleet.ActAdopt); !ok {
		plan.Refusals = append(plan.Refusals, why)
	}
	wanted := agentapi.Adoption{HostID: of.HostID, ID: of.ID, Project: project, AdoptionParams: fleet.AdoptionParams{ProjectID: in.ProjectID, Name: plan.Name}}
	for _, d := range vm.Status.Disks {
		disk := adoption.PlannedDisk{DiskState: d}
		k := slices.IndexFunc(pools, func(p db.Pool) bool {
			return p.Spec.Kind.Info().FilePool && path.Clean(p.Spec.Path) == path.Dir(d.Path)
		})
		switch {
		case k >= 0:
			disk.PoolID, disk.PoolName = pools[k].ID, pools[k].Name
			wanted.Spec.Disks = append(wanted.Spec.Disks, fleet.Disk{PoolID: pools[k].ID, Volume: path.Base(d.Path)})
		case path.IsAbs(d.Path) && !strings.HasPrefix(d.Path, "/dev/"):
			plan.Refusals = append(plan.Refusals, fmt.Sprintf("Disk %s (%s): no pool of Quantix on this host has it. Adopt or create a pool with the path %s first.", d.Target, d.Path, path.Dir(d.Path)))
		}
		plan.Disks = append(plan.Disks, disk)
	}
	if err := planAdoptedNICs(ctx, q, in.ProjectID, vm, &plan, &wanted); err != nil {
		return plan, err
	}
	refusals, err := wanted.Refusals(ctx, q, pools)
	plan.Refusals = append(plan.Refusals, refusals...)
	if err != nil {
		return plan, err
	}
	over, err := quotas.Excess(ctx, q, in.ProjectID, usageOfDiscovered(vm, plan))
	plan.Refusals = append(plan.Refusals, over...)
	return plan, err
}

// usageOfDiscovered returns what the VM uses of a quota once it is adopted.
func usageOfDiscovered(vm fleet.DiscoveredVM, plan adoption.VMPlan) quota.Usage {
	u := quota.Usage{VMs: 1, CPUs: int64(vm.Status.CPUs), MemoryMiB: int64(vm.Status.MemoryMiB), NICs: int64(len(vm.Status.NICs)), Pools: map[fleet.PoolID]int64{}}
	if vm.Status.Power == fleet.Running || vm.Status.Power == fleet.Paused {
		u.RunningVMs = 1
	}
	for _, d := range plan.Disks {
		if d.PoolID != "" {
			u.DiskBytes += d.SizeBytes
			u.Pools[d.PoolID] += d.SizeBytes
		}
	}
	return u
}

// planAdoptedNICs adds the VM's NICs with their networks to the plan and to the adoption.
func planAdoptedNICs(ctx context.Context, q *db.Queries, project fleet.ProjectID, vm fleet.DiscoveredVM, plan *adoption.VMPlan, wanted *agentapi.Adoption) error {
	params := db.FindNetworksParams{ProjectID: string(project)}
	for _, n := range vm.Status.NICs {
		if kind, name, ok := adoption.ParseNICSource(n.Source); ok {
			params.Kinds, params.Names = append(params.Kinds, string(kind)), append(params.Names, name)
		}
	}
	rows, err := q.FindNetworks(ctx, params)
	if err != nil {
		return err
	}
	for _, n := range vm.Status.NICs {
		nic := adoption.PlannedNIC{NICState: n}
		kind, name, ok := adoption.ParseNICSource(n.Source)
		if k := slices.IndexFunc(rows, func(r db.FindNetworksRow) bool { return ok && r.Kind == kind && r.Name == name }); k >= 0 {
			nic.NetworkID = rows[k].ID
			wanted.Spec.NICs = append(wanted.Spec.NICs, fleet.NIC{NetworkID: rows[k].ID, MAC: n.MAC})
		}
		plan.NICs = append(plan.NICs, nic)
	}
	return nil
}

// AdoptVMs writes a task that adopts many discovered VMs into a project, each with the checks of AdoptVM. It returns
// without waiting for the children.
func (c *Control) AdoptVMs(ctx context.Context, a fleet.Actor, of []DiscoveredVMRef, project fleet.ProjectID) (fleet.Task, error) {
	if err := checkMayAdopt(a, project); err != nil {
		return fleet.Task{}, err
	}
	if err := checkDiscoveredCount(a, of); err != nil {
		return fleet.Task{}, err
	}
	input, err := json.Marshal(AdoptVM{ProjectID: project})
	if err != nil {
		return fleet.Task{}, err
	}
	return c.addDiscoveredTask(ctx, a, fleet.DiscoveredAdopt, fleet.ActAdopt, of, func(q *db.Queries, id fleet.TaskID) (detail string, err error) {
		name, err := q.ProjectName(ctx, project)
		if err != nil {
			return "", store.NotFoundError(err, "project")
		}
		return "into " + name, q.AddTaskEdit(ctx, db.AddTaskEditParams{TaskID: id, Edit: input})
	})
}

// adoptedAlreadyError returns the error about a discovered VM that its host does not report. It names the VM of Quantix that
// the discovered VM is meanwhile, if that is among vms, the VMs that the actor sees.
func adoptedAlreadyError(vms map[fleet.VMID]fleet.VMView, id fleet.VMID) error {
	vm, there := vms[id]
	switch {
	case !there:
		return store.NotFoundError(pgx.ErrNoRows, "VM")
	case vm.Adoption == nil:
		return fleet.Errorf(fleet.Conflict, "%s is a VM of Quantix already, in project %s (ID %s).", vm.Name, vm.ProjectName, id)
	}
	return fleet.Errorf(fleet.Conflict, "%s is adopted already, in project %s (ID %s).", vm.Name, vm.ProjectName, id)
}

// refuseOtherAdoption refuses an adoption while the same VM is being adopted into another project or with another name.
func refuseOtherAdoption(ctx context.Context, q *db.Queries, of DiscoveredVMRef, name string, wanted fleet.AdoptionParams) error {
	jobs, err := q.OpenJobsOf(ctx, db.OpenJobsOfParams{Subject: fleet.SubjectDiscoveredVM(of.HostID, of.ID), HostID: of.HostID})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.Kind == fleet.DiscoveredAdopt && j.Args.Adopt != nil && *j.Args.Adopt != wanted {
			return fleet.Errorf(fleet.Conflict, "%s is being adopted already, into another project or with another name. Wait until that task has ended.", name)
		}
	}
	return nil
}

// releasedAlreadyError replaces the NotFound error of a VM that is a discovered VM meanwhile. A discovered VM with the UUID
// of a VM in a project that the actor does not see is not that VM.
func releasedAlreadyError(ctx context.Context, q *db.Queries, id fleet.VMID, err error) error {
	if fleet.CodeOf(err) != fleet.NotFound {
		return err
	}
	ids := []string{string(id)}
	domains, failed := q.DomainsNamed(ctx, ids)
	if failed != nil || slices.ContainsFunc(domains, func(d db.DomainsNamedRow) bool { return !d.Found }) {
		return store.FirstErrorOf(failed, func() error { return err })
	}
	rows, failed := q.DiscoveredVMsWithIDs(ctx, ids)
	if failed != nil || len(rows) == 0 {
		return store.FirstErrorOf(failed, func() error { return err })
	}
	return fleet.Errorf(fleet.Conflict, "%s is released already: %s reports it as a discovered VM (ID %s).", rows[0].FoundVM.Name, rows[0].HostName, id)
}

// ReleaseVM asks the host to give up a VM: its domain, its guest and its disks stay, and the host reports it as a
// discovered VM. The VM's snapshots, schedules and settings are forgotten. A VM with unfinished tasks is refused.
func (c *Control) ReleaseVM(ctx context.Context, a fleet.Actor, id fleet.VMID) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.Task{}, err
	}
	var task fleet.Task
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return releasedAlreadyError(ctx, q, id, err)
		}
		if ok, why := vm.Allows(fleet.ActRelease); !ok {
			return fleet.RefusalError(why)
		}
		jobs, err := q.OpenJobsOf(ctx, db.OpenJobsOfParams{Subject: fleet.SubjectVM(id), HostID: vm.HostID})
		if err != nil {
			return err
		}
		copies, err := q.SnapshotWork(ctx, fleet.SubjectVM(id))
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if !j.Kind.Info().Background && j.Kind != fleet.VMRelease {
				return fleet.Errorf(fleet.Conflict, "The VM has the unfinished task %q. Wait until it has ended, or cancel it.", j.Kind.Info().Verb)
			}
		}
		if slices.Contains(copies, fleet.VolumeCopy) {
			return fleet.Errorf(fleet.Conflict, "Disks of a new VM are being copied from this VM's snapshots. Wait until the copy has ended, or cancel it.")
		}
		if err := store.Audit(ctx, q, a, "vm.release", fleet.SubjectVM(id), vm.Name, "on "+vm.HostName); err != nil {
			return err
		}
		task, err = queueVMJob(ctx, q, a, vm, fleet.VMRelease, fleet.JobArgs{})
		return err
	})
	return store.RedactTask(a, task), err
}
