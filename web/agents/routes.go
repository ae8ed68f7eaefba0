package agents

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// Proof is the proof of the host's identity that an endpoint requires. Every proof except JoinTokenProof also requires
// that the host exists and uses the key of its latest join.
type Proof int

// The proofs.
const (
	JoinTokenProof          Proof = iota // a join token instead of a certificate
	ExpiredCertificateProof              // the host's certificate, which may have expired: for its renewal
	CertificateProof                     // the host's certificate; the call opens a session of the agent
	SessionProof                         // the certificate and the agent's session, checked before the body is read
	TransactionProof                     // like SessionProof, but control checks the session in the transaction of the call, which saves a query
)

// handler answers requests for one endpoint. a is the host that the proof identifies.
type handler func(c echo.Context, a fleet.Actor) error

// Route is the route of an endpoint. Permission is empty for JoinTokenProof.
type Route struct {
	Method, Path string
	Proof        Proof
	Permission   policy.Permission
	handle       handler // nil: the handler is claimHandler (see Register)
}

const (
	get  = http.MethodGet
	post = http.MethodPost
)

// Routes lists all endpoints.
func (e *Endpoints) Routes() []Route {
	return []Route{
		{post, wire.PathJoin, JoinTokenProof, "", requestHandler(maxRequestBytes, e.joinHost)},
		{post, wire.PathRenew, ExpiredCertificateProof, policy.ActAsAgent, bodyHandler(maxRequestBytes, e.renewCertificate)},
		{post, wire.PathHello, CertificateProof, policy.ActAsAgent, bodyHandler(maxRequestBytes, e.Control.Hello)},
		{post, wire.PathReport, TransactionProof, policy.ActAsAgent, bodyHandler(maxReportBytes, e.Control.Report)},
		{post, wire.PathHealth, SessionProof, policy.ActAsAgent, requestHandler(maxReportBytes, e.reportHealth)},
		{post, wire.PathClaim, TransactionProof, policy.ActAsAgent, nil}, // see claimHandler
		{post, wire.PathJobs + ":id/progress", SessionProof, policy.ActAsAgent, requestHandler(maxRequestBytes, e.reportProgress)},
		{post, wire.PathJobs + ":id/finish", TransactionProof, policy.ActAsAgent, requestHandler(maxReportBytes, e.finishJob)},
		{post, wire.PathResults, TransactionProof, policy.ActAsAgent, requestHandler(maxReportBytes, e.finishJobs)},
		{post, wire.PathJobs + ":id/secret", SessionProof, policy.ActAsAgent, requestHandler(maxRequestBytes, e.sendGuestSecret)},
		{post, wire.PathPools + ":id/secret", SessionProof, policy.ActAsAgent, requestHandler(maxRequestBytes, e.sendPoolSecret)},
		{post, wire.PathFirstBoots + ":id", SessionProof, policy.ActAsAgent, requestHandler(maxRequestBytes, e.sendFirstBoot)},
		{post, wire.PathTransfers + ":id/meet", SessionProof, policy.ActAsAgent, requestHandler(maxRequestBytes, e.exchangeTransferAddresses)},
		{get, wire.PathRelay + ":id", TransactionProof, policy.ActAsAgent, e.joinRelay},
		{get, wire.PathConsole + ":id", TransactionProof, policy.ActAsAgent, e.joinRelay}, // older agents
	}
}

// Register adds all endpoints to on, and sets its error handler. The middleware applies to all endpoints except
// requests for jobs. A handler runs only after the agent has given the proof that its route requires.
func (e *Endpoints) Register(on *echo.Echo, middleware ...echo.MiddlewareFunc) {
	e.echo = on
	on.HTTPErrorHandler = e.writeError
	for _, r := range e.Routes() {
		if r.Path == wire.PathClaim {
			// Requests for jobs bypass the middleware: its stack frames would take memory for each of ten thousand
			// waiting agents.
			on.Add(r.Method, r.Path, e.claimHandler(r))
			continue
		}
		on.Add(r.Method, r.Path, func(c echo.Context) error {
			a, err := e.checkProof(c, r)
			if err != nil {
				return err
			}
			return r.handle(c, a)
		}, middleware...)
	}
}
