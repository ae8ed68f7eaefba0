package wire

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
)

// MaxRelayMessage is the largest websocket message of a relay, in bytes.
const MaxRelayMessage = 1 << 20

// relayWriteBuffers is shared by all relays, so that an idle relay occupies no write buffer.
var relayWriteBuffers sync.Pool

// DialRelay opens the agent's end of a relay. portal is the address of the portal that the relay's other end is
// connected to; empty: the agent's own portal. If possible, the connection resumes the TLS session of earlier calls.
func (c *Client) DialRelay(ctx context.Context, portal string, id fleet.PairID) (*websocket.Conn, error) {
	u := c.portal
	if portal != "" {
		var err error
		if u, err = parsePortal(portal); err != nil {
			return nil, err
		}
	}
	u = u.JoinPath(PathRelay, url.PathEscape(string(id)))
	u.Scheme = "wss"
	dialer := websocket.Dialer{
		NetDialContext:   newDialer().DialContext,
		TLSClientConfig:  c.transport.Load().tls,
		HandshakeTimeout: 10 * time.Second,
		Subprotocols:     []string{"binary"},
		ReadBufferSize:   4 << 10,
		WriteBufferSize:  32 << 10,
		WriteBufferPool:  &relayWriteBuffers,
	}
	ws, resp, err := dialer.DialContext(ctx, u.String(), c.header())
	if err != nil {
		if resp != nil && errors.Is(err, websocket.ErrBadHandshake) {
			defer resp.Body.Close()
			return nil, portalError(resp.StatusCode, resp.Body)
		}
		return nil, fmt.Errorf("dial the portal for the relay: %w", err)
	}
	ws.SetReadLimit(MaxRelayMessage)
	return ws, nil
}
