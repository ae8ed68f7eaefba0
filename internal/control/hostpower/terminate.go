package hostpower

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/maintenance"
	"quantix/internal/policy"
)

// TerminateHost is the input of the use case of the same name.
type TerminateHost struct {
	Confirm string // the host's name
	// Decisions are the targets of migrations, and the shutdowns of discovered VMs; the other VMs get the plan's proposals.
	Decisions    map[fleet.VMID]fleet.MaintenanceDecision
	Overcommit   bool // migrations may exceed what the other hosts can allocate
	LeaveVolumes bool // volumes that only this host can reach stay on its disks
}

// PlanTermination returns what TerminateHost does with each VM of the host, what stays on the machine, and what powers it
// off. It changes nothing.
func (hp *HostPower) PlanTermination(ctx context.Context, a fleet.Actor, id fleet.HostID, overcommit bool) (maintenance.Termination, error) {
	var out maintenance.Termination
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return out, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return out, err
	}
	row, err := hp.store.GetHost(ctx, id)
	if err != nil {
		return out, store.NotFoundError(err, "host")
	}
	host := store.HostViewFromRow(row)
	if ok, why := host.Allows(fleet.ActTerminate); !ok {
		return out, fleet.RefusalError(why)
	}
	out.PowerOff = maintenance.PowerOffOf(host)
	if out.Entered = host.Lifecycle.InMaintenance() && host.Lifecycle != fleet.LifecycleDraining; out.Entered {
		out.Plan = maintenance.Plan{HostID: id, HostName: host.Name, VMs: []maintenance.VM{}, Targets: []maintenance.Room{}, Pools: []maintenance.Pool{}}
	} else if out.Plan, err = hp.hosts.PlanMaintenance(ctx, a, id, overcommit); err != nil {
		return out, err
	}
	out.ProposeLeaving()
	pools, err := hp.store.LocalVolumes(ctx, id)
	if err != nil {
		return out, store.UserError(err)
	}
	out.Volumes = []maintenance.LocalVolumes{}
	for _, p := range pools {
		if p.Volumes > 0 && !p.Spec.Shared && !p.Spec.Kind.Info().Shared {
			out.Volumes = append(out.Volumes, maintenance.LocalVolumes{PoolID: p.ID, PoolName: p.Name, Volumes: int(p.Volumes)})
		}
	}
	return out, nil
}

// TerminateHost drains a host, powers it off and removes it: as a task with these steps, which AdvanceTerminations begins
// one after the other. It refuses before it begins if a VM would have to stop or to stay.
func (hp *HostPower) TerminateHost(ctx context.Context, a fleet.Actor, id fleet.HostID, in TerminateHost) (task fleet.Task, err error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return task, err
	}
	if a.UserID == "" {
		return task, fleet.Errorf(fleet.Forbidden, "Only a person can terminate a host.")
	}
	err = hp.store.RunPgxTx(ctx, func(tx pgx.Tx) error {
		q, ctx := db.New(tx), store.WithTx(ctx, tx)
		host, err := lockHost(ctx, q, id)
		if err != nil {
			return err
		}
		plan, err := hp.PlanTermination(ctx, a, id, in.Overcommit)
		if err != nil {
			return err
		}
		chosen, err := checkTermination(ctx, q, host, plan, in)
		if err != nil {
			return err
		}
		task, err = hp.beginTermination(ctx, q, a, host, plan, chosen, in.Overcommit)
		return err
	})
	return task, err
}

// checkTermination refuses a termination that would leave something of Quantix on the host without a decision. It returns
// the decision about each VM.
func checkTermination(ctx context.Context, q *db.Queries, host fleet.HostView, plan maintenance.Termination, in TerminateHost) (map[fleet.VMID]fleet.MaintenanceDecision, error) {
	var checks fleet.Checks
	if in.Confirm != host.Name {
		checks.Add("confirm", "Type the host's name, %s.", host.Name)
	}
	if len(plan.Volumes) > 0 && !in.LeaveVolumes {
		checks.Add("leaveVolumes", "These volumes would stay on the machine's disks: %s. Copy or delete them, or confirm that they stay.", plan.VolumesText())
	}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	if err := checkNotTerminating(ctx, q, host); err != nil {
		return nil, err
	}
	if err := checkNoOrder(ctx, q, host); err != nil {
		return nil, err
	}
	if plan.Entered {
		if err := checkNoVMs(ctx, q, host); err != nil {
			return nil, err
		}
	}
	recycled, err := q.RecycledOnHost(ctx, db.RecycledOnHostParams{HostID: host.ID, Online: true})
	if err != nil {
		return nil, err
	}
	if recycled > 0 {
		return nil, fleet.Errorf(fleet.Conflict, "%s of %s in the recycle bin. Purge or restore them first.", fleet.CountWithUnit(int(recycled), "VM"), host.Name)
	}
	return plan.DecideLeaving(in.Decisions)
}

