package agentapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// Hello opens a session for the agent and ends its previous session, whose jobs return to the queue. While an agent is
// alive, an agent with the same host identity on another machine is refused, for example one with a copied data
// directory. The host is then flagged with the conflict.
func (api *API) Hello(ctx context.Context, a fleet.Actor, in wire.Hello) (wire.HelloAnswer, error) {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return wire.HelloAnswer{}, err
	}
	a.Session = newSessionSecret()
	answer := wire.HelloAnswer{Session: a.Session}
	var duplicate bool
	err := api.store.Tx(ctx, func(q *db.Queries) error {
		now, err := q.LockHostSession(ctx, a.HostID)
		if err != nil {
			return hostRemovedError(err)
		}
		if err := checkSameKey(now.KeyHash, a); err != nil {
			return err
		}
		duplicate = false
		if now.Live && now.Instance != in.Instance && now.Fingerprint != in.Fingerprint {
			duplicate = true
			text := fmt.Sprintf("A second agent with this host's identity asked to connect from %s.", a.Address)
			if err := q.FlagConflict(ctx, db.FlagConflictParams{HostID: a.HostID, Conflict: text}); err != nil {
				return err
			}
			if now.Conflict != text {
				err = store.Audit(ctx, q, a, "host.conflict", fleet.Subject("host:"+string(a.HostID)), now.Name, text)
			}
			return store.FirstErrorOf(err, func() error { return q.AnnounceHost(ctx, string(a.HostID)) })
		}
		opened, err := q.OpenHostSession(ctx, db.OpenHostSessionParams{
			HostID: a.HostID, Session: hashAgentSession(a), Instance: in.Instance, Fingerprint: in.Fingerprint, CertificateEnd: certificateEnd(a),
		})
		answer.SeqBase, answer.At = opened.Number<<32, opened.Now
		err = store.FirstErrorOf(err, func() error {
			return q.NumberAnew(ctx, db.NumberAnewParams{HostID: a.HostID, Base: answer.SeqBase})
		})
		host := string(a.HostID)
		// The agent has restarted, perhaps because a job crashed it. End jobs with too many attempts instead of queueing them
		// again.
		if err == nil && now.Instance != in.Instance {
			err = endExhaustedJobs(ctx, q, &host)
		}
		return store.FirstErrorOf(err, func() error { return requeueExpiredJobs(ctx, q, &host) })
	})
	if err == nil && duplicate {
		err = fleet.Errorf(fleet.Conflict, "Another agent is connected as this host already. Stop that agent, or remove the copied identity and join again.")
	}
	return answer, err
}

func certificateEnd(a fleet.Actor) *time.Time {
	if a.CertificateEnd.IsZero() {
		return nil
	}
	return &a.CertificateEnd
}

// CheckSession returns an error if a newer Hello has ended the agent's session, or if another key opened the session.
func (api *API) CheckSession(ctx context.Context, a fleet.Actor) error {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return err
	}
	return store.UserError(checkSession(ctx, api.store.Queries, a))
}

func checkSession(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	mine, err := q.HasHostSession(ctx, db.HasHostSessionParams{HostID: a.HostID, Session: hashAgentSession(a)})
	if err == nil && !mine {
		return sessionEndedError()
	}
	return err
}

// lockAgentSession works like CheckSession, locks the session until the transaction ends, and returns its number. A
// later session of the host has a higher number.
func lockAgentSession(ctx context.Context, q *db.Queries, a fleet.Actor) (number int64, err error) {
	number, err = q.LockSessionOfHost(ctx, db.LockSessionOfHostParams{HostID: a.HostID, Session: hashAgentSession(a)})
	if errors.Is(err, pgx.ErrNoRows) {
		err = sessionEndedError()
	}
	return number, err
}

// checkSessionNumber rejects a report or result whose sequence number is outside the range of its agent session. A
// higher number would outrank reports of later sessions; a lower one would lose against earlier sessions.
func checkSessionNumber(ctx context.Context, q *db.Queries, a fleet.Actor, seq int64) error {
	number, err := lockAgentSession(ctx, q, a)
	return store.FirstErrorOf(err, func() error { return checkSequenceNumber(number, seq) })
}

// checkSequenceNumber works like checkSessionNumber, but takes the number of the session.
func checkSequenceNumber(session, seq int64) error {
	if seq>>32 != session {
		return fleet.Errorf(fleet.Invalid, "The number %d is too low for this session: its numbers are above %d. Send hello again.", seq, session<<32)
	}
	return nil
}

// sessionEndedError is the error for an agent whose session a newer Hello ended, or whose host was removed.
func sessionEndedError() error {
	return fleet.Errorf(fleet.Conflict, "This agent's session has ended. Send hello again.")
}

func hostRemovedError(err error) error {
	if e := store.NotFoundError(err, "host"); fleet.CodeOf(e) == fleet.NotFound {
		return fleet.Errorf(fleet.Unauthorized, "This host was removed from Quantix. Join it again.")
	}
	return store.UserError(err)
}

func newSessionSecret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// hashAgentSession returns the stored hash of an agent's session. The hash includes the agent's key, so a leaked
// session token is useless without that key.
func hashAgentSession(a fleet.Actor) []byte {
	h := sha256.Sum256([]byte(a.Session + a.KeyHash))
	return h[:]
}
