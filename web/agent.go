package web

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"quantix/internal/auth"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/relay"
	"quantix/internal/wire"
	"quantix/web/bodylimit"
)

const (
	maxReportBytes       = 8 << 20   // bytes of a report, or of a job's result, which may list a pool's volumes
	maxAgentRequestBytes = 256 << 10 // bytes of an agent's other requests, such as a hello or a claim

	maxAgentValues = 512 << 10 // JSON values of a request; a host's report lists all its VMs, volumes and devices
)

// addAgentRoute adds a route of the agent API. Its handler runs only after the agent has given the proof that the
// route's kind requires.
func (s *Server) addAgentRoute(r route) {
	if r.path == wire.PathClaim {
		// without middleware, whose stack frames would take memory for each of ten thousand parked claims
		s.agentEcho.Add(r.method, r.path, s.claimHandler(r))
		return
	}
	s.agentEcho.Add(r.method, r.path, func(c echo.Context) error {
		a, err := s.checkAgentProof(c, r)
		if err != nil {
			return err
		}
		return r.handle(c, a)
	}, s.metrics.measureRequests, recoverPanic)
}

// checkAgentProof authenticates the host by the proof that the route's kind requires, and checks the route's
// permission.
func (s *Server) checkAgentProof(c echo.Context, r route) (a fleet.Actor, err error) {
	switch r.kind {
	case joinTokenProof:
		return fleet.Actor{Address: c.RealIP()}, nil
	case expiredCertificateProof:
		a, err = agentActor(c, auth.RenewableHostOf)
	default:
		a, err = agentActor(c, auth.HostOf)
	}
	if err == nil {
		err = policy.Check(a, r.permission, "")
	}
	if err == nil && r.kind == sessionProof {
		err = s.Control.CheckSession(c.Request().Context(), a)
	}
	return a, err
}

// agentActor returns the host of the verified client certificate, with the agent's session from the request's header.
func agentActor(c echo.Context, hostOf func(*x509.Certificate) (fleet.HostID, bool)) (fleet.Actor, error) {
	r := c.Request()
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		if id, ok := hostOf(r.TLS.PeerCertificates[0]); ok {
			return fleet.Actor{
				HostID: id, Name: "host " + string(id), Session: r.Header.Get(wire.SessionHeader), Address: c.RealIP(),
				KeyHash: string(auth.KeyHash(r.TLS.PeerCertificates[0])),
			}, nil
		}
	}
	return fleet.Actor{}, fleet.Errorf(fleet.Unauthorized, "Send the host's certificate. A certificate that expired more than 30 days ago cannot be renewed: open the host in Quantix and choose \"Join again\".")
}

// agentRequestHandler returns a handler that decodes a body of at most limit bytes, calls do for the authenticated
// agent and answers with the result as JSON. A nil result is answered with 204.
func agentRequestHandler[I, O any](limit int64, do func(echo.Context, fleet.Actor, I) (*O, error)) handler {
	return func(c echo.Context, a fleet.Actor) error {
		in, err := readJSON[I](c, limit)
		if err != nil {
			return err
		}
		out, err := do(c, a, in)
		switch {
		case err != nil:
			return err
		case out == nil:
			return c.NoContent(http.StatusNoContent)
		}
		return c.JSON(http.StatusOK, out)
	}
}

// agentBodyHandler is agentRequestHandler for calls that need only the body of the request.
func agentBodyHandler[I, O any](limit int64, do func(context.Context, fleet.Actor, I) (O, error)) handler {
	return agentRequestHandler(limit, func(c echo.Context, a fleet.Actor, in I) (*O, error) {
		out, err := do(c.Request().Context(), a, in)
		return &out, err
	})
}

// sendFirstBoot sends a host the first-boot data (cloud-init and the like) of one of its VMs.
func (s *Server) sendFirstBoot(c echo.Context, a fleet.Actor, in wire.FirstBootRequest) (*wire.FirstBoot, error) {
	out, err := s.Control.FirstBootFor(c.Request().Context(), a, fleet.VMID(c.Param("id")), in)
	return &out, err
}

// joinHost answers a new host's first request with a certificate for the host. The request's proof is a join token.
func (s *Server) joinHost(c echo.Context, a fleet.Actor, in wire.JoinRequest) (*wire.JoinAnswer, error) {
	out, err := s.Control.JoinHost(c.Request().Context(), a, auth.BearerToken(c.Request()), in)
	return &out, err
}

func (s *Server) renewCertificate(ctx context.Context, a fleet.Actor, in wire.RenewRequest) (wire.Certificate, error) {
	return s.Control.RenewHost(ctx, a, in.CSR)
}

func (s *Server) reportProgress(c echo.Context, a fleet.Actor, in wire.Progress) (*wire.ProgressAnswer, error) {
	answer, err := s.Control.Progress(c.Request().Context(), a, fleet.JobID(c.Param("id")), in)
	if err != nil || answer == (wire.ProgressAnswer{}) {
		return nil, err
	}
	return &answer, nil
}