// checkNoVMs refuses if a VM is on the host.
func checkNoVMs(ctx context.Context, q *db.Queries, host fleet.HostView) error {
	vms, err := q.VMsOnHost(ctx, host.ID)
	if err != nil || len(vms) == 0 {
		return err
	}
	if len(vms) > 3 {
		vms[3] = "others"
	}
	return fleet.Errorf(fleet.Conflict, "%s has %s. Migrate or delete these VMs first.", host.Name, strings.Join(vms, ", "))
}

// beginTermination adds the task with its steps, and begins the first one.
func (hp *HostPower) beginTermination(
	ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostView, plan maintenance.Termination, chosen map[fleet.VMID]fleet.MaintenanceDecision, overcommit bool,
) (fleet.Task, error) {
	id, user := fleet.NewID[fleet.TaskID](), store.ActorUserID(a)
	if err := q.AddTermination(ctx, db.AddTerminationParams{ID: string(id), HostID: &host.ID, Name: host.Name, CreatedBy: a.Name, UserID: user, Address: a.Address}); err != nil {
		return fleet.Task{}, err
	}
	drain, err := hp.drain(ctx, q, a, host, plan, chosen, overcommit)
	if err != nil {
		return fleet.Task{}, err
	}
	if err := q.TakeStep(ctx, db.TakeStepParams{ID: drain, ParentID: string(id)}); err != nil {
		return fleet.Task{}, err
	}
	off := fleet.HostPowerOff
	if plan.PowerOff == maintenance.PowerOffByAgent {
		off = fleet.HostShutdown
	}
	for _, kind := range []fleet.JobKind{off, fleet.HostRemoval} {
		if err := q.AddPortalTask(ctx, db.AddPortalTaskParams{
			ID: fleet.NewID[fleet.TaskID](), ParentID: &id, HostID: &host.ID, Kind: kind, Subject: fleet.SubjectHost(host.ID), SubjectName: host.Name,
			CreatedBy: a.Name, UserID: user, Address: a.Address, Note: "waiting for the previous step",
		}); err != nil {
			return fleet.Task{}, err
		}
	}
	if err := q.SettleParent(ctx, string(id)); err != nil {
		return fleet.Task{}, err
	}
	if err := audit(ctx, q, a, "host."+string(fleet.ActTerminate), host, auditText(plan)); err != nil {
		return fleet.Task{}, err
	}
	return store.GetTask(ctx, q, fleet.SystemActor, id)
}

func auditText(plan maintenance.Termination) string {
	text := "powered off by the " + map[maintenance.PowerOff]string{maintenance.PowerOffByAgent: "agent", maintenance.PowerOffByBMC: "BMC"}[plan.PowerOff]
	if plan.PowerOff == maintenance.PowerOffNone {
		text = "powered off already"
	}
	if len(plan.Volumes) > 0 {
		text += ", volumes stay: " + plan.VolumesText()
	}
	return text
}

// drain lets the host enter maintenance, and returns the task.
func (hp *HostPower) drain(
	ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostView, plan maintenance.Termination, chosen map[fleet.VMID]fleet.MaintenanceDecision, overcommit bool,
) (fleet.TaskID, error) {
	if !plan.Entered {
		t, err := hp.hosts.DrainHost(ctx, a, host.ID, chosen, overcommit)
		return t.ID, err
	}
	row, err := q.NoteDone(ctx, db.NoteDoneParams{
		ID: fleet.NewID[fleet.TaskID](), HostID: &host.ID, Kind: fleet.HostMaintenanceEnter, Subject: fleet.SubjectHost(host.ID), SubjectName: host.Name,
		Note: "The host was in maintenance already.", CreatedBy: a.Name, UserID: store.ActorUserID(a),
	})
	return row.ID, err
}
