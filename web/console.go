package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"

	"quantix/internal/auth"
	"quantix/internal/console"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/relay"
	"quantix/web/api"
)

const (
	// ticketSubprotocolPrefix is the prefix of the websocket subprotocol that carries the ticket. Browsers can set no
	// other header for a websocket, and a ticket in the address would appear in the access log.
	ticketSubprotocolPrefix = "quantix.ticket."

	maxTransfersPerUser = 64 // consoles, uploads and downloads of one user on this portal
)

// consoleRelayConfig configures the relay for consoles. The host may connect before the browser: its job is queued
// before the websocket of the browser is upgraded.
var consoleRelayConfig = relay.KindConfig{
	Kind:         relay.Console,
	Wait:         [2]time.Duration{relay.Requester: 15 * time.Second, relay.Answerer: 30 * time.Second},
	NoPeer:       [2]string{relay.Requester: "The host did not answer in time.", relay.Answerer: "The browser did not connect in time."},
	Disconnected: [2]string{relay.Requester: "The browser closed the console.", relay.Answerer: "The host ended the connection."},
	Unreachable:  [2]string{relay.Requester: "The browser is no longer connected.", relay.Answerer: "The host is no longer connected."},
	Taken:        "This console is open already.",
	NotBinary:    "A console carries binary messages only.",
}

// newConsoleTicket creates a ticket for a VM's console. base is the prefix of the websocket's address in the ticket.
func (s *Server) newConsoleTicket(ctx context.Context, a fleet.Actor, vm fleet.VMID, base string) (api.ConsoleTicket, error) {
	t, err := s.Control.OpenConsole(ctx, a, vm)
	return api.ConsoleTicket{URL: base + string(t.ID), Protocol: ticketSubprotocolPrefix + t.Secret}, err
}

// newDiscoveredConsoleTicket works like newConsoleTicket, for a VM that Quantix does not manage.
func (s *Server) newDiscoveredConsoleTicket(ctx context.Context, a fleet.Actor, host fleet.HostID, vm fleet.VMID, base string) (api.ConsoleTicket, error) {
	t, err := s.Control.OpenDiscoveredConsole(ctx, a, host, vm)
	return api.ConsoleTicket{URL: base + string(t.ID), Protocol: ticketSubprotocolPrefix + t.Secret}, err
}

func (s *Server) createConsoleTicket(c echo.Context, a fleet.Actor) error {
	return s.answerConsoleTicket(c, func() (api.ConsoleTicket, error) {
		return s.newConsoleTicket(c.Request().Context(), a, fleet.VMID(c.Param("id")), "/console/")
	})
}

func (s *Server) createDiscoveredConsoleTicket(c echo.Context, a fleet.Actor) error {
	return s.answerConsoleTicket(c, func() (api.ConsoleTicket, error) {
		return s.newDiscoveredConsoleTicket(c.Request().Context(), a, fleet.HostID(c.Param("host")), fleet.VMID(c.Param("id")), "/console/")
	})
}

// answerConsoleTicket answers a page with a new console ticket.
func (s *Server) answerConsoleTicket(c echo.Context, newTicket func() (api.ConsoleTicket, error)) error {
	if c.Request().Header.Get("Origin") != "" { // checked here too, because a page cannot read why its websocket was refused
		if err := s.checkConsoleOrigin(c.Request()); err != nil {
			return err
		}
	}
	t, err := newTicket()
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, t)
}

// consoleSocket serves the browser's end of a console. It refuses a user only before the websocket upgrade, because the
// client gets an error response only then. The console ends when the user's session ends.
func (s *Server) consoleSocket(c echo.Context, a fleet.Actor) error {
	if err := s.checkConsoleOrigin(c.Request()); err != nil {
		return err
	}
	return s.serveConsole(c, a, s.currentConsoleActor)
}

// currentConsoleActor returns the user of the request's session, with current permissions. used reports whether the
// browser has sent input since the last call: only input extends the session.
func (s *Server) currentConsoleActor(ctx context.Context, r *http.Request, used bool) (fleet.Actor, error) {
	a, err := s.currentActor(ctx, r)
	if err != nil || !used {
		return a, err
	}
	cookie, err := r.Cookie(s.Sessions.Cookie.Name)
	if err == nil {
		ctx, err = s.Sessions.Load(ctx, cookie.Value)
	}
	if err == nil && s.Sessions.GetString(ctx, sessionUserKey) != "" {
		err = s.recordSessionUse(ctx)
	}
	if err != nil {
		s.Log.Warn("record a console's input as use of the session", "error", err)
	}
	return a, nil
}

// apiConsoleSocket is consoleSocket for API clients, which send a bearer token instead of a session cookie.
func (s *Server) apiConsoleSocket(c echo.Context, a fleet.Actor) error {
	if r := c.Request(); r.Header.Get("Origin") != "" {
		if err := s.checkConsoleOrigin(r); err != nil {
			return err
		}
	}
	return s.serveConsole(c, a, func(ctx context.Context, r *http.Request, _ bool) (fleet.Actor, error) {
		return s.Control.ActorOfToken(ctx, fleet.Actor{}, auth.BearerToken(r))
	})
}

