// Package web serves HTTP: pages, fragments and event streams for browsers, /api/v1 for API clients, /agent/v1 for
// agents. It has the server, the middleware, sessions, errors, event streams, consoles, uploads and downloads. A
// handler decodes the request, calls control and renders the result: package web/vmpages has the pages of VMs,
// web/pages all other pages, web/api the operations of /api/v1, web/agents the endpoints of /agent/v1. routes.go lists
// all routes except those of web/api and web/agents. Each resource type has files like those of pools: pages/pools.go
// for the list, pages/pool.go for the object's page, pages/pool_new.go and others for its forms, api/pools.go for the
// API.
package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/alexedwards/scs/v2"
	"github.com/labstack/echo/v4"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/notify"
	"quantix/internal/relay"
	"quantix/web/agents"
	"quantix/web/api"
	"quantix/web/options"
	"quantix/web/pages"
	"quantix/web/render"
	"quantix/web/vmpages"
)

// Options configure a Server. TrustedProxies, Ready, Certificates and Log are optional.
type Options struct {
	Control        *control.Control
	Hub            *notify.Hub
	Sessions       *scs.SessionManager // from auth.Sessions
	Log            *slog.Logger
	PublicURL      string         // address of the portal in browsers: "https://quantix.example.org"
	Secure         bool           // browsers connect over TLS, directly or through a proxy
	TrustedProxies []netip.Prefix // proxies whose X-Forwarded-For header is trusted
	Version        string
	Ready          func(context.Context) error // readiness check of /readyz
	RelayBytes     int64                       // limit in bytes per second for traffic that this portal relays between hosts; 0: none
	Pool           func() DatabasePoolStat     // database pool statistics for /metrics; nil: none
	Certificates   func() []auth.Validity      // this portal's certificates, for /metrics and the dashboard; nil: none
}

// Server serves browsers and API clients with Handler, and joined hosts with AgentHandler.
type Server struct {
	Options
	origin         *http.CrossOriginProtection
	pageEcho       *echo.Echo
	agentEcho      *echo.Echo
	routeTable     map[string]route // by method and path
	streamsPerUser userStreamCounts
	programs       programLimits
	userLimiter    *userLimiter
	sharedRenderer sharedRenderer
	refreshRate    *refreshRate

	refreshSlots chan struct{} // slots of automatic page refreshes; the capacity is the maximum number of concurrent refreshes

	relayBroker      *relay.Broker
	transfersPerUser userTransferCounts
	metrics          *metrics

	renderer *render.Renderer
	pages    *pages.Site   // the pages and forms, except those of VMs
	vmPages  *vmpages.Site // the pages and forms of VMs

	api    *api.API          // the operations of /api/v1
	agents *agents.Endpoints // the endpoints of /agent/v1
}

// New returns a server for o. The caller serves Handler and AgentHandler on its listeners.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Certificates == nil {
		o.Certificates = func() []auth.Validity { return nil }
	}
	s := &Server{Options: o, origin: http.NewCrossOriginProtection(), streamsPerUser: newUserStreamCounts(maxStreamsPerUser, 0), programs: newProgramLimits(o.Pool), userLimiter: newUserLimiter(o.Pool), sharedRenderer: sharedRenderer{queues: map[sharedRequestKey]*renderQueue{}}, refreshRate: newRefreshRate(), refreshSlots: make(chan struct{}, maxConcurrentRefreshes()), relayBroker: relay.NewBroker(consoleRelayConfig, uploadRelayConfig, downloadRelayConfig, hostRelayConfig(o.RelayBytes))}
	s.metrics = s.newMetrics()
	s.renderer = &render.Renderer{Control: o.Control, PublicURL: o.PublicURL, BeforeResponse: releaseRefreshSlot, BeginExportRead: s.beginExportRead}
	selects := &options.Reader{Control: o.Control}
	s.pages = &pages.Site{
		Renderer: s.renderer, Options: selects, Sessions: o.Sessions, SignedInAt: s.signedInAt, BeginSession: s.beginSession,
		Certificates: func() []auth.Validity { return s.Certificates() },
	}
	s.vmPages = &vmpages.Site{Renderer: s.renderer, Options: selects, Sessions: o.Sessions}
	s.api = &api.API{Control: o.Control, Version: o.Version, Actor: actorOf, Problem: s.apiProblem, NewConsoleTicket: s.newConsoleTicket, NewDiscoveredConsoleTicket: s.newDiscoveredConsoleTicket, OpenEvents: s.openEvents, WaitForTask: s.waitForTask}
	s.agents = &agents.Endpoints{
		Control: o.Control, Log: o.Log, Problem: s.agentProblem, ServeRelay: s.serveRelay,
		CountClaim: s.metrics.countClaim, RecordJob: s.metrics.recordJob, ParkedClaims: &s.metrics.parkedClaims,
	}
	if u, err := url.Parse(o.PublicURL); err == nil && u.Host != "" {
		// Behind a proxy, the Host header may differ from the address that the browser shows. An invalid PublicURL is
		// ignored here.
		_ = s.origin.AddTrustedOrigin(u.Scheme + "://" + u.Host)
	}
	s.pageEcho = s.newEcho()
	s.pageEcho.Use(
		s.metrics.measureRequests,
		drainBodyAfterRefusal,
		assignRequestID,
		s.logAccess, // turns errors of the middleware and handlers below into responses, and logs each request
		recoverPanic,
		unescapeParams,
		s.findRoute, // looks up the route, which the middleware below uses
		s.limitRefreshes,
		limitClientReadTime,
		s.setSecurityHeaders,
		limitBodySize,
		limitRequestTime,
		s.requireSameOrigin,
		s.authenticate,    // authenticates by session or bearer token; otherwise anonymous
		s.checkPermission, // checks the route's permission
		s.limitPerUser,
	)
	s.agentEcho = s.newEcho()
	s.routeTable = map[string]route{}
	for _, r := range s.routes() {
		s.routeTable[r.method+" "+r.path] = r
		if r.handle != nil {
			s.pageEcho.Add(r.method, r.path, func(c echo.Context) error { return r.handle(c, actorOf(c)) })
		}
	}
	s.api.Register(s.pageEcho)
	s.agents.Register(s.agentEcho, s.metrics.measureRequests, recoverPanic)
	return s
}

// Handler returns the handler for browsers and API clients.
func (s *Server) Handler() http.Handler { return s.pageEcho }

// AgentHandler returns the handler for agents. The listener that serves it must request client certificates.
func (s *Server) AgentHandler() http.Handler { return s.agentEcho }

func (s *Server) newEcho() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.writeError
	e.IPExtractor = ipExtractor(s.TrustedProxies)
	return e
}

// ipExtractor trusts X-Forwarded-For only from the given proxies; echo's default trusts it from every client.
func ipExtractor(proxies []netip.Prefix) echo.IPExtractor {
	if len(proxies) == 0 {
		return echo.ExtractIPDirect()
	}
	trust := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		p = p.Masked()
		trust = append(trust, echo.TrustIPRange(&net.IPNet{
			IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(trust...)
}
