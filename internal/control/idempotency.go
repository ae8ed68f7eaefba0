package control

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
	maxKey    = 200     // bytes of an Idempotency-Key
	maxAnswer = 1 << 20 // bytes of an answer that is kept
)

// Key is an Idempotency-Key with what was asked under it.
type Key struct {
	Name    string
	Request []byte // the operation and its input; only a hash of it is kept
	Secret  string // the API token that came with it. The answer may hold secrets: it is kept sealed by the token, which the database never holds
}

// Once runs do, which calls other use cases with the context that it gets, and keeps the answer for 24 h. All that do changes,
// the key and the answer are one transaction: after a crash there is all of it or nothing. The same person's same request under
// the same key gets that answer again, also while the first is still at work; another request under it is a Conflict. What was
// refused is not kept. After a deadlock do runs anew.
func (c *Control) Once(ctx context.Context, a fleet.Actor, k Key, do func(ctx context.Context) (answer []byte, err error)) ([]byte, error) {
	if err := policy.Check(a, policy.Self, ""); err != nil {
		return nil, err
	}
	if len(k.Name) > maxKey || !printable(k.Name) {
		return nil, fleet.Errorf(fleet.Malformed, "An Idempotency-Key has at most %d printable ASCII characters.", maxKey)
	}
	hash := k.digest()
	var answer []byte
	err := c.store.Begin(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.ForgetOldKey(ctx, db.ForgetOldKeyParams{UserID: a.UserID, Key: k.Name}); err != nil {
			return err
		}
		mine, err := q.TakeKey(ctx, db.TakeKeyParams{UserID: a.UserID, Key: k.Name, Request: hash})
		if err != nil {
			return err
		}
		if mine == 0 {
			answer, err = answered(ctx, q, a, k, hash)
			return err
		}
		if answer, err = do(store.Within(ctx, tx)); err != nil {
			return err
		}
		if len(answer) > maxAnswer {
			return fleet.Errorf(fleet.TooLarge, "The answer is too large to be kept, so nothing was done. Send the request without an Idempotency-Key.")
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

// answered is what the request got that came first.
func answered(ctx context.Context, q *db.Queries, a fleet.Actor, k Key, hash []byte) ([]byte, error) {
	before, err := q.KeyInUse(ctx, db.KeyInUseParams{UserID: a.UserID, Key: k.Name})
	if err != nil {
		return nil, err
	}
	answer, ok := auth.Unseal(k.Secret, k.Name, before.Answer)
	switch {
	case !ok:
		return nil, fleet.Errorf(fleet.Conflict, "This was done already, under the same Idempotency-Key and another API token. Its answer is shown to that token only.")
	case !bytes.Equal(before.Request, hash):
		return nil, fleet.Errorf(fleet.Conflict, "This Idempotency-Key was used for another request. Use a new key for a new request.")
	}
	return answer, nil
}

// digest tells one request from another. A request may bear a password, so nobody without the asker's own secret can try which it was.
func (k Key) digest() []byte {
	mac := hmac.New(sha256.New, []byte(k.Secret))
	mac.Write(k.Request)
	return mac.Sum(nil)
}

func printable(s string) bool {
	for _, b := range []byte(s) {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return true
}
