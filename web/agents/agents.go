// Package agents serves the endpoints of the hosts' agents, /agent/v1, on a separate listener. routes.go lists all
// endpoints, each with the proof of the host's identity that it requires.
package agents

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/policy"
	"quantix/internal/relay"
	"quantix/internal/wire"
	"quantix/web/bodylimit"
	"quantix/web/problem"
)

const (
	maxReportBytes  = 8 << 20   // bytes of a report, or of a job's result, which may list a pool's volumes
	maxRequestBytes = 256 << 10 // bytes of an agent's other requests, such as a hello or a claim

	maxValues = 512 << 10 // JSON values of a request; a host's report lists all its VMs, volumes and devices
)

// Endpoints serves agents. All exported fields must be set before Register.
type Endpoints struct {
	Control *control.Control
	Log     *slog.Logger

	// Problem returns the response to a request that failed with an error, and logs the error.
	Problem func(echo.Context, error) *problem.Body
	// ServeRelay connects ws, one end of a relay, with the other end, and returns when the relay has ended. control has
	// checked that the agent may join the relay. tap, which may be nil, is this end's.
	ServeRelay func(ctx context.Context, a fleet.Actor, end relay.End, ws *websocket.Conn, tap *relay.Tap)

	// Metrics.
	CountClaim   func(wire.Claim, error) // counts a request for jobs by its result
	RecordJob    func(fleet.Job)         // records a job's result and duration
	ParkedClaims *atomic.Int64           // number of agents' requests that wait for jobs

	echo *echo.Echo
}

// checkProof authenticates the host by the proof that the route requires, and checks the route's permission.
func (e *Endpoints) checkProof(c echo.Context, r Route) (a fleet.Actor, err error) {
	switch r.Proof {
	case JoinTokenProof:
		return fleet.Actor{Address: c.RealIP()}, nil
	case ExpiredCertificateProof:
		a, err = agentActor(c, auth.HostOfRenewableCert)
	default:
		a, err = agentActor(c, auth.HostOf)
	}
	if err == nil {
		err = policy.Check(a, r.Permission, "")
	}
	if err == nil && r.Proof == SessionProof {
		err = e.Control.CheckSession(c.Request().Context(), a)
	}
	return a, err
}

// agentActor returns the host of the verified client certificate as an actor, with the agent's session from the
// request's header.
func agentActor(c echo.Context, hostOf func(*x509.Certificate) (fleet.HostID, bool)) (fleet.Actor, error) {
	r := c.Request()
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		if id, ok := hostOf(r.TLS.PeerCertificates[0]); ok {
			return fleet.Actor{
				HostID: id, Name: "host " + string(id), Session: r.Header.Get(wire.SessionHeader), Address: c.RealIP(),
				KeyHash: string(auth.KeyHash(r.TLS.PeerCertificates[0])), CertificateEnd: r.TLS.PeerCertificates[0].NotAfter,
			}, nil
		}
	}
	return fleet.Actor{}, fleet.Errorf(fleet.Unauthorized, "Send the host's certificate. A certificate that expired more than 30 days ago cannot be renewed: open the host in Quantix and choose \"Join again\".")
}

