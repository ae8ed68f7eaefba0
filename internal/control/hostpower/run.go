package hostpower

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"quantix/db"
	"quantix/internal/bmc"
	"quantix/internal/bmc/redfish"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// targetFunc returns a BMC with its decrypted password.
type targetFunc func() (redfish.Target, error)

func (hp *HostPower) targetOf(id fleet.HostID, spec bmc.Spec, key string, sealed []byte) targetFunc {
	return func() (redfish.Target, error) { return hp.open(id, spec, key, sealed) }
}

// RunPowerOrder does one step of a claimed order and records the result. It takes at most orderLease.
func (hp *HostPower) RunPowerOrder(ctx context.Context, a fleet.Actor, o Order) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	target, err := o.target()
	if err != nil {
		return hp.recordStep(ctx, o, nil, func(q *db.Queries) error { return hp.fail(ctx, q, o, err) })
	}
	if o.Step == stepSending {
		unchanged, err := hp.connector.Send(ctx, target, o.Command)
		if ctx.Err() != nil {
			return ctx.Err() // the portal stops; the next one decides what the doubt means
		}
		return hp.recordStep(ctx, o, nil, func(q *db.Queries) error { return hp.sent(ctx, q, o, unchanged, err) })
	}
	r, err := hp.connector.Read(ctx, target)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var read *bmc.Reading
	if err == nil {
		read = &r
	}
	return hp.recordStep(ctx, o, read, func(q *db.Queries) error { return hp.watched(ctx, q, o, r, err) })
}

// recordStep records the result of a step and the BMC's state that the step has read.
func (hp *HostPower) recordStep(ctx context.Context, o Order, read *bmc.Reading, do func(q *db.Queries) error) error {
	return hp.store.Tx(ctx, func(q *db.Queries) error {
		if read != nil {
			if err := recordReading(ctx, q, o.HostID, o.Generation, nil, read, nil, 0); err != nil {
				return err
			}
		}
		return store.FirstErrorOf(do(q), func() error { return q.WakeBMCs(ctx) })
	})
}

// fail ends an order that cannot be carried out. A command in doubt stays in doubt.
func (*HostPower) fail(ctx context.Context, q *db.Queries, o Order, err error) error {
	state := fleet.JobFailed
	if o.InDoubt {
		state = fleet.JobUnknown
	}
	return endOrder(ctx, q, o.DuePowerOrdersRow, state, "", err.Error())
}

// sent records the result of a sent command.
func (hp *HostPower) sent(ctx context.Context, q *db.Queries, o Order, unchanged bool, err error) error {
	if e, ok := errors.AsType[*redfish.Error](err); ok && e.InDoubt {
		if o.InDoubt = true; o.Command == bmc.Reset {
			return endOrder(ctx, q, o.DuePowerOrdersRow, fleet.JobUnknown, "", e.Text+" The host may have been reset. The command is not repeated.")
		}
		err = nil
	}
	switch {
	case err != nil:
		return hp.fail(ctx, q, o, err)
	case unchanged:
		return endOrder(ctx, q, o.DuePowerOrdersRow, fleet.JobDone, fmt.Sprintf("The BMC reported %s already.", o.Command.Wanted().DisplayName()), "")
	}
	return hp.watch(ctx, q, o, "waiting for the BMC to report "+o.Command.Wanted().DisplayName())
}

// watch lets the order wait for the next look at the power state.
func (*HostPower) watch(ctx context.Context, q *db.Queries, o Order, note string) error {
	if err := q.NotePortalTask(ctx, db.NotePortalTaskParams{ID: o.TaskID, Note: note}); err != nil {
		return err
	}
	_, err := q.StepPowerOrder(ctx, db.StepPowerOrderParams{TaskID: o.TaskID, Epoch: o.Epoch, Step: stepWatching, InDoubt: o.InDoubt, Wait: watchEvery})
	return err
}

