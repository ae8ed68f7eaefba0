package agentapi

import (
	"context"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// JobWaiter is where the claims of one agent wait for work, one after the other. It hears of jobs between two of them as well, so a claim
// that follows a look at once need not look again.
type JobWaiter struct {
	box    *API
	of     fleet.Actor
	sub    *notify.Sub
	looked time.Time // when all that waited was taken, and nothing was announced since; zero: never
}

// worthParking is the shortest wait that spares a look.
const worthParking = 2 * time.Second

// NewJobWaiter begins to listen, before the first look, so that no job falls between.
func (box *API) NewJobWaiter(_ context.Context, a fleet.Actor) (*JobWaiter, error) {
	if err := policy.Check(a, policy.AgentTalk, ""); err != nil {
		return nil, err
	}
	return &JobWaiter{box: box, of: a, sub: box.hub.Subscribe("jobs:" + string(a.HostID))}, nil
}

// Is reports whether it is the lookout of this very agent, in the same session and with the same key.
func (l *JobWaiter) Is(of fleet.Actor) bool {
	return l.of.HostID == of.HostID && l.of.Session == of.Session && l.of.KeyHash == of.KeyHash
}

// Close ends the listening.
func (l *JobWaiter) Close() error {
	l.sub.Close()
	return nil
}

// Claim claims what waits now. Where it finds nothing it says how long to wait until the next look is due: wait less the time since the
// last one, for wake-ups may be lost.
func (l *JobWaiter) Claim(ctx context.Context, in wire.ClaimRequest, wait time.Duration) (wire.Claim, time.Duration, error) {
	woken := false
	select {
	case <-l.sub.C:
		woken = true
	default:
	}
	if rest := wait - time.Since(l.looked); !woken && !l.looked.IsZero() && rest > worthParking {
		return wire.Claim{}, rest, nil
	}
	work, err := l.take(in, func(most int32) ([]wire.Work, error) { return l.box.claimWaiting(ctx, l.of, most) })
	return wire.Claim{Jobs: work}, wait, err
}

// take claims, and remembers whether that was all that waited: who got less than it may take left nothing.
func (l *JobWaiter) take(in wire.ClaimRequest, claim func(most int32) ([]wire.Work, error)) ([]wire.Work, error) {
	now, most := time.Now(), int32(min(max(in.Max, 1), 32))
	work, err := apart(func() ([]wire.Work, error) { return claim(most) })
	if l.looked = (time.Time{}); err == nil && len(work) < int(most) {
		l.looked = now
	}
	return work, err
}

// Wait parks until a job is announced, wait has passed or hush is closed. What it has begun to claim it gives, hushed or not.
func (l *JobWaiter) Wait(ctx context.Context, in wire.ClaimRequest, wait time.Duration, hush <-chan struct{}) (wire.Claim, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-l.sub.C:
		case <-timer.C:
			return wire.Claim{}, nil
		case <-hush:
			return wire.Claim{}, nil
		case <-ctx.Done():
			return wire.Claim{}, ctx.Err()
		}
		if work, err := l.take(in, func(most int32) ([]wire.Work, error) { return l.box.claimNow(ctx, l.of, most) }); err != nil || len(work) > 0 {
			return wire.Claim{Jobs: work}, err
		}
	}
}
