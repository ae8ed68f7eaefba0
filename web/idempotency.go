package web

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// idempotencyKeyHeader names the request header with the idempotency key, which makes a POST to /api/v1 safe to repeat.
const idempotencyKeyHeader = "Idempotency-Key"

func idempotencyKeyParam() *huma.Param {
	return &huma.Param{
		Name: idempotencyKeyHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(200)},
		Description: "Makes the request safe to repeat: for 24 h the same request with the same key gets the first response again, with Idempotent-Replay: true, and has no second effect",
	}
}

// replayedResponseHeader marks a response as the stored response of an earlier request with the same Idempotency-Key.
const replayedResponseHeader = "Idempotent-Replay"

// runIdempotent runs do under an idempotency key. If the key was used before, it returns the result of that first run
// instead, with replayed set. Without a key, every call runs do.
func runIdempotent[O any](ctx context.Context, s *Server, a fleet.Actor, k control.IdempotencyKey, do func(context.Context) (O, error)) (out O, replayed bool, err error) {
	if k.Name == "" || a.UserID == "" {
		out, err = do(ctx)
		return out, false, err
	}
	replayed = true
	answer, err := s.Control.RunOnce(ctx, a, k, func(ctx context.Context) ([]byte, error) {
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

// idempotencyKeyOf returns the idempotency key of an API request, together with its operation, object and input.
func idempotencyKeyOf(c echo.Context, in any) (control.IdempotencyKey, error) {
	r := c.Request()
	request, err := json.Marshal(struct {
		Path  string
		Input any
	}{r.URL.Path, in})
	return control.IdempotencyKey{Name: r.Header.Get(idempotencyKeyHeader), Request: request, Secret: bearerToken(r)}, err
}
