package control

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// A VM is its UUID, and is where hosts say that it is. See the ADR "Where a VM is".

// SettlePlaces follows the VMs that another host runs and their own host does not, and raises the alarm for those that both run:
// once both hosts have looked since.
func (c *Control) SettlePlaces(ctx context.Context, a fleet.Actor) error {
	if err := onlySystem(a); err != nil {
		return err
	}
	moves, err := c.q.PlacesToSettle(ctx, db.PlacesToSettleParams{Fresh: fleet.Freshness})
	if err != nil {
		return dbError(err)
	}
	var errs []error
	for _, m := range moves {
		if err := c.settlePlace(ctx, a, m); err != nil {
			errs = append(errs, fmt.Errorf("place of VM %s: %w", m.VMID, err))
		}
	}
	return errors.Join(errs...)
}

// settlePlace looks again once nobody else can change the VM.
func (c *Control) settlePlace(ctx context.Context, a fleet.Actor, was db.PlacesToSettleRow) error {
	return c.tx(ctx, func(q *db.Queries) error {
		if err := q.AskAnew(ctx, texts([]fleet.HostID{was.OwnID, was.HostID})); err != nil {
			return err
		}
		vm, err := lockVM(ctx, q, a, was.VMID, policy.VMUse)
		if fleet.CodeOf(err) == fleet.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		now, err := q.PlacesToSettle(ctx, db.PlacesToSettleParams{VMID: string(was.VMID), Fresh: fleet.Freshness})
		if err != nil || len(now) == 0 || now[0] != was {
			return err
		}
		other := placeOf(vm, was.HostID)
		if was.Gone {
			detail := fmt.Sprintf("%s → %s: %s runs it, and %s does not", vm.HostName, other.HostName, other.HostName, vm.HostName)
			if err := moveVM(ctx, q, vm, other); err != nil {
				return err
			}
			return audit(ctx, q, a, "vm.follow", fleet.SubjectVM(vm.ID), vm.Name, detail)
		}
		return alarm(ctx, q, a, vm, other)
	})
}

func placeOf(vm fleet.VMView, host fleet.HostID) fleet.Place {
	places := vm.Places()
	if i := slices.IndexFunc(places, func(p fleet.Place) bool { return p.HostID == host }); i >= 0 {
		return places[i]
	}
	return fleet.Place{}
}

// alarm notes that two hosts run the VM. What waits to be done to it is not done: a deletion is taken back.
func alarm(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, other fleet.Place) error {
	if err := q.RaiseAlarm(ctx, db.RaiseAlarmParams{VMID: vm.ID, HostID: other.HostID}); err != nil {
		return err
	}
	jobs, err := q.OpenJobsOf(ctx, db.OpenJobsOfParams{Subject: fleet.SubjectVM(vm.ID), HostID: vm.HostID})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.State != fleet.JobQueued || j.Kind.Is().Aside {
			continue
		}
		if _, err := q.EndJob(ctx, db.EndJobParams{ID: j.ID, State: fleet.JobCancelled, Error: "Not done: two hosts run the VM. Say first where it is."}); err != nil {
			return err
		}
		if j.Kind == fleet.VMDelete {
			if err := q.UndoDeletion(ctx, db.UndoDeletionParams{ID: vm.ID, HostID: vm.HostID}); err != nil {
				return err
			}
		}
	}
	return audit(ctx, q, a, "vm.alarm", fleet.SubjectVM(vm.ID), vm.Name, vm.HostName+" and "+other.HostName+" both run it")
}

