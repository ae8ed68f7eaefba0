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
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
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
		plan, err := planAdoption(ctx, q, DiscoveredVMRef{host, id}, in)
		if err != nil {
			return err
		}
		if len(plan.Refusals) > 0 {
			return fleet.Errorf(fleet.Conflict, "%s cannot be adopted: %s", plan.VM.Name, strings.Join(plan.Refusals, " "))
		}
		subject := fleet.SubjectDiscoveredVM(host, id)
		queued, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
			HostID: host, Kind: fleet.DiscoveredAdopt, Subject: subject, SubjectName: plan.VM.Name,
			Args: fleet.JobArgs{Adopt: &fleet.AdoptionParams{ProjectID: in.ProjectID, Name: plan.Name}},
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
		plan, err = planAdoption(ctx, q, DiscoveredVMRef{host, id}, in)
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

func planAdoption(ctx context.Context, q *db.Queries, of DiscoveredVMRef, in AdoptVM) (plan adoption.VMPlan, err error) {
	vm, err := getDiscoveredVM(ctx, q, of.HostID, of.ID)
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
	return plan, err
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
	switch {
	case a.UserID == "":
		return fleet.Task{}, fleet.Errorf(fleet.Forbidden, "Only a person can adopt several VMs at once.")
	case len(of) == 0 || len(of) > MaxBulkVMs:
		return fleet.Task{}, fleet.Errorf(fleet.Invalid, "Choose 1 to %d VMs.", MaxBulkVMs)
	}
	input, err := json.Marshal(AdoptVM{ProjectID: project})
	if err != nil {
		return fleet.Task{}, err
	}
	var task fleet.Task
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		name, err := q.ProjectName(ctx, project)
		if err != nil {
			return store.NotFoundError(err, "project")
		}
		steps, err := adoptionSteps(ctx, q, of)
		if err != nil {
			return err
		}
		id := fleet.NewID[fleet.TaskID]()
		steps.ID, steps.Kind, steps.CreatedBy, steps.UserID, steps.Address = &id, string(fleet.DiscoveredAdopt), a.Name, store.ActorUserID(a), a.Address
		err = q.AddSteps(ctx, steps)
		err = store.FirstErrorOf(err, func() error { return q.AddTaskEdit(ctx, db.AddTaskEditParams{TaskID: id, Edit: input}) })
		err = store.FirstErrorOf(err, func() error { return q.SettleParent(ctx, string(id)) })
		err = store.FirstErrorOf(err, func() error { return q.NotifyWaiters(ctx) })
		err = store.FirstErrorOf(err, func() error {
			return store.Audit(ctx, q, a, "found.adopt", fleet.SubjectTask(id), steps.Name, "into "+name)
		})
		if err != nil {
			return err
		}
		task, err = store.GetTask(ctx, q, fleet.SystemActor, id)
		return err
	})
	return task, err
}

// adoptionSteps makes one child for each discovered VM. The child of a VM that its host no longer reports, or whose state
// forbids an adoption, ends at once with the reason.
func adoptionSteps(ctx context.Context, q *db.Queries, of []DiscoveredVMRef) (steps db.AddStepsParams, err error) {
	var named db.DiscoveredVMsNamedParams
	for _, r := range of {
		named.Hosts, named.Ids = append(named.Hosts, string(r.HostID)), append(named.Ids, string(r.ID))
	}
	rows, err := q.DiscoveredVMsNamed(ctx, named)
	if err != nil {
		return steps, err
	}
	vms := map[DiscoveredVMRef]fleet.DiscoveredVM{}
	for _, r := range rows {
		vms[DiscoveredVMRef{r.FoundVM.HostID, r.FoundVM.ID}] = query.DiscoveredVMView(r.FoundVM, r.HostName, fleet.NewReportTime(r.LookedAt, r.FreshFor), fleet.MaintenanceState(r.HostMaintenance), r.Now)
	}
	seen := map[DiscoveredVMRef]bool{}
	for _, r := range of {
		if seen[r] {
			continue
		}
		seen[r] = true
		vm, known := vms[r]
		subject, name, note := fleet.SubjectDiscoveredVM(r.HostID, r.ID), vm.Name, ""
		if ok, why := vm.Allows(fleet.ActAdopt); known && !ok {
			note = why
		}
		if !known {
			subject, name, note = "", string(r.ID), store.NotFoundError(pgx.ErrNoRows, "VM").Error()
		}
		steps.Ids, steps.Subjects = append(steps.Ids, string(fleet.NewID[fleet.TaskID]())), append(steps.Subjects, string(subject))
		steps.Names, steps.Projects, steps.Errors = append(steps.Names, name), append(steps.Projects, ""), append(steps.Errors, note)
	}
	steps.Name = fmt.Sprintf("%d VMs", len(seen))
	if len(seen) == 1 {
		steps.Name = "1 VM"
	}
	return steps, nil
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
			return err
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
