package web

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
