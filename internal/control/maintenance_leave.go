package control

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/maintenance"
	"quantix/internal/policy"
)

// PlanLeave returns the VMs that leaving maintenance starts, and those that it can bring back.
func (c *Control) PlanLeave(ctx context.Context, a fleet.Actor, id fleet.HostID) (maintenance.LeavePlan, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return maintenance.LeavePlan{}, err
	}
	host, err := c.GetHost(ctx, a, id)
	if err != nil {
		return maintenance.LeavePlan{}, err
	}
	if err := conflictIfNotAllowed(host.Allows(fleet.ActLeaveMaintenance)); err != nil {
		return maintenance.LeavePlan{}, err
	}
	m := *host.Maintenance
	if _, err := recordMaintenanceResults(ctx, c.store.Queries, &m); err != nil {
		return maintenance.LeavePlan{}, store.UserError(err)
	}
	return planLeave(ctx, c.store.Queries, a, id, m)
}

func planLeave(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.HostID, m fleet.HostMaintenance) (maintenance.LeavePlan, error) {
	plan := maintenance.LeavePlan{Start: []fleet.NamedVM{}, Moved: []maintenance.ReturningVM{}}
	ids := slices.Clone(m.Stopped)
	for _, v := range m.Moved {
		ids = append(ids, v.VMID)
	}
	vms, err := visibleVMs(ctx, q, a, ids)
	if err != nil {
		return plan, err
	}
	for _, of := range m.Stopped {
		if vm, ok := vms[of]; ok && vm.HostID == id && !isOn(vm.Status) && vm.DeletedAt == nil {
			plan.Start = append(plan.Start, fleet.NamedVM{ID: vm.ID, Name: vm.Name})
		}
	}
	for _, of := range m.Moved {
		if vm, ok := vms[of.VMID]; ok && vm.HostID != id && vm.DeletedAt == nil {
			v := maintenance.ReturningVM{ID: vm.ID, Name: vm.Name, HostName: vm.HostName}
			v.Allowed, v.Reason = vm.AllowsMigration(nil, nil)
			plan.Moved = append(plan.Moved, v)
		}
	}
	return plan, nil
}

// LeaveMaintenance ends a host's maintenance. It writes a task that starts the VMs that the maintenance shut down and
// migrates the VMs of bringBack back to the host.
func (c *Control) LeaveMaintenance(ctx context.Context, a fleet.Actor, id fleet.HostID, bringBack []fleet.VMID) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return fleet.Task{}, err
	}
	if err := onlyPersonMaintains(a); err != nil {
		return fleet.Task{}, err
	}
	var task fleet.Task
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		host, _, err := lockMaintainedHost(ctx, q, id, fleet.ActLeaveMaintenance)
		if err != nil {
			return err
		}
		plan, err := planLeave(ctx, q, a, id, *host.Maintenance)
		if err != nil {
			return err
		}
		var children []hostTaskChild
		for _, vm := range plan.Start {
			children = append(children, hostTaskChild{kind: fleet.VMStart, subject: fleet.SubjectVM(vm.ID), name: vm.Name})
		}
		var checks fleet.Checks
		for _, of := range bringBack {
			i := slices.IndexFunc(plan.Moved, func(v maintenance.ReturningVM) bool { return v.ID == of })
			switch {
			case i < 0:
				checks.Add("bringBack", "The maintenance of %s did not move the VM %s, or it is back or deleted.", host.Name, of)
			case !plan.Moved[i].Allowed:
				checks.Add("bringBack", "%s: %s", plan.Moved[i].Name, plan.Moved[i].Reason)
			default:
				children = append(children, hostTaskChild{kind: fleet.VMMigrate, subject: fleet.SubjectVM(of), name: plan.Moved[i].Name, input: MigrateVM{HostID: id}})
			}
		}
		if err := checks.Err(); err != nil {
			return err
		}
		if err := fillProjects(ctx, q, a, children); err != nil {
			return err
		}
		if err := q.SetMaintenance(ctx, db.SetMaintenanceParams{ID: id}); err != nil {
			return err
		}
		if err := q.ForgetPowerOff(ctx, id); err != nil {
			return err
		}
		if err := cancelHostPower(ctx, q, id); err != nil {
			return err
		}
		if task, err = addHostTask(ctx, q, a, host, fleet.HostMaintenanceLeave, children, "no VM had to be started or moved"); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "host.leaveMaintenance", fleet.SubjectHost(id), host.Name, fmt.Sprintf("%d started, %d brought back", len(plan.Start), len(children)-len(plan.Start)))
	})
	return task, err
}

// fillProjects sets the projects of the children's VMs.
func fillProjects(ctx context.Context, q *db.Queries, a fleet.Actor, children []hostTaskChild) error {
	ids := make([]fleet.VMID, len(children))
	for i, child := range children {
		_, id := child.subject.ResourceAndID()
		ids[i] = fleet.VMID(id)
	}
	vms, err := visibleVMs(ctx, q, a, ids)
	for i := range children {
		children[i].project = vms[ids[i]].ProjectID
	}
	return err
}
