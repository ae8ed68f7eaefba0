package relay

import (
	"context"
	"fmt"

	"github.com/gorilla/websocket"
)

// Hold is Serve for an end that this portal itself brings, in a person's name: it waits for the other one, and gives its connection to
// the caller until release, which closes it. Nothing is spliced, so bytes go from the person to the other side without a stop between.
func (b *Broker) Hold(ctx context.Context, end End) (ws *websocket.Conn, release func(), err error) {
	use := b.uses[end.Kind()]
	if use == nil {
		return nil, nil, fmt.Errorf("nothing uses pairs of the kind %q", end.Kind())
	}
	both, err := b.meet(ctx, use, end, line{})
	if err != nil {
		return nil, nil, err
	}
	return both.lines[1-end.side].ws, func() {
		both.end(websocket.CloseNormalClosure, "")
		b.leave(both)
	}, nil
}

// leave counts a side out; the last of both ends the pair's place among those that are open.
func (b *Broker) leave(p *session) {
	if !p.left() {
		return
	}
	b.mu.Lock()
	b.open[p.use.Kind]--
	b.mu.Unlock()
}

// held reports whether the portal itself has one of the sides.
func (p *session) held() bool { return p.lines[Asker].ws == nil || p.lines[Answerer].ws == nil }