// moveVM makes another host, which has the VM's domain, the VM's own. Whoever calls it has locked the VM and had the old host asked
// anew, so that what is left of it there is shown. Orders go with the VM, but for those that must not be given twice or that
// destroy: a deletion has to be asked for again.
func moveVM(ctx context.Context, q *db.Queries, vm fleet.VMView, to fleet.Place) error {
	jobs, err := q.OpenJobsOf(ctx, db.OpenJobsOfParams{Subject: fleet.SubjectVM(vm.ID), HostID: vm.HostID})
	if err != nil {
		return err
	}
	moved := map[fleet.JobKind]bool{}
	for _, j := range slices.Backward(jobs) { // of two of a kind the newer one stands
		end := db.EndJobParams{ID: j.ID, State: fleet.JobCancelled}
		switch single := j.Kind.SingleShot(j.Args); {
		case j.Kind.Is().Aside:
			end.Error = "The VM moved to another host meanwhile. Open the console again."
		case single && j.Epoch > 0:
			end.State, end.Error = fleet.JobUnknown, fmt.Sprintf("The VM moved to %s meanwhile, so nobody can tell whether %s did it. Look at the VM.", to.HostName, vm.HostName)
		case single || j.Kind == fleet.VMDelete:
			end.Error = fmt.Sprintf("Not done: the VM moved to %s before. Ask again if it is still wanted.", to.HostName)
		case moved[j.Kind]:
			end.Error = "Replaced by a newer order."
		default:
			moved[j.Kind] = true
			if err := q.MoveJob(ctx, db.MoveJobParams{ID: j.ID, ToHost: to.HostID}); err != nil {
				return err
			}
			continue
		}
		if _, err := q.EndJob(ctx, end); err != nil {
			return err
		}
	}
	acted, err := q.FollowVM(ctx, db.FollowVMParams{ID: vm.ID, ToHost: to.HostID})
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Errorf(fleet.Conflict, "%s does not have the VM any more. Reload and look again.", to.HostName)
	}
	if err == nil {
		_, err = requeue(ctx, q, vm.ID, to.HostID, acted)
	}
	return err
}

// PlaceVM records where a VM is, when hosts disagree: a person has looked. The domains that other hosts have of it are shown for
// what they are and left alone. Only a host that has the VM, with its mark, can be chosen; a Conflict says why another cannot.
func (c *Control) PlaceVM(ctx context.Context, a fleet.Actor, id fleet.VMID, host fleet.HostID) (vm fleet.VMView, err error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return vm, err
	}
	if err := checkID(id, "VM"); err != nil {
		return vm, err
	}
	err = c.tx(ctx, func(q *db.Queries) error {
		was, err := getVM(ctx, q, a, id)
		if err != nil {
			return err
		}
		if err := q.AskAnew(ctx, texts([]fleet.HostID{was.HostID, host})); err != nil {
			return err
		}
		if vm, err = lockVM(ctx, q, a, id, policy.VMUse); err != nil {
			return err
		}
		to := placeOf(vm, host)
		switch {
		case was.HostID != vm.HostID:
			return fleet.Errorf(fleet.Conflict, "The VM has moved meanwhile. Reload and look again.")
		case to.HostID == "":
			return fleet.Errorf(fleet.Conflict, "That host does not say that it has this VM. Choose one that does.")
		case to.Why != "":
			return fleet.Errorf(fleet.Conflict, "%s", to.Why)
		case to.Own:
			err = q.SettleSightings(ctx, id)
		default:
			err = moveByHand(ctx, q, vm, to)
		}
		err = firstError(err, func() error {
			return audit(ctx, q, a, "vm.place", fleet.SubjectVM(id), vm.Name, placeDetail(vm, to))
		})
		if err != nil {
			return err
		}
		vm, err = getVM(ctx, q, a, id)
		return err
	})
	return vmFor(a, vm), err
}

// moveByHand also settles what all others run, the host before among them: a person has said that it is not the VM.
func moveByHand(ctx context.Context, q *db.Queries, vm fleet.VMView, to fleet.Place) error {
	if own := vm.Places()[0]; !own.Unheard && own.Power != fleet.Absent { // else, should it turn out to run there as well, that is news
		if err := q.LeaveBehind(ctx, vm.ID); err != nil {
			return err
		}
	}
	if err := moveVM(ctx, q, vm, to); err != nil {
		return err
	}
	return q.SettleSightings(ctx, vm.ID)
}

func placeDetail(vm fleet.VMView, to fleet.Place) string {
	if to.Own {
		return "stays on " + to.HostName
	}
	return vm.HostName + " → " + to.HostName
}
