package web

// routeKind determines which checks and limits the middleware applies to a route.
type routeKind int

const (
	page            routeKind = iota // HTML and forms: session, 64 KiB, answered within 5 s
	stream                           // SSE and websockets: session, without a deadline
	apiCall                          // JSON: bearer token, 1 MiB
	apiStream                        // websockets, events and waiting calls of API clients: bearer token, without a deadline
	unauthenticated                  // neither session nor token: health, static files

	// Uploads and downloads, without limits of size and time. sessionTransfer requires the user's session,
	// tokenTransfer a bearer token.
	sessionTransfer
	tokenTransfer

	agentCall // of agents, on a separate listener; package web/agents checks the proof of the host's identity
)

// isLongLived reports whether routes of this kind have no deadline.
func (k routeKind) isLongLived() bool {
	return k == stream || k == apiStream || k == sessionTransfer || k == tokenTransfer
}

// requiresToken reports whether routes of this kind require a bearer token.
func (k routeKind) requiresToken() bool { return k == apiCall || k == apiStream || k == tokenTransfer }
