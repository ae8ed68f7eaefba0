package relay

import (
	"context"
	"fmt"

	"github.com/gorilla/websocket"
)

// Hold is Serve for an end that the portal itself takes on behalf of a person. It waits for the other end and lends
// its connection to the caller until release, which closes it. Nothing is spliced: the caller reads and writes the
// connection directly.
func (b *Broker) Hold(ctx context.Context, end End) (ws *websocket.Conn, release func(), err error) {
	use := b.uses[end.Kind()]
	if use == nil {
		return nil, nil, fmt.Errorf("nothing uses pairs of the kind %q", end.Kind())
	}
	both, err := b.meet(ctx, use, end, peer{})
	if err != nil {
		return nil, nil, err
	}
	return both.peers[1-end.side].ws, func() {
		both.end(websocket.CloseNormalClosure, "")
		b.leave(both)
	}, nil
}

// leave removes a side; after the last one the session no longer counts as open.
func (b *Broker) leave(p *session) {
	if !p.detach() {
		return
	}
	b.mu.Lock()
	b.open[p.use.Kind]--
	b.mu.Unlock()
}

// held reports whether the portal itself takes one of the sides.
func (p *session) held() bool { return p.peers[Asker].ws == nil || p.peers[Answerer].ws == nil }
