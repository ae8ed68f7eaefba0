package hostpower

import (
	"context"
	"fmt"
	"time"

	"quantix/db"
	"quantix/internal/bmc"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

var commands = map[fleet.Action]bmc.Command{fleet.ActPowerOn: bmc.PowerOn, fleet.ActForcePowerOff: bmc.PowerOff, fleet.ActReset: bmc.Reset}

// actionOf returns the action that orders the command.
func actionOf(c bmc.Command) fleet.Action {
	for act, command := range commands {
		if command == c {
			return act
		}
	}
	return ""
}

// RequestBMCPower orders the power-on, forced power-off or reset of a host through its BMC. confirmName must be the host's
// name, except for the power-on. A portal carries out the order in the background; its task ends when the BMC reports the
// wanted power state.
func (hp *HostPower) RequestBMCPower(ctx context.Context, a fleet.Actor, id fleet.HostID, act fleet.Action, confirmName string) (task fleet.Task, err error) {
	command, known := commands[act]
	if !known {
		var checks fleet.Checks
		checks.Add("action", "There is no action %q through a BMC. Use power-on, power-off or reset.", string(act))
		return task, checks.Err()
	}
	err = hp.changeHost(ctx, a, id, func(q *db.Queries, host fleet.HostView) error {
		if ok, why := host.Allows(act); !ok {
			return fleet.RefusalError(why)
		}
		if command != bmc.PowerOn && confirmName != host.Name {
			var checks fleet.Checks
			checks.Add("confirm", "Type the host's name, %s.", host.Name)
			return checks.Err()
		}
		if err := checkNotTerminating(ctx, q, host); err != nil {
			return err
		}
		id := fleet.NewID[fleet.TaskID]()
		if err := hp.addOrder(ctx, q, a, host, act, id, nil); err != nil {
			return err
		}
		task, err = store.GetTask(ctx, q, fleet.SystemActor, id)
		return err
	})
	return task, err
}

func checkNotTerminating(ctx context.Context, q *db.Queries, host fleet.HostView) error {
	open, err := q.OpenTerminationOf(ctx, &host.ID)
	if err == nil && open != "" {
		err = fleet.Errorf(fleet.Conflict, "%s is being terminated. Cancel that task first.", host.Name)
	}
	return err
}

// addOrder adds the order of an action that the locked host allows, with its task; step not nil: the order is for this
// existing task.
func (hp *HostPower) addOrder(ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostView, act fleet.Action, id fleet.TaskID, step *fleet.TaskID) error {
	row, err := q.GetBMC(ctx, host.ID)
	if err != nil {
		return store.NotFoundError(err, "BMC")
	}
	if s := row.HostBmc.Spec; s.Trust == bmc.TrustPin && s.Fingerprint == "" {
		return fleet.Errorf(fleet.Conflict, "The certificate of the BMC of %s is not pinned yet. Test the BMC first.", host.Name)
	}
	if err := checkNoOrder(ctx, q, host); err != nil {
		return err
	}
	fences, command, detail := host.NeedsFencing() && host.Lifecycle != fleet.LifecycleOffline, commands[act], ""
	if command != bmc.PowerOn {
		if !host.NeedsFencing() {
			if err := CheckNothingRuns(ctx, q, host); err != nil {
				return err
			}
		}
		if fences {
			detail = fmt.Sprintf("fencing: the host was %s, its VMs end", host.Phase.DisplayName())
		}
		if err := q.CancelWaitingOf(ctx, db.CancelWaitingOfParams{
			Subject: fleet.SubjectHost(host.ID), Kinds: []string{string(fleet.HostReboot), string(fleet.HostShutdown)},
			Error: fmt.Sprintf("Not done: %q was requested before this task started.", act.BMCJobKind().Info().Verb),
		}); err != nil {
			return err
		}
	}
	if step == nil {
		if err := q.AddPortalTask(ctx, db.AddPortalTaskParams{
			ID: id, Listed: true, HostID: &host.ID, Kind: act.BMCJobKind(), Subject: fleet.SubjectHost(host.ID), SubjectName: host.Name, CreatedBy: a.Name,
			UserID: store.ActorUserID(a), Address: a.Address,
		}); err != nil {
			return err
		}
	}
	if err := q.AddPowerOrder(ctx, db.AddPowerOrderParams{TaskID: id, HostID: host.ID, Command: command, Fences: fences}); err != nil {
		return err
	}
	return store.FirstErrorOf(audit(ctx, q, a, "host."+string(act), host, detail), func() error { return q.WakeBMCs(ctx) })
}

// Steps of an order.
const (
	stepWaiting  = "waiting"
	stepSending  = "sending"
	stepWatching = "watching"
	stepEnded    = "ended"
)

const (
	// Within is how long the BMC may take from a command to the wanted power state.
	Within = 2 * time.Minute
	// orderLease is longer than one step and the record of its result.
	orderLease = 75 * time.Second
	watchEvery = 3 * time.Second
	// MaxClaimedOrders is the maximum number of orders that ClaimPowerOrders returns.
	MaxClaimedOrders = 32
)

// Order is one step of a power order that this portal is to do now.
type Order struct {
	db.DuePowerOrdersRow
	target targetFunc
}

// ClaimPowerOrders leases the orders whose next step is due. The caller passes each of them to RunPowerOrder.
func (hp *HostPower) ClaimPowerOrders(ctx context.Context, a fleet.Actor) (out []Order, err error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	err = hp.store.Tx(ctx, func(q *db.Queries) error {
		out = nil
		due, err := q.DuePowerOrders(ctx, MaxClaimedOrders)
		if err != nil {
			return err
		}
		for _, row := range due {
			ready, err := hp.claim(ctx, q, &row)
			if err != nil {
				return err
			}
			if !ready {
				continue
			}
			row.Epoch++
			if err := q.LeasePowerOrder(ctx, db.LeasePowerOrderParams{TaskID: row.TaskID, Step: row.Step, InDoubt: row.InDoubt, Lease: orderLease, Within: Within}); err != nil {
				return err
			}
			out = append(out, Order{DuePowerOrdersRow: row, target: hp.targetOf(row.HostID, row.Spec, row.ByKey, row.Sealed)})
		}
		return nil
	})
	return out, err
}

// claim prepares the next step of an order. ready: this portal is to do it.
func (hp *HostPower) claim(ctx context.Context, q *db.Queries, row *db.DuePowerOrdersRow) (ready bool, err error) {
	switch row.Step {
	case stepWaiting:
		view, err := q.GetHost(ctx, row.HostID)
		if err != nil {
			return false, err
		}
		if why := whyNoLonger(store.HostViewFromRow(view), *row); why != "" {
			return false, endOrder(ctx, q, *row, fleet.JobFailed, "", "Not done: "+why)
		}
		n, err := q.BeginPortalTask(ctx, db.BeginPortalTaskParams{ID: row.TaskID, Note: "sending the command to the BMC"})
		if err != nil {
			return false, err
		}
		if n == 0 { // cancelled
			_, err := q.StepPowerOrder(ctx, db.StepPowerOrderParams{TaskID: row.TaskID, Epoch: row.Epoch, Step: stepEnded})
			return false, err
		}
		row.Step = stepSending
	case stepSending: // the portal that sent the command has ended before it recorded the result
		if row.Command == bmc.Reset {
			return false, endOrder(ctx, q, *row, fleet.JobUnknown, "", "The portal ended while it sent the command. Look at the host: it may have been reset.")
		}
		row.Step, row.InDoubt = stepWatching, true
	}
	return true, nil
}

// whyNoLonger returns why the host no longer permits the order; empty: it does.
func whyNoLonger(host fleet.HostView, row db.DuePowerOrdersRow) string {
	if row.Fences && row.Command != bmc.PowerOn && !host.NeedsFencing() {
		return host.Name + " is online again, and its VMs would end."
	}
	_, why := host.Allows(actionOf(row.Command))
	return why
}

// endOrder ends an order with its task.
func endOrder(ctx context.Context, q *db.Queries, row db.DuePowerOrdersRow, state fleet.JobState, note, text string) error {
	n, err := q.StepPowerOrder(ctx, db.StepPowerOrderParams{TaskID: row.TaskID, Epoch: row.Epoch, Step: stepEnded, InDoubt: row.InDoubt})
	if err != nil || n == 0 {
		return err
	}
	if state == fleet.JobDone && row.Command == bmc.PowerOff {
		if err := q.RecordPowerOff(ctx, row.HostID); err != nil {
			return err
		}
	}
	_, err = q.EndPortalTask(ctx, db.EndPortalTaskParams{ID: row.TaskID, State: state, Note: note, Error: text})
	return err
}