// watched records a look at the power state.
func (hp *HostPower) watched(ctx context.Context, q *db.Queries, o Order, r bmc.Reading, err error) error {
	wanted := o.Command.Wanted()
	if err == nil && r.Power == wanted {
		return endOrder(ctx, q, o.DuePowerOrdersRow, fleet.JobDone, fmt.Sprintf("The BMC reports %s.", wanted.DisplayName()), "")
	}
	seen := "the BMC reports " + r.Power.DisplayName()
	if err != nil {
		seen = "the BMC cannot be read: " + err.Error()
	}
	if !o.Late {
		return hp.watch(ctx, q, o, seen)
	}
	switch {
	case err != nil:
		return endOrder(ctx, q, o.DuePowerOrdersRow, fleet.JobUnknown, "", fmt.Sprintf("The BMC got the command, and then could not be read for %s: %s", withinText, err))
	case o.InDoubt:
		return endOrder(ctx, q, o.DuePowerOrdersRow, fleet.JobUnknown, "",
			fmt.Sprintf("The BMC did not confirm the command, and still reports %s after %s. The command is not repeated.", r.Power.DisplayName(), withinText))
	}
	return endOrder(ctx, q, o.DuePowerOrdersRow, fleet.JobFailed, "",
		fmt.Sprintf("The BMC accepted the command, but still reports %s after %s.", r.Power.DisplayName(), withinText))
}

const withinText = "2 minutes"

const (
	readLease = 75 * time.Second
	// MaxClaimedBMCs is the maximum number of BMCs that ClaimBMCs returns.
	MaxClaimedBMCs = 64
)

// ClaimedBMC is a BMC that this portal is to read now.
type ClaimedBMC struct {
	db.LeaseBMCsRow
	target targetFunc
}

// ClaimBMCs leases the BMCs whose next read is due. The caller passes each of them to ReadBMC.
func (hp *HostPower) ClaimBMCs(ctx context.Context, a fleet.Actor) ([]ClaimedBMC, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	rows, err := hp.store.LeaseBMCs(ctx, db.LeaseBMCsParams{Lease: readLease, Most: MaxClaimedBMCs})
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make([]ClaimedBMC, 0, len(rows))
	for _, row := range rows {
		out = append(out, ClaimedBMC{row, hp.targetOf(row.HostID, row.Spec, row.ByKey, row.Sealed)})
	}
	return out, nil
}

// ReadBMC reads a claimed BMC and records the result. At the first connection it pins the BMC's certificate before it sends
// credentials. It takes at most readLease.
func (hp *HostPower) ReadBMC(ctx context.Context, a fleet.Actor, b ClaimedBMC) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	r, err := hp.read(ctx, b)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if why := unexpectedError(err); why != nil {
		return why
	}
	return hp.store.Tx(ctx, func(q *db.Queries) error {
		wait := bmc.ReadInterval
		if err != nil {
			wait *= time.Duration(min(b.Failures+1, maxBackoff))
		}
		return recordReading(ctx, q, b.HostID, b.Generation, b.AskedAt, &r, err, wait)
	})
}

// maxBackoff limits the time between two reads of a BMC that cannot be read, in multiples of bmc.ReadInterval.
const maxBackoff = 5

// unexpectedError returns an error that is not for users, such as one of the database.
func unexpectedError(err error) error {
	if _, ok := errors.AsType[*redfish.Error](err); ok || err == nil || fleet.CodeOf(err) != "" {
		return nil
	}
	return err
}

func (hp *HostPower) read(ctx context.Context, b ClaimedBMC) (bmc.Reading, error) {
	target, err := b.target()
	if err != nil {
		return bmc.Reading{}, err
	}
	if target.Trust == bmc.TrustPin && target.Fingerprint == "" {
		if target.Fingerprint, err = hp.connector.FirstFingerprint(ctx, target.Spec); err != nil {
			return bmc.Reading{}, err
		}
		n, err := hp.store.PinBMC(ctx, db.PinBMCParams{HostID: b.HostID, Generation: b.Generation, Fingerprint: target.Fingerprint})
		if err != nil {
			return bmc.Reading{}, store.UserError(err)
		}
		if n == 0 {
			return bmc.Reading{}, fleet.Errorf(fleet.Conflict, "The BMC was changed while it was read.")
		}
	}
	return hp.connector.Read(ctx, target)
}

// recordReading records the state read from a BMC, or the error of the attempt. It notifies pages of a change.
func recordReading(ctx context.Context, q *db.Queries, id fleet.HostID, generation int64, asked *time.Time, r *bmc.Reading, failed error, wait time.Duration) error {
	to := db.RecordReadingParams{HostID: id, Generation: generation, AskedAt: asked, Wait: wait, Failed: failed != nil}
	if failed != nil {
		to.Error = failed.Error()
	} else {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		to.Reading = text
	}
	changed, err := q.RecordReading(ctx, to)
	if errors.Is(err, store.NoRows) { // changed or removed meanwhile
		return nil
	}
	if err != nil || !changed {
		return err
	}
	return q.AnnounceHost(ctx, string(id))
}
