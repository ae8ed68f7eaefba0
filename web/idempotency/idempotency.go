// Package idempotency runs a request at most once for each idempotency key, and stores its result for repetitions.
package idempotency

import (
	"context"
	"encoding/json"
	"fmt"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// Run runs do under an idempotency key. If the key was used before, it returns the stored result of the first run, with
// replayed set. Without a key, every call runs do.
func Run[O any](ctx context.Context, c *control.Control, a fleet.Actor, k control.IdempotencyKey, do func(context.Context) (O, error)) (out O, replayed bool, err error) {
	if k.Name == "" || a.UserID == "" {
		out, err = do(ctx)
		return out, false, err
	}
	replayed = true
	answer, err := c.RunOnce(ctx, a, k, func(ctx context.Context) ([]byte, error) {
		replayed = false
		out, err := do(ctx)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	})
	if err != nil {
		return out, false, err
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, false, fmt.Errorf("decode a stored response: %w", err)
	}
	return out, replayed, nil
}