// requestHandler returns a handler that decodes a body of at most limit bytes, calls do for the authenticated agent and
// answers with the result as JSON. A nil result is answered with 204.
func requestHandler[I, O any](limit int64, do func(echo.Context, fleet.Actor, I) (*O, error)) handler {
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

// bodyHandler is requestHandler for calls that need only the body of the request.
func bodyHandler[I, O any](limit int64, do func(context.Context, fleet.Actor, I) (O, error)) handler {
	return requestHandler(limit, func(c echo.Context, a fleet.Actor, in I) (*O, error) {
		out, err := do(c.Request().Context(), a, in)
		return &out, err
	})
}

// sendFirstBoot sends a host the first-boot data (cloud-init and the like) of one of its VMs.
func (e *Endpoints) sendFirstBoot(c echo.Context, a fleet.Actor, in wire.FirstBootRequest) (*wire.FirstBoot, error) {
	out, err := e.Control.FirstBootForHost(c.Request().Context(), a, fleet.VMID(c.Param("id")), in)
	return &out, err
}

// joinHost answers a new host's first request with a certificate for the host. The request's proof is a join token.
func (e *Endpoints) joinHost(c echo.Context, a fleet.Actor, in wire.JoinRequest) (*wire.JoinAnswer, error) {
	out, err := e.Control.JoinHost(c.Request().Context(), a, auth.BearerToken(c.Request()), in)
	return &out, err
}

func (e *Endpoints) renewCertificate(ctx context.Context, a fleet.Actor, in wire.RenewRequest) (wire.Certificate, error) {
	return e.Control.RenewHost(ctx, a, in.CSR)
}

func (e *Endpoints) reportHealth(c echo.Context, a fleet.Actor, in healthevent.Report) (*struct{}, error) {
	return nil, e.Control.ReportHealth(c.Request().Context(), a, in)
}

func (e *Endpoints) reportProgress(c echo.Context, a fleet.Actor, in wire.Progress) (*wire.ProgressAnswer, error) {
	answer, err := e.Control.Progress(c.Request().Context(), a, fleet.JobID(c.Param("id")), in)
	if err != nil || answer == (wire.ProgressAnswer{}) {
		return nil, err
	}
	return &answer, nil
}

func (e *Endpoints) finishJob(c echo.Context, a fleet.Actor, in wire.Finish) (*wire.FinishAnswer, error) {
	answer, job, err := e.Control.Finish(c.Request().Context(), a, fleet.JobID(c.Param("id")), in)
	if err == nil {
		e.RecordJob(job)
	}
	return &answer, err
}

// finishJobs accepts the results of several jobs in one request. Each result is accepted or refused separately.
func (e *Endpoints) finishJobs(c echo.Context, a fleet.Actor, in wire.Results) (*wire.ResultsAnswer, error) {
	if len(in.Results) == 0 {
		return nil, fleet.Errorf(fleet.Malformed, "Send at least one result.")
	}
	each, err := e.Control.FinishAll(c.Request().Context(), a, in.Results)
	if err != nil {
		return nil, err
	}
	out := &wire.ResultsAnswer{Answers: make([]wire.ResultAnswer, len(each))}
	for i, f := range each {
		if f.Err != nil {
			refused := e.Problem(c, f.Err)
			out.Answers[i].Status, out.Answers[i].Detail = refused.Status, refused.Detail
			continue
		}
		out.Answers[i].FinishAnswer = f.Answer
		e.RecordJob(f.Job)
	}
	return out, nil
}

// sendGuestSecret sends a host the secret, such as a password, that a job sets in the VM's guest.
func (e *Endpoints) sendGuestSecret(c echo.Context, a fleet.Actor, _ struct{}) (*wire.GuestSecret, error) {
	out, err := e.Control.GuestSecret(c.Request().Context(), a, fleet.JobID(c.Param("id")))
	return &out, err
}

// sendPoolSecret sends a host the secret of a pool that is assigned to the host.
func (e *Endpoints) sendPoolSecret(c echo.Context, a fleet.Actor, _ struct{}) (*wire.PoolSecret, error) {
	out, err := e.Control.PoolSecret(c.Request().Context(), a, fleet.PoolID(c.Param("id")))
	return &out, err
}

// exchangeTransferAddresses exchanges addresses and tickets between the two hosts of a transfer: it stores those of
// the calling host and returns those of the other host.
func (e *Endpoints) exchangeTransferAddresses(c echo.Context, a fleet.Actor, in wire.TransferState) (*wire.TransferPeerState, error) {
	out, err := e.Control.ExchangeTransferData(c.Request().Context(), a, fleet.TransferID(c.Param("id")), in)
	return &out, err
}

// joinRelay serves the host's end of a relay, which the agent dials for a job. An open relay stays open when the agent
// begins a new session.
func (e *Endpoints) joinRelay(c echo.Context, a fleet.Actor) error {
	if !c.IsWebSocket() {
		return relay.NotWebsocketError()
	}
	end, err := e.Control.JoinRelay(c.Request().Context(), a, fleet.PairID(c.Param("id")))
	if err != nil {
		return err
	}
	ws, err := relay.Upgrade(c.Response(), c.Request())
	if err != nil {
		return nil //nolint:nilerr // Upgrade has already answered
	}
	e.ServeRelay(c.Request().Context(), a, end, ws, nil)
	return nil
}

// stoppingProblem is the error response to agents while the portal shuts down.
var stoppingProblem = problem.New(http.StatusServiceUnavailable, "The portal is stopping. Send the request again.")

// writeError writes the response for a failed request of an agent.
func (e *Endpoints) writeError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	p := stoppingProblem
	if c.Request().Context().Err() == nil { // otherwise the agent has disconnected or the portal is stopping
		p = e.Problem(c, err)
	}
	if sent := problem.Write(c, p); sent != nil {
		e.Log.Debug("write an error response", "error", sent)
	}
}

// bodyBuffers pools the buffers for request bodies. A buffer returns to the pool before the handler uses the decoded
// request.
var bodyBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readJSON reads a whole JSON message of at most limit bytes and checks its limits. It ignores unknown fields, because
// a newer agent may send more.
func readJSON[T any](c echo.Context, limit int64) (T, error) {
	var in T
	r := c.Request()
	if r.ContentLength > limit {
		return in, bodylimit.TooLargeError(limit)
	}
	buf := bodyBuffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= maxRequestBytes {
			buf.Reset()
			bodyBuffers.Put(buf)
		}
	}()
	bodylimit.SetReadDeadline(c.Response(), time.Now().Add(bodylimit.ReadTimeout))
	defer bodylimit.SetReadDeadline(c.Response(), time.Time{}) // the read deadline must not end a request that then waits for jobs
	if _, err := buf.ReadFrom(http.MaxBytesReader(c.Response(), r.Body, limit)); err != nil {
		if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return in, bodylimit.TooLargeError(e.Limit)
		}
		return in, fleet.Errorf(fleet.Malformed, "The request was cut off. Send it again.")
	}
	if err := bodylimit.CheckValueCount(buf.Bytes(), maxValues); err != nil {
		return in, err
	}
	if err := json.Unmarshal(buf.Bytes(), &in); err != nil {
		return in, fleet.Errorf(fleet.Malformed, "The JSON of the request cannot be decoded: %s.", err)
	}
	return in, wire.EnforceBounds(&in)
}
