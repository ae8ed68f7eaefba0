package web

import (
	"net/http"
	"time"
)

// AgentProofs tells of each route of agents, by method and path, whether it asks for a session.
func (s *Server) AgentProofs() map[string]bool {
	out := map[string]bool{}
	for name, r := range s.table {
		if r.kind.ofAgents() {
			out[name] = r.kind == proven || r.kind == bound
		}
	}
	return out
}

// Pages are the paths of all pages that can be asked for.
func (s *Server) Pages() []string {
	var out []string
	for _, r := range s.routes() {
		if r.kind == page && r.method == http.MethodGet {
			out = append(out, r.path)
		}
	}
	return out
}

// Strain has refreshes need so long for each gap, whatever they take, until it is called again.
func (s *Server) Strain(need time.Duration) {
	s.pace.mu.Lock()
	defer s.pace.mu.Unlock()
	s.pace.need, s.pace.since = need, time.Now().Add(time.Hour)
}
