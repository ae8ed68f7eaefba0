package agentapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/placing"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// A VM is identified by its UUID. If a host proves that it runs the VM, the VM is assigned to that host. See ADR 17.

// ReassignMovedVMs processes VMs that run on another host than their own, according to both hosts' latest reports. If
// the own host no longer runs the VM, the VM is assigned to the other host. If both hosts run the VM, an alarm is
// raised.
func (api *API) ReassignMovedVMs(ctx context.Context, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	moves, err := api.store.PlacesToSettle(ctx, "")
	if err != nil {
		return store.UserError(err)
	}
	var errs []error
	for _, m := range moves {
		if err := api.reassignVMOrRaiseAlarm(ctx, a, m); err != nil {
			errs = append(errs, fmt.Errorf("check the host of VM %s: %w", m.VMID, err))
		}
	}
	return errors.Join(errs...)
}

// reassignVMOrRaiseAlarm checks the VM again under its lock, and moves it or raises the alarm.
func (api *API) reassignVMOrRaiseAlarm(ctx context.Context, a fleet.Actor, was db.PlacesToSettleRow) error {
	return api.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.SkipQuota(ctx); err != nil {
			return err
		}
		if err := q.RequestFullReports(ctx, store.ToStrings([]fleet.HostID{was.OwnID, was.HostID})); err != nil {
			return err
		}
		vm, _, err := store.LockVMOrRecycled(ctx, q, a, was.VMID, policy.VMUse)
		if fleet.CodeOf(err) == fleet.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		now, err := q.PlacesToSettle(ctx, string(was.VMID))
		if err != nil || len(now) == 0 || now[0] != was {
			return err
		}
		other := ReportedLocation(vm, was.HostID)
		if was.Gone {
			detail := fmt.Sprintf("%s → %s: %s runs it, and %s does not", vm.HostName, other.HostName, other.HostName, vm.HostName)
			if err := SetVMHost(ctx, q, vm, other); err != nil {
				return err
			}
			return store.Audit(ctx, q, a, "vm.follow", fleet.SubjectVM(vm.ID), vm.Name, detail)
		}
		return raiseTwoHostsAlarm(ctx, q, a, vm, other)
	})
}

// ReportedLocation returns the host's report on the VM, or a zero VMLocation if there is none.
func ReportedLocation(vm fleet.VMView, host fleet.HostID) fleet.VMLocation {
	places := vm.Locations()
	if i := slices.IndexFunc(places, func(p fleet.VMLocation) bool { return p.HostID == host }); i >= 0 {
		return places[i]
	}
	return fleet.VMLocation{}
}

// raiseTwoHostsAlarm records that two hosts run the VM. It cancels the VM's queued jobs and withdraws a queued
// deletion. An interrupted migration stays queued, because its host must still end it.
func raiseTwoHostsAlarm(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, other fleet.VMLocation) error {
	if err := q.RaiseAlarm(ctx, db.RaiseAlarmParams{VMID: vm.ID, HostID: other.HostID}); err != nil {
		return err
	}
	jobs, err := q.OpenJobsOf(ctx, db.OpenJobsOfParams{Subject: fleet.SubjectVM(vm.ID), HostID: vm.HostID})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if interrupted := j.Kind == fleet.VMMigrate && j.Epoch > 0; j.State != fleet.JobQueued || j.Kind.Info().Background || interrupted {
			continue
		}
		if _, err := endJob(ctx, q, jobEnd{id: j.ID, state: fleet.JobCancelled, error: "Not done: two hosts run the VM. Choose the VM's host first."}); err != nil {
			return err
		}
		if j.Kind == fleet.VMDelete {
			if err := q.UndoDeletion(ctx, db.UndoDeletionParams{ID: vm.ID, HostID: vm.HostID}); err != nil {
				return err
			}
		}
	}
	return store.Audit(ctx, q, a, "vm.alarm", fleet.SubjectVM(vm.ID), vm.Name, vm.HostName+" and "+other.HostName+" both run it")
}

// SetVMHost assigns the VM to another host, which has the VM's domain. The VM must be locked. The caller has requested
// a full report from the old host, so that remaining domains there are shown. Queued jobs are moved to the new host,
// except jobs that must not run twice or that delete data, which a user must request again.
func SetVMHost(ctx context.Context, q *db.Queries, vm fleet.VMView, to fleet.VMLocation) error {
	move := hostChange{subject: fleet.SubjectVM(vm.ID), from: vm.HostID, to: to.HostID, toName: to.HostName}
	if err := moveQueuedJobsToHost(ctx, q, move); err != nil {
		return err
	}
	acted, err := q.FollowVM(ctx, db.FollowVMParams{ID: vm.ID, ToHost: to.HostID})
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Errorf(fleet.Conflict, "%s does not have the VM any more. Reload the page.", to.HostName)
	}
	if err == nil && len(vm.Spec.DeviceClasses) > 0 {
		err = placing.AllocateFreeDevices(ctx, q, vm.VM, to.HostID)
	}
	if err == nil {
		_, err = requeueVMIfChanged(ctx, q, vm.ID, to.HostID, acted)
	}
	return err
}

// hostChange is the reassignment of a VM to another host.
type hostChange struct {
	subject  fleet.Subject // the VM
	from, to fleet.HostID
	toName   string
	ownJob   fleet.JobID // the job that made the move, which stays on its host; empty: none
}

// moveQueuedJobsToHost moves the VM's open jobs to the VM's new host, except move.ownJob.
func moveQueuedJobsToHost(ctx context.Context, q *db.Queries, move hostChange) error {
	jobs, err := q.OpenJobsOf(ctx, db.OpenJobsOfParams{Subject: move.subject, HostID: move.from})
	if err != nil {
		return err
	}
	moved := map[fleet.JobKind]bool{}
	for _, j := range slices.Backward(jobs) { // if two jobs have one kind, the newer job moves
		if j.ID == move.ownJob {
			continue
		}
		e := jobEnd{id: j.ID, state: fleet.JobCancelled}
		switch single := j.Kind.IsSingleShot(j.Args); {
		case j.Kind.Info().Background:
			e.error = "The VM moved to another host meanwhile. Open the console again."
		case single && j.Epoch > 0:
			e.state, e.error = fleet.JobUnknown, fmt.Sprintf("The VM moved to %s meanwhile, so it is unknown whether %s did it. Check the VM.", move.toName, "its host before")
		case single || j.Kind == fleet.VMDelete:
			e.error = fmt.Sprintf("Not done: the VM moved to %s before. Request the action again if it is still wanted.", move.toName)
		case moved[j.Kind]:
			e.error = "Replaced by a newer order."
		default:
			moved[j.Kind] = true
			if err := q.MoveJob(ctx, db.MoveJobParams{ID: j.ID, ToHost: move.to}); err != nil {
				return err
			}
			continue
		}
		if _, err := endJob(ctx, q, e); err != nil {
			return err
		}
	}
	return nil
}
