package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/agentconn"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

var claimURL = &url.URL{Path: wire.PathClaim}

// claimHandler returns the handler of agents' requests for jobs (claims), which wait until the host has a job. On an
// agent connection a claim waits outside of net/http, on other connections within its HTTP request.
func (e *Endpoints) claimHandler(r Route) echo.HandlerFunc {
	here := e.claimWithinRequest(r)
	return func(c echo.Context) error {
		req := c.Request()
		conn := agentconn.ConnFromContext(req.Context())
		if conn == nil || !req.ProtoAtLeast(1, 1) || req.Close {
			return here(c)
		}
		return e.claimOnConnection(conn, c, r)
	}
}

// claimOnConnection answers with the host's queued jobs. Without queued jobs, it parks the claim: the HTTP request ends
// without a response, and the claim waits on its agent connection.
func (e *Endpoints) claimOnConnection(conn *agentconn.Conn, c echo.Context, r Route) error {
	a, err := e.checkProof(c, r)
	if err != nil {
		return err
	}
	in, err := readJSON[wire.ClaimRequest](c, maxRequestBytes)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	out, ok := conn.Value().(*control.JobWaiter)
	if !ok || !out.BelongsTo(a) {
		if out, err = e.Control.NewJobWaiter(ctx, a); err != nil {
			return err
		}
		conn.SetValue(out)
	}
	claim, wait, err := out.Claim(ctx, in, wire.ClaimWait)
	if err != nil || len(claim.Jobs) > 0 {
		return e.answerClaim(c, claim, err)
	}
	parked, err := conn.Park(c.Response(), c.Request().Header.Get(wire.SharedConnHeader) != "")
	if err == nil {
		go e.waitWithParkedClaim(parked, out, in, wait)
	}
	return nil // Park fails only on a lost connection, where nobody can receive an answer
}

// waitWithParkedClaim waits for a job and then answers the parked claim. No other code runs for a parked claim. The
// stack is small on purpose: BenchmarkParkedAgents measures it.
func (e *Endpoints) waitWithParkedClaim(p *agentconn.ParkedConn, out *control.JobWaiter, in wire.ClaimRequest, wait time.Duration) {
	e.ParkedClaims.Add(1)
	claim, err := out.Wait(p.Context(), in, wait, p.AnswerDue())
	e.ParkedClaims.Add(-1)
	e.answerParkedClaim(p, claim, err)
}

// claimWithinRequest returns a handler whose claim waits within the HTTP request. The body is read to its end first,
// because net/http notices a disconnect only then. A separate goroutine checks the proof and reads the body, so that
// its stack is freed before the claim waits (see control.Claim).
func (e *Endpoints) claimWithinRequest(r Route) echo.HandlerFunc {
	return func(c echo.Context) error {
		var a fleet.Actor
		var in wire.ClaimRequest
		read := make(chan error)
		go func() {
			var err error
			defer func() {
				if p := recover(); p != nil { // a panic in this goroutine would end the portal
					err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				}
				read <- err
			}()
			if a, err = e.checkProof(c, r); err == nil {
				in, err = readJSON[wire.ClaimRequest](c, maxRequestBytes)
			}
		}()
		if err := <-read; err != nil {
			return err
		}
		e.ParkedClaims.Add(1)
		out, err := e.Control.Claim(c.Request().Context(), a, in, wire.ClaimWait)
		e.ParkedClaims.Add(-1)
		return e.answerClaim(c, out, err)
	}
}

func (e *Endpoints) answerClaim(c echo.Context, out wire.Claim, err error) error {
	e.CountClaim(out, err)
	switch {
	case err != nil:
		return err
	case len(out.Jobs) == 0:
		return c.NoContent(http.StatusNoContent)
	}
	return c.JSON(http.StatusOK, out)
}

// answerParkedClaim is answerClaim for a parked claim, whose HTTP request has already ended.
func (e *Endpoints) answerParkedClaim(p *agentconn.ParkedConn, out wire.Claim, err error) {
	e.CountClaim(out, err)
	answer := &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}}
	var body any
	switch {
	case err != nil:
		refused := stoppingProblem
		if p.Context().Err() == nil {
			refused = e.Problem(e.echo.NewContext((&http.Request{Method: http.MethodPost, URL: claimURL}).WithContext(context.Background()), nil), err)
		}
		answer.StatusCode, body = refused.Status, refused
		answer.Header.Set(echo.HeaderContentType, refused.ContentType(""))
	case len(out.Jobs) > 0:
		answer.StatusCode, body = http.StatusOK, out
		answer.Header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil { // the host gets the jobs again when their lease has expired
			e.Log.Error("write a claim's answer", "error", err)
			answer.StatusCode = http.StatusInternalServerError
		}
		answer.ContentLength, answer.Body = int64(len(text)), io.NopCloser(bytes.NewReader(text))
	}
	p.Answer(answer)
}
