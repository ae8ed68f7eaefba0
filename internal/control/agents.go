package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// Hello opens the agent's session and ends the one before it, whose jobs go back to the queue. A second agent with the
// host's identity on another machine, or in a copy of its data directory, is refused while the first one is alive, and the host is flagged.
func (c *Control) Hello(ctx context.Context, a fleet.Actor, in wire.Hello) (wire.HelloAnswer, error) {
	if err := policy.Check(a, policy.AgentTalk, ""); err != nil {
		return wire.HelloAnswer{}, err
	}
	session := newSession()
	answer := wire.HelloAnswer{Session: session}
	var twin bool
	err := c.tx(ctx, func(q *db.Queries) error {
		now, err := q.LockHostSession(ctx, a.HostID)
		if err != nil {
			return noHost(err)
		}
		if err := sameKey(now.KeyHash, a); err != nil {
			return err
		}
		twin = false
		if now.Live && now.Instance != in.Instance && now.Fingerprint != in.Fingerprint {
			twin = true
			text := fmt.Sprintf("A second agent with this host's identity asked to connect from %s.", a.Address)
			if err := q.FlagConflict(ctx, db.FlagConflictParams{HostID: a.HostID, Conflict: text}); err != nil {
				return err
			}
			if now.Conflict != text {
				err = audit(ctx, q, a, "host.conflict", fleet.Subject("host:"+string(a.HostID)), now.Name, text)
			}
			return firstError(err, func() error { return q.AnnounceHost(ctx, string(a.HostID)) })
		}
		number, err := q.OpenHostSession(ctx, db.OpenHostSessionParams{
			HostID: a.HostID, Session: hashSession(session), Instance: in.Instance, Fingerprint: in.Fingerprint,
		})
		answer.SeqBase = number << 32
		host := string(a.HostID)
		if err == nil && now.Instance != in.Instance { // a new process: what it leaves, it may have died of
			err = giveUp(ctx, q, &host)
		}
		return firstError(err, func() error { return returnJobs(ctx, q, &host) })
	})
	if err == nil && twin {
		err = fleet.Errorf(fleet.Conflict, "Another agent already speaks for this host. Stop it, or remove the copied identity and join again.")
	}
	return answer, err
}

// sessionEnded refuses an agent whose session another hello has ended, or whose host was removed.
func (c *Control) sessionEnded() error {
	return fleet.Errorf(fleet.Conflict, "This agent's session has ended. Say hello again.")
}

func noHost(err error) error {
	if e := notFound(err, "host"); fleet.CodeOf(e) == fleet.NotFound {
		return fleet.Errorf(fleet.Unauthorized, "This host was removed from Quantix. Join it again.")
	}
	return dbError(err)
}

func newSession() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

func hashSession(s string) []byte {
	h := sha256.Sum256([]byte(s))
	return h[:]
}

func firstError(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}
