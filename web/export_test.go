package web

import "net/http"

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
