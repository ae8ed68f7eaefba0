package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"

	"quantix/db"
	"quantix/internal/fleet"
)

// maxKey bounds an Idempotency-Key.
const maxKey = 200 // bytes

// once takes a key for what is about to be made, in the transaction that makes it. Where the same person has used the key
// for the same request within 24 h, it returns the id of what was made then; another request under the key is a Conflict.
func once(ctx context.Context, q *db.Queries, a fleet.Actor, key string, request any, id string) (made string, err error) {
	if key == "" || a.UserID == "" {
		return "", nil
	}
	if len(key) > maxKey || !printable(key) {
		return "", fleet.Errorf(fleet.Malformed, "An Idempotency-Key has at most %d printable ASCII characters.", maxKey)
	}
	text, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(text)
	if err := q.ForgetOldKey(ctx, db.ForgetOldKeyParams{UserID: a.UserID, Key: key}); err != nil {
		return "", err
	}
	n, err := q.TakeKey(ctx, db.TakeKeyParams{UserID: a.UserID, Key: key, Request: hash[:], SubjectID: id})
	if err != nil || n == 1 {
		return "", err
	}
	before, err := q.KeyTaken(ctx, db.KeyTakenParams{UserID: a.UserID, Key: key})
	if err != nil {
		return "", err
	}
	if !bytes.Equal(before.Request, hash[:]) {
		return "", fleet.Errorf(fleet.Conflict, "This Idempotency-Key was used for another request. Use a new key for a new request.")
	}
	return before.SubjectID, nil
}

func printable(s string) bool {
	for _, b := range []byte(s) {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return true
}
