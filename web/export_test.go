package web

import (
	"net/http"
	"time"

	"quantix/web/agents"
)

// AgentProofs returns whether each agent route requires a session, by the route's method and path.
func (s *Server) AgentProofs() map[string]bool {
	out := map[string]bool{}
	for _, r := range s.agents.Routes() {
		out[r.Method+" "+r.Path] = r.Proof == agents.SessionProof || r.Proof == agents.TransactionProof
	}
	return out
}

// Pages returns the paths of the routes of all pages.
func (s *Server) Pages() []string {
	var out []string
	for _, r := range s.routes() {
		if r.kind == page && r.method == http.MethodGet {
			out = append(out, r.path)
		}
	}
	return out
}

// SetRefreshLoad sets the time that the server assumes for the refreshes of one interval.
func (s *Server) SetRefreshLoad(need time.Duration) {
	s.refreshRate.mu.Lock()
	defer s.refreshRate.mu.Unlock()
	s.refreshRate.timePerInterval, s.refreshRate.since = need, time.Now().Add(time.Hour)
}

// OccupyFleetScrapes takes all slots of scrapes of the fleet's values.
func (s *Server) OccupyFleetScrapes() {
	for range maxFleetScrapes {
		s.metrics.fleetScrapes <- struct{}{}
	}
}
