package web

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

// claimHandler returns the handler of agents' requests for jobs, which waits for a job. On an agent connection the
// handler waits outside of net/http, on other connections within the request.
func (s *Server) claimHandler(r route) echo.HandlerFunc {
	here := s.claimWithinRequest(r)
	return func(c echo.Context) error {
		req := c.Request()
		conn := agentconn.ConnFromContext(req.Context())
		if conn == nil || !req.ProtoAtLeast(1, 1) || req.Close {
			return here(c)
		}
		return s.claimOnConnection(conn, c, r)
	}
}

// claimOnConnection answers with the host's queued jobs. Without queued jobs, the claim stays parked on its agent
// connection.
func (s *Server) claimOnConnection(conn *agentconn.Conn, c echo.Context, r route) error {
	a, err := s.checkAgentProof(c, r)
	if err != nil {
		return err
	}
	in, err := readJSON[wire.ClaimRequest](c, maxAgentRequestBytes)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	out, ok := conn.Value().(*control.JobWaiter)
	if !ok || !out.BelongsTo(a) {
		if out, err = s.Control.NewJobWaiter(ctx, a); err != nil {
			return err
		}
		conn.SetValue(out)
	}
	claim, wait, err := out.Claim(ctx, in, wire.ClaimWait)
	if err != nil || len(claim.Jobs) > 0 {
		return s.answerClaim(c, claim, err)
	}
	parked, err := conn.Park(c.Response(), c.Request().Header.Get(wire.SharedConnHeader) != "")
	if err == nil {
		go s.waitWithParkedClaim(parked, out, in, wait)
	}
	return nil // Park fails only on a lost connection, where nobody can receive an answer
}

// waitWithParkedClaim is the only code that runs while a claim is parked. Its stack is small on purpose:
// BenchmarkParkedAgents measures it.
func (s *Server) waitWithParkedClaim(p *agentconn.ParkedConn, out *control.JobWaiter, in wire.ClaimRequest, wait time.Duration) {
	s.metrics.parkedClaims.Add(1)
	claim, err := out.Wait(p.Context(), in, wait, p.AnswerDue())
	s.metrics.parkedClaims.Add(-1)
	s.answerParkedClaim(p, claim, err)
}

// claimWithinRequest returns a handler whose claim waits within the request. The handler reads the body to its end
// first, so that net/http notices a disconnect and cancels the claim. A separate goroutine checks the proof and reads
// the body: its stack is freed before the claim waits (see control.Claim).
func (s *Server) claimWithinRequest(r route) echo.HandlerFunc {
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
			if a, err = s.checkAgentProof(c, r); err == nil {
				in, err = readJSON[wire.ClaimRequest](c, maxAgentRequestBytes)
			}
		}()
		if err := <-read; err != nil {
			return err
		}
		s.metrics.parkedClaims.Add(1)
		out, err := s.Control.Claim(c.Request().Context(), a, in, wire.ClaimWait)
		s.metrics.parkedClaims.Add(-1)
		return s.answerClaim(c, out, err)
	}
}

func (s *Server) answerClaim(c echo.Context, out wire.Claim, err error) error {
	s.metrics.countClaim(out, err)
	switch {
	case err != nil:
		return err
	case len(out.Jobs) == 0:
		return c.NoContent(http.StatusNoContent)
	}
	return c.JSON(http.StatusOK, out)
}

// answerParkedClaim is answerClaim for a parked claim, whose HTTP request has ended.
func (s *Server) answerParkedClaim(p *agentconn.ParkedConn, out wire.Claim, err error) {
	s.metrics.countClaim(out, err)
	answer := &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}}
	var body any
	switch {
	case err != nil:
		r := portalStoppingError
		if p.Context().Err() == nil {
			r = s.refusalFromError(s.agentEcho.NewContext((&http.Request{Method: http.MethodPost, URL: claimURL}).WithContext(context.Background()), nil), err)
		}
		refused := r.problem()
		answer.StatusCode, body = r.status, refused
		answer.Header.Set(echo.HeaderContentType, refused.ContentType(""))
	case len(out.Jobs) > 0:
		answer.StatusCode, body = http.StatusOK, out
		answer.Header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil { // the host gets the jobs again after their lease has expired
			s.Log.Error("write a claim's answer", "error", err)
			answer.StatusCode = http.StatusInternalServerError
		}
		answer.ContentLength, answer.Body = int64(len(text)), io.NopCloser(bytes.NewReader(text))
	}
	p.Answer(answer)
}
