// Package idempotency runs requests with an Idempotency-Key at most once.
package idempotency

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

const (
	maxKeyBytes    = 200     // bytes of an Idempotency-Key
	maxAnswerBytes = 1 << 20 // bytes of a stored response
)

// Idempotency runs requests at most once. Its exported methods are use cases of control.Control.
type Idempotency struct{ store *store.Store }

// New returns an Idempotency that stores the responses.
func New(s *store.Store) *Idempotency { return &Idempotency{s} }

// Key is the value of an Idempotency-Key header, with the request that carried it.
type Key struct {
	Name    string
	Request []byte // the operation and its input; only their hash is stored
	// Secret is the API token of the request. The stored response is encrypted with the token, because responses may
	// contain secrets. The token is never stored in the database.
	Secret string
}

// RunOnce runs do at most once per key and stores its response for 24 h. do must call use cases with the context passed
// to it. All changes of do, the key and the response share one transaction, so a crash stores all of them or none.
//
// A repeated request of the same person with the same key gets the stored response. It waits while the first request is
// still running. A different request with the same key is a Conflict. Refused requests are not stored. After a deadlock
// RunOnce runs do again.
func (i *Idempotency) RunOnce(ctx context.Context, a fleet.Actor, k Key, do func(ctx context.Context) (answer []byte, err error)) ([]byte, error) {
	if err := policy.Check(a, policy.OwnAccount, ""); err != nil {
		return nil, err
	}
	if len(k.Name) > maxKeyBytes || !isPrintable(k.Name) {
		return nil, fleet.Errorf(fleet.Malformed, "An Idempotency-Key has at most %d printable ASCII characters.", maxKeyBytes)
	}
	hash := k.requestHash()
	var answer []byte
	err := i.store.RunPgxTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.ForgetOldKey(ctx, db.ForgetOldKeyParams{UserID: a.UserID, Key: k.Name}); err != nil {
			return err
		}
		mine, err := q.TakeKey(ctx, db.TakeKeyParams{UserID: a.UserID, Key: k.Name, Request: hash})
		if err != nil {
			return err
		}
		if mine == 0 {
			answer, err = readStoredAnswer(ctx, q, a, k, hash)
			return err
		}
		if answer, err = do(store.WithTx(ctx, tx)); err != nil {
			return err
		}
		if len(answer) > maxAnswerBytes {
			return fleet.Errorf(fleet.TooLarge, "The response is too large to be stored, so nothing was done. Send the request without an Idempotency-Key.")
		}
		sealed, err := auth.Seal(k.Secret, k.Name, answer)
		if err != nil {
			return err
		}
		return q.KeepAnswer(ctx, db.KeepAnswerParams{UserID: a.UserID, Key: k.Name, Answer: sealed})
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// readStoredAnswer returns the response of the first request with the key.
func readStoredAnswer(ctx context.Context, q *db.Queries, a fleet.Actor, k Key, hash []byte) ([]byte, error) {
	before, err := q.KeyInUse(ctx, db.KeyInUseParams{UserID: a.UserID, Key: k.Name})
	if err != nil {
		return nil, err
	}
	answer, ok := auth.Unseal(k.Secret, k.Name, before.Answer)
	switch {
	case !ok:
		return nil, fleet.Errorf(fleet.Conflict, "This request was done already, with the same Idempotency-Key but another API token. Only that token gets the response.")
	case !bytes.Equal(before.Request, hash):
		return nil, fleet.Errorf(fleet.Conflict, "This Idempotency-Key was used for another request. Use a new key for a new request.")
	}
	return answer, nil
}

// requestHash identifies a request. It includes the caller's secret, so nobody else can guess a password in the request
// from the hash.
func (k Key) requestHash() []byte {
	mac := hmac.New(sha256.New, []byte(k.Secret))
	mac.Write(k.Request)
	return mac.Sum(nil)
}

func isPrintable(s string) bool {
	for _, b := range []byte(s) {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return true
}
