package identity

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// Limits of the refusals that one portal writes to the audit log per minute, so that an attacker cannot flood the log:
// for one user, or one network for anonymous requests, and for all together.
const (
	maxRefusalsPerActor = 10
	maxRefusalsTotal    = 120
)

// auditRefusalLimiter counts the refusals that the portal has written to the audit log in the current minute.
type auditRefusalLimiter struct {
	mu           sync.Mutex
	started      time.Time
	countByActor map[string]int
	total        int
	skipped      int // refusals not written since the last entry
}

// allowEntry reports whether a refusal may be written, and how many refusals were skipped since the last entry.
func (r *auditRefusalLimiter) allowEntry(who string, now time.Time) (skipped int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.started) >= time.Minute {
		r.started, r.countByActor, r.total = now, map[string]int{}, 0
	}
	if r.total >= maxRefusalsTotal || r.countByActor[who] >= maxRefusalsPerActor {
		r.skipped++
		return 0, false
	}
	r.total++
	r.countByActor[who]++
	skipped, r.skipped = r.skipped, 0
	return skipped, true
}

// AuditRefusal writes a refused request to the audit log, within the limits. refusedActor made the request. Only the
// system actor may call AuditRefusal.
func (p *Identity) AuditRefusal(ctx context.Context, a fleet.Actor, refusedActor fleet.Actor, asked string, why *fleet.Error) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	key := string(refusedActor.UserID)
	if key == "" {
		key = singleClientNetwork(refusedActor.Address)
	}
	skipped, ok := p.refusals.allowEntry(key, time.Now())
	if !ok {
		return nil
	}
	detail := asked + ": " + why.Error()
	if skipped > 0 {
		detail += fmt.Sprintf(" (%d others were not written down)", skipped)
	}
	action := map[fleet.ErrorCode]string{fleet.TooMany: "user.throttled"}[why.Code]
	return store.UserError(store.Audit(ctx, p.store.Queries, refusedActor, cmp.Or(action, "user.refused"), userSubject(refusedActor.UserID), refusedActor.Name, detail))
}
