package web

import (
	"net/http"
	"time"
)

// AgentProofs returns, by method and path of each agent route, whether it requires a session.
func (s *Server) AgentProofs() map[string]bool {
	out := map[string]bool{}
	for name, r := range s.table {
		if r.kind.ofAgents() {
			out[name] = r.kind == proven || r.kind == bound
		}
	}
	return out
}

// Pages returns the paths of all pages without parameters.
func (s *Server) Pages() []string {
	var out []string
	for _, r := range s.routes() {
		if r.kind == page && r.method == http.MethodGet {
			out = append(out, r.path)
		}
	}
	return out
}

// Strain sets the time that refreshes need per interval, whatever they really take, until the next call.
func (s *Server) Strain(need time.Duration) {
	s.pace.mu.Lock()
	defer s.pace.mu.Unlock()
	s.pace.need, s.pace.since = need, time.Now().Add(time.Hour)
}
