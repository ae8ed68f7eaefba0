// Package web is HTTP in and out: pages, fragments and streams for browsers, /api/v1 for programs, /agent/v1 for hosts.
// A handler decodes, calls control, renders. echo lives only here; see routes.go for everything that can be asked, and submit.go
// for what all forms do. Of a noun, vms.go is the list, vm.go the object, vm_new.go and the like its parts, and api_vms.go the same
// for programs.
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
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/relay"
)

// Options are what the server is made of. All but TrustedProxies, Ready, Certificates and Log are needed.
type Options struct {
	Control        *control.Control
	Hub            *notify.Hub
	Sessions       *scs.SessionManager // made by auth.Sessions
	Log            *slog.Logger
	PublicURL      string         // what browsers open: "https://quantix.example.org"
	Secure         bool           // browsers come over TLS, directly or through a proxy
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	Version        string
	Ready          func(context.Context) error // what /readyz asks
	RelayBytes     int64                       // a second, at most, of what hosts send each other by way of this portal; 0: as fast as it goes
	Pool           func() PoolStat             // for /metrics; nil: it says nothing of the database
	Certificates   func() []auth.Validity      // of this portal, for /metrics and the dashboard; nil: none
}

// Server answers browsers and programs by Handler, and joined hosts by AgentHandler.
type Server struct {
	Options
	origin  *http.CrossOriginProtection
	pages   *echo.Echo
	agents  *echo.Echo
	table   map[string]route // by method and path
	streams streamCount
	turns   *limiter
	parts   parts
	pace    *refreshRate

	refreshes chan struct{} // has room for those that are answered at the same time

	pairs   *relay.Broker
	seats   seats
	metrics *metrics

	description func() ([]byte, error) // of /api/v1, as OpenAPI
}

// New makes a server; it listens nowhere.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Certificates == nil {
		o.Certificates = func() []auth.Validity { return nil }
	}
	s := &Server{Options: o, origin: http.NewCrossOriginProtection(), streams: streamCount{open: map[fleet.UserID]int{}}, turns: newTurns(o.Pool), parts: parts{asked: map[question]*askers{}}, pace: newPace(), refreshes: make(chan struct{}, refreshesAtOnce()), pairs: relay.New(consoles, uploads, downloads, relayed(o.RelayBytes))}
	s.metrics = s.newMetrics()
	if u, err := url.Parse(o.PublicURL); err == nil && u.Host != "" {
		// A proxy may hand on another Host than the one browsers see. An address that is no origin is simply not added.
		_ = s.origin.AddTrustedOrigin(u.Scheme + "://" + u.Host)
	}
	s.pages = s.newEcho()
	s.pages.Use(
		s.metrics.observe,
		hearOut,
		requestID,
		s.logAccess, // outside all that can fail: it turns errors into answers and notes what was sent
		recoverPanic,
		plainParams,
		s.find, // which route of the table this is; the rest below depends on it
		s.measure,
		rollDeadline,
		s.secure,
		limitBody,
		limitTime,
		s.sameOrigin,
		s.identify, // who asks: session, bearer token or nobody
		s.admit,    // the route's right
		s.takeTurns,
	)
	s.agents = s.newEcho()
	s.agents.HTTPErrorHandler = s.failAgent
	s.table = map[string]route{}
	for _, r := range s.routes() {
		s.table[r.method+" "+r.path] = r
		switch {
		case r.kind.ofAgents():
			s.addForAgents(r)
		case r.handle != nil:
			s.pages.Add(r.method, r.path, func(c echo.Context) error { return r.handle(c, actorOf(c)) })
		}
	}
	s.registerAPI(s.pages)
	return s
}

// Handler answers browsers and API clients.
func (s *Server) Handler() http.Handler { return s.pages }

// AgentHandler answers hosts' agents; it must stand behind a listener that asks for client certificates.
func (s *Server) AgentHandler() http.Handler { return s.agents }

func (s *Server) newEcho() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.fail
	e.IPExtractor = ipExtractor(s.TrustedProxies)
	return e
}

// ipExtractor believes X-Forwarded-For only from the named proxies; echo's own default believes it from anybody.
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
