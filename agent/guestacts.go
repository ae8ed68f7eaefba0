package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// frozenGuests holds the frozen guests and thaws each at its deadline. A freeze is recorded before the guest is frozen,
// so that after a crash the next agent thaws the guest.
type frozenGuests struct {
	mu      sync.Mutex
	byVM    map[fleet.VMID]*guestFreeze
	thawing sync.WaitGroup
}

// guestFreeze is the freeze state of one guest. The lock must be held while the guest is frozen or thawed.
type guestFreeze struct {
	lock         chan struct{} // buffer of one
	until        time.Time     // guarded by lock
	untilChanged chan struct{} // signals a new until; buffer of one
}

// freezeStateOf returns the guest's freeze state. If the state is new, freezeStateOf starts the goroutine that thaws
// the guest in time.
func (a *Agent) freezeStateOf(id fleet.VMID) *guestFreeze {
	a.freezes.mu.Lock()
	defer a.freezes.mu.Unlock()
	if a.freezes.byVM == nil {
		a.freezes.byVM = map[fleet.VMID]*guestFreeze{}
	}
	f := a.freezes.byVM[id]
	if f == nil {
		f = &guestFreeze{lock: make(chan struct{}, 1), untilChanged: make(chan struct{}, 1)}
		a.freezes.byVM[id] = f
		a.freezes.thawing.Go(func() { a.thawAtDeadline(id, f) })
	}
	return f
}

// acquire takes the guest's lock, or returns ctx's error.
func (f *guestFreeze) acquire(ctx context.Context) error {
	select {
	case f.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *guestFreeze) release() { <-f.lock }

func (f *guestFreeze) setUntil(until time.Time) {
	f.until = until
	select {
	case f.untilChanged <- struct{}{}:
	default:
	}
}

// thawGuestsLeftFrozen thaws guests that an earlier agent left frozen.
func (a *Agent) thawGuestsLeftFrozen() {
	for _, id := range a.state.frozenVMs() {
		f := a.freezeStateOf(id)
		if f.acquire(a.runContext) == nil {
			f.setUntil(time.Now())
			f.release()
		}
	}
}

// thawAtDeadline thaws the guest when its freeze expires or the agent ends. It retries failures.
func (a *Agent) thawAtDeadline(id fleet.VMID, f *guestFreeze) {
	wait := newBackoff(a.timing.retry, a.timing.restartResetPeriod)
	for {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.runContext), a.timing.thawLimit)
		err := f.acquire(ctx)
		left := time.Until(f.until)
		if err == nil {
			if !f.until.IsZero() && (left <= 0 || a.runContext.Err() != nil) {
				if err = a.thawNow(ctx, id); err == nil {
					f.until = time.Time{}
				} else {
					left = wait.NextBackOff()
					a.log.Warn("A frozen guest could not be thawed; trying again.", "vm", id, "error", err)
				}
			}
			if f.until.IsZero() {
				left = time.Hour
			}
			f.release()
		}
		cancel()
		if a.runContext.Err() != nil {
			return
		}
		select {
		case <-a.runContext.Done():
		case <-time.After(left):
		case <-f.untilChanged:
		}
	}
}

// thawNow thaws a guest and deletes the record of its freeze. A guest that is missing or off counts as thawed.
func (a *Agent) thawNow(ctx context.Context, id fleet.VMID) error {
	err := a.hypervisor.ThawGuest(ctx, id)
	if err != nil && fleet.CodeOf(err) != fleet.NotFound {
		status, _, look := a.hypervisor.VM(ctx, id)
		if look != nil || !isOff(status.Power) {
			return err
		}
	}
	return a.state.setFrozen(id, false)
}

func freezeGuest(ctx context.Context, a *Agent, j *job) error {
	var checks fleet.Checks
	seconds := fleet.DefaultFreeze
	if j.Args.Guest != nil {
		seconds = j.Args.Guest.Seconds
	}
	if fleet.CheckFreezeDuration(&checks, "seconds", seconds); checks.Err() != nil {
		return checks.Err()
	}
	f := a.freezeStateOf(j.VM.ID)
	if err := f.acquire(ctx); err != nil {
		return err
	}
	defer f.release()
	if err := a.state.setFrozen(j.VM.ID, true); err != nil {
		return fmt.Errorf("nothing was frozen, because the agent cannot record the freeze: %w", err)
	}
	err := a.hypervisor.FreezeGuest(ctx, j.VM.ID)
	if err != nil {
		f.setUntil(time.Now()) // the guest may be frozen in spite of the error
		return err
	}
	f.setUntil(time.Now().Add(time.Duration(seconds) * time.Second))
	return nil
}

func thawGuest(ctx context.Context, a *Agent, j *job) error {
	f := a.freezeStateOf(j.VM.ID)
	if err := f.acquire(ctx); err != nil {
		return err
	}
	defer f.release()
	if err := a.hypervisor.ThawGuest(ctx, j.VM.ID); err != nil {
		return err
	}
	f.until = time.Time{}
	return a.state.setFrozen(j.VM.ID, false)
}

// setGuestPassword fetches the password from the portal and sets it in the guest. Jobs do not contain passwords, and the
// agent does not store them.
func setGuestPassword(ctx context.Context, a *Agent, j *job) error {
	var checks fleet.Checks
	if j.Args.Guest == nil {
		return errors.New("the portal sent this job without the guest's user")
	}
	got, err := a.client.GuestSecret(ctx, j.ID)
	if err != nil {
		if e, ok := errors.AsType[*wire.Error](err); ok {
			return fmt.Errorf("the password cannot be fetched: %s", e.Detail)
		}
		return fmt.Errorf("fetch the password: %w", err)
	}
	a.secrets.add(got.Secret)
	fleet.CheckGuestUser(&checks, "user", j.Args.Guest.User)
	if fleet.CheckGuestPassword(&checks, "password", got.Secret); checks.Err() != nil {
		return checks.Err()
	}
	return a.hypervisor.SetGuestPassword(ctx, j.VM.ID, j.Args.Guest.User, got.Secret)
}

// addNoStatus adds no status to the job's result, because commands to a guest do not change its VM.
func addNoStatus(context.Context, *Agent, *job, *wire.Finish) {}