func (s *Server) finishJob(c echo.Context, a fleet.Actor, in wire.Finish) (*wire.FinishAnswer, error) {
	answer, job, err := s.Control.Finish(c.Request().Context(), a, fleet.JobID(c.Param("id")), in)
	if err == nil {
		s.metrics.recordJob(job)
	}
	return &answer, err
}

// finishJobs takes the results of several jobs in one request. Each result is accepted or refused separately.
func (s *Server) finishJobs(c echo.Context, a fleet.Actor, in wire.Results) (*wire.ResultsAnswer, error) {
	if len(in.Results) == 0 {
		return nil, fleet.Errorf(fleet.Malformed, "Send at least one result.")
	}
	each, err := s.Control.FinishAll(c.Request().Context(), a, in.Results)
	if err != nil {
		return nil, err
	}
	out := &wire.ResultsAnswer{Answers: make([]wire.ResultAnswer, len(each))}
	for i, f := range each {
		if f.Err != nil {
			refused := s.refusalFromError(c, f.Err)
			out.Answers[i].Status, out.Answers[i].Detail = refused.status, refused.sentence()
			continue
		}
		out.Answers[i].FinishAnswer = f.Answer
		s.metrics.recordJob(f.Job)
	}
	return out, nil
}

// joinRelay accepts the host's end of a relay, which the agent dials for a job. An open relay stays open when the
// agent begins a new session.
func (s *Server) joinRelay(c echo.Context, a fleet.Actor) error {
	if !c.IsWebSocket() {
		return notWebsocketError()
	}
	end, err := s.Control.JoinPair(c.Request().Context(), a, fleet.PairID(c.Param("id")))
	if err != nil {
		return err
	}
	ws, err := relay.Upgrade(c.Response(), c.Request())
	if err != nil {
		return nil //nolint:nilerr // Upgrade has already answered
	}
	s.serveRelay(c.Request().Context(), a, end, ws, nil)
	return nil
}

// serveRelay connects ws, one end of a relay that control has admitted, with the relay's other end. It returns when
// the relay has ended. It calls onMessage, unless nil, for each message from ws.
func (s *Server) serveRelay(ctx context.Context, a fleet.Actor, end relay.End, ws *websocket.Conn, onMessage func()) {
	if err := s.relayBroker.Serve(ctx, end, ws, onMessage); err != nil {
		s.Log.Info("relay ended before both ends connected", "pair", end.ID(), "kind", end.Kind(), "side", end.Side(), "who", a.Name, "error", err)
	}
}

// portalStoppingError is the error response to agents while the portal shuts down.
var portalStoppingError = refusal{status: http.StatusServiceUnavailable, message: "The portal is stopping. Send the request again."}

// writeAgentError writes the response for an agent's request that failed with err.
func (s *Server) writeAgentError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	r := portalStoppingError
	if c.Request().Context().Err() == nil { // otherwise the agent has disconnected or the portal is stopping
		r = s.refusalFromError(c, convertTooLargeError(err))
	}
	if sent := writeProblem(c, r); sent != nil {
		s.Log.Debug("write an error response", "error", sent)
	}
}

// bodyBuffers pools the buffers that request data is read into. A buffer returns to the pool before the handler's work
// begins.
var bodyBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readJSON reads a whole JSON message of at most limit bytes and checks its bounds. It ignores unknown fields, because
// a newer agent may send more.
func readJSON[T any](c echo.Context, limit int64) (T, error) {
	var in T
	r := c.Request()
	if r.ContentLength > limit {
		return in, bodylimit.TooLarge(limit)
	}
	buf := bodyBuffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= maxAgentRequestBytes {
			buf.Reset()
			bodyBuffers.Put(buf)
		}
	}()
	setReadDeadline(c, time.Now().Add(bodyReadTimeout))
	defer setReadDeadline(c, time.Time{}) // a parked claim outlasts the read deadline
	if _, err := buf.ReadFrom(http.MaxBytesReader(c.Response(), r.Body, limit)); err != nil {
		if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return in, bodylimit.TooLarge(e.Limit)
		}
		return in, fleet.Errorf(fleet.Malformed, "The request was cut off. Send it again.")
	}
	if err := bodylimit.CheckValueCount(buf.Bytes(), maxAgentValues); err != nil {
		return in, err
	}
	if err := json.Unmarshal(buf.Bytes(), &in); err != nil {
		return in, fleet.Errorf(fleet.Malformed, "The JSON of the request does not fit this call: %s.", err)
	}
	return in, wire.EnforceBounds(&in)
}

func notWebsocketError() error {
	return fleet.Errorf(fleet.Malformed, "This address accepts only websocket upgrade requests.")
}
