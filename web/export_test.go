package web

// AgentProofs tells of each route of agents, by method and path, whether it asks for a session.
func (s *Server) AgentProofs() map[string]bool {
	out := map[string]bool{}
	for _, r := range s.agentRoutes() {
		out[r.method+" "+r.path] = r.proof == sessionProof || r.proof == boundProof
	}
	return out
}
