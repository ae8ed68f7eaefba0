package web

import (
	"net/http"
	"strings"
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

// Reads returns the paths of the routes that return data: pages, exports as CSV, and operations of the API.
func (s *Server) Reads() (paths []string) {
	for _, r := range s.routes() {
		isCSV := r.kind == stream && strings.HasSuffix(r.path, ".csv")
		if r.method == http.MethodGet && (r.kind == page || r.kind == apiCall || isCSV) {
			paths = append(paths, r.path)
		}
	}
	return paths
}