// serveConsole connects the browser's end to the relay. It calls currentActor at intervals and then checks the actor's
// permission. used reports whether the user has typed or moved the mouse since the last call.
func (s *Server) serveConsole(c echo.Context, a fleet.Actor, currentActor func(ctx context.Context, r *http.Request, used bool) (fleet.Actor, error)) error {
	r := c.Request()
	if !c.IsWebSocket() {
		return relay.NotWebsocketError()
	}
	secret := consoleTicketOf(r)
	if secret == "" {
		return fleet.Errorf(fleet.Unauthorized, "This request has no console ticket. Open the console again.")
	}
	if !s.transfersPerUser.tryAcquire(a.UserID) {
		return fleet.Errorf(fleet.TooMany, "You have %d consoles, uploads and downloads open. Close some.", maxTransfersPerUser)
	}
	defer s.transfersPerUser.release(a.UserID)
	redeem, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	end, err := s.Control.RedeemConsole(redeem, a, fleet.PairID(c.Param("id")), secret)
	if err != nil {
		return err
	}
	session := &consoleSession{id: end.ID()}
	ws, err := relay.Upgrade(c.Response(), r)
	if err != nil {
		s.closeConsole(r.Context(), a, session, nil)
		return nil // Upgrade has already answered
	}
	ctx, stop := s.watchPermission(r, a, []string{console.SessionKey(session.id)}, func(ctx context.Context) error {
		a, err := currentActor(ctx, r, session.acted.Swap(false))
		if err != nil {
			return err
		}
		if err := s.reportConsole(ctx, a, session); err != nil || end.DiscoveredOn != "" {
			return cmp.Or(err, policy.Check(a, policy.InfraChange, ""))
		}
		v, err := s.Control.GetVM(ctx, a, end.VM)
		if err != nil {
			return err
		}
		return policy.Check(a, policy.VMUse, v.ProjectID)
	})
	if err := s.reportConsole(ctx, a, session); err != nil { // whether the session has the keyboard; later changes wake the watch
		s.Log.Warn("read the state of a console session", "session", session.id, "error", err)
	}
	s.serveRelay(ctx, a, end.End, ws, session.tap())
	cause := context.Cause(ctx) // before stop, which sets it
	stop()
	s.closeConsole(ctx, a, session, cause)
	return nil
}

// checkConsoleOrigin refuses a console to pages of other sites. A portal behind a proxy without the setting publicUrl
// refuses its own pages too, so the error names that setting.
func (s *Server) checkConsoleOrigin(r *http.Request) error {
	if s.isSameOriginWebsocket(r) {
		return nil
	}
	return fleet.Errorf(fleet.Forbidden, "A page of %s requested the console, but the portal's address is %s. Open Quantix at the portal's address. "+
		"Behind a proxy, set publicUrl to the address that browsers open, or let the proxy forward the Host header.",
		cmp.Or(r.Header.Get("Origin"), "an unknown site"), cmp.Or(s.PublicURL, "http://"+r.Host))
}

// isSameOriginWebsocket reports whether the request's Origin is this site, by scheme and host. Browsers do not apply
// the same-origin rule to websockets, but always send the Origin of the page.
func (s *Server) isSameOriginWebsocket(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || origin.Host == "" || len(r.Header.Values("Origin")) != 1 {
		return false
	}
	if public, err := url.Parse(s.PublicURL); err == nil && public.Host != "" &&
		origin.Scheme == public.Scheme && strings.EqualFold(origin.Host, public.Host) {
		return true
	}
	scheme := "http"
	if s.Secure {
		scheme = "https"
	}
	return origin.Scheme == scheme && strings.EqualFold(origin.Host, r.Host)
}

func consoleTicketOf(r *http.Request) string {
	for _, p := range websocket.Subprotocols(r) {
		if secret, ok := strings.CutPrefix(p, ticketSubprotocolPrefix); ok {
			return secret
		}
	}
	return ""
}

// watchPermission returns the request's context, which also ends when check reports a lost permission or session, or a
// relay.CloseReason. It calls check at intervals, on wake-ups of the keys, and when the permissions of actor a change.
// The returned function ends the context.
func (s *Server) watchPermission(r *http.Request, a fleet.Actor, keys []string, check func(context.Context) error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	sub := s.Hub.Subscribe(append(keys, permissionKeys(a)...)...)
	go func() {
		defer sub.Close()
		again := time.NewTicker(permissionCheckInterval)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
			case <-sub.C:
			}
			ask, end := context.WithTimeout(context.Background(), pageTimeout)
			err := check(ask)
			end()
			reason, ended := errors.AsType[relay.CloseReason](err)
			switch {
			case ended:
				cancel(reason)
			case errors.Is(err, errConsoleLost):
				cancel(err)
			case fleet.CodeOf(err) == fleet.Unauthorized:
				cancel(relay.CloseReason("You are signed out. Sign in again."))
			case isLostPermission(err):
				cancel(relay.CloseReason("You may no longer use this VM."))
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// userTransferCounts counts the open consoles, uploads and downloads of each user, up to maxTransfersPerUser.
type userTransferCounts struct {
	mu   sync.Mutex
	open map[fleet.UserID]int
}

func (n *userTransferCounts) tryAcquire(id fleet.UserID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[id] >= maxTransfersPerUser {
		return false
	}
	if n.open == nil {
		n.open = map[fleet.UserID]int{}
	}
	n.open[id]++
	return true
}

func (n *userTransferCounts) release(id fleet.UserID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[id]--; n.open[id] <= 0 {
		delete(n.open, id)
	}
}

// serveRelay connects ws, one end of a relay, with the other end, and returns when the relay has ended. control has
// checked that the client may join the relay. tap, which may be nil, is this end's.
func (s *Server) serveRelay(ctx context.Context, a fleet.Actor, end relay.End, ws *websocket.Conn, tap *relay.Tap) {
	if err := s.relayBroker.Serve(ctx, end, ws, tap); err != nil {
		s.Log.Info("relay ended before both ends connected", "pair", end.ID(), "kind", end.Kind(), "side", end.Side(), "who", a.Name, "error", err)
	}
}
