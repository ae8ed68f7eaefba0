package api

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"quantix/internal/auth"
	"quantix/internal/control"
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

// idempotencyKeyOf returns the idempotency key of an API request, together with the request's operation, object and
// input.
func idempotencyKeyOf(c echo.Context, in any) (control.IdempotencyKey, error) {
	r := c.Request()
	request, err := json.Marshal(struct {
		Path  string
		Input any
	}{r.URL.Path, in})
	return control.IdempotencyKey{Name: r.Header.Get(idempotencyKeyHeader), Request: request, Secret: auth.BearerToken(r)}, err
}
