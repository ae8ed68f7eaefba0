package agentapi

import (
	"context"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// JobWaiter serves the successive claims of one agent. It stays subscribed to the host's job wake-ups between claims. A
// claim soon after another one therefore needs no query.
type JobWaiter struct {
	api       *API
	agent     fleet.Actor
	sub       *notify.Subscription
	lastClaim time.Time // time of the last claim that took all queued jobs; zero if the next claim must query
}

// minSkippedWait is the shortest remaining wait with which a claim skips its query.
const minSkippedWait = 2 * time.Second

// NewJobWaiter returns a JobWaiter for the agent. It subscribes before the first query, so that it misses no job that
// is queued in between.
func (api *API) NewJobWaiter(_ context.Context, a fleet.Actor) (*JobWaiter, error) {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return nil, err
	}
	return &JobWaiter{api: api, agent: a, sub: api.hub.Subscribe("jobs:" + string(a.HostID))}, nil
}

// BelongsTo reports whether the waiter belongs to this agent, with the same session and key.
func (l *JobWaiter) BelongsTo(of fleet.Actor) bool {
	return l.agent.HostID == of.HostID && l.agent.Session == of.Session && l.agent.KeyHash == of.KeyHash
}

// Close ends the subscription.
func (l *JobWaiter) Close() error {
	l.sub.Close()
	return nil
}

// Claim claims queued jobs. If there are none, it returns the time until the next query is due. Queries are repeated at
// intervals of wait, because wake-ups may be lost.
func (l *JobWaiter) Claim(ctx context.Context, in wire.ClaimRequest, wait time.Duration) (wire.Claim, time.Duration, error) {
	woken := false
	select {
	case <-l.sub.C:
		woken = true
	default:
	}
	if rest := wait - time.Since(l.lastClaim); !woken && !l.lastClaim.IsZero() && rest > minSkippedWait {
		return wire.Claim{}, rest, nil
	}
	work, err := l.claimAndRecordTime(in, func(most int32) ([]wire.Work, error) { return l.api.claimIfJobQueued(ctx, l.agent, most) })
	return wire.Claim{Jobs: work}, wait, err
}

// claimAndRecordTime claims jobs. If it gets fewer jobs than the limit, no job is queued any more, and it records the time
// in lastClaim.
func (l *JobWaiter) claimAndRecordTime(in wire.ClaimRequest, claim func(most int32) ([]wire.Work, error)) ([]wire.Work, error) {
	now, most := time.Now(), int32(min(max(in.Max, 1), 32))
	work, err := runOnOwnStack(func() ([]wire.Work, error) { return claim(most) })
	if l.lastClaim = (time.Time{}); err == nil && len(work) < int(most) {
		l.lastClaim = now
	}
	return work, err
}

// Wait waits until a job is queued, wait has passed or stop is closed, and returns the claimed jobs. If stop is closed
// during a claim, Wait still returns the claim's jobs.
func (l *JobWaiter) Wait(ctx context.Context, in wire.ClaimRequest, wait time.Duration, stop <-chan struct{}) (wire.Claim, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-l.sub.C:
		case <-timer.C:
			return wire.Claim{}, nil
		case <-stop:
			return wire.Claim{}, nil
		case <-ctx.Done():
			return wire.Claim{}, ctx.Err()
		}
		if work, err := l.claimAndRecordTime(in, func(most int32) ([]wire.Work, error) { return l.api.claimNow(ctx, l.agent, most) }); err != nil || len(work) > 0 {
			return wire.Claim{Jobs: work}, err
		}
	}
}
