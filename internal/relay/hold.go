package relay

import (
	"context"
	"fmt"

	"github.com/gorilla/websocket"
)

// ConnectPortalSide is Serve for an end that the portal itself has, for a user's request. It waits for the other end
// and returns that end's connection, which the caller reads and writes directly. release closes the connection.
func (b *Broker) ConnectPortalSide(ctx context.Context, end End) (ws *websocket.Conn, release func(), err error) {
	use := b.configs[end.Kind()]
	if use == nil {
		return nil, nil, fmt.Errorf("no relays of the kind %q are configured", end.Kind())
	}
	both, err := b.awaitSession(ctx, use, end, peer{})
	if err != nil {
		return nil, nil, err
	}
	return both.peers[1-end.side].ws, func() {
		both.closeBothSides(websocket.CloseNormalClosure, "")
		b.leaveSession(both)
	}, nil
}

// leaveSession removes one side of the session. After both sides have left, the session no longer counts as open.
func (b *Broker) leaveSession(p *session) {
	if !p.detachSide() {
		return
	}
	b.mu.Lock()
	b.open[p.config.Kind]--
	b.mu.Unlock()
}

// hasPortalSide reports whether one of the two sides is the portal's own side, from ConnectPortalSide.
func (p *session) hasPortalSide() bool {
	return p.peers[Requester].ws == nil || p.peers[Answerer].ws == nil
}
