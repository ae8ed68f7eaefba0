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

// MaxConsoleMessage bounds one websocket message of a console.
const MaxConsoleMessage = 1 << 20

// consoleWrites are shared: a quiet console holds no write buffer.
var consoleWrites sync.Pool

// DialConsole opens the agent's half of a console at the portal that holds the browser's half; portal is its address,
// empty for the agent's own. It resumes the TLS session of earlier calls where it can.
func (c *Client) DialConsole(ctx context.Context, portal string, id fleet.ConsoleID) (*websocket.Conn, error) {
	u := c.portal
	if portal != "" {
		var err error
		if u, err = parsePortal(portal); err != nil {
			return nil, err
		}
	}
	u = u.JoinPath(PathConsole, url.PathEscape(string(id)))
	u.Scheme = "wss"
	dialer := websocket.Dialer{
		NetDialContext:   newDialer().DialContext,
		TLSClientConfig:  c.lines.Load().tls,
		HandshakeTimeout: 10 * time.Second,
		Subprotocols:     []string{"binary"},
		ReadBufferSize:   4 << 10,
		WriteBufferSize:  32 << 10,
		WriteBufferPool:  &consoleWrites,
	}
	ws, resp, err := dialer.DialContext(ctx, u.String(), c.header())
	if err != nil {
		if resp != nil && errors.Is(err, websocket.ErrBadHandshake) {
			defer resp.Body.Close()
			return nil, problem(resp)
		}
		return nil, fmt.Errorf("dial the portal's console: %w", err)
	}
	ws.SetReadLimit(MaxConsoleMessage)
	return ws, nil
}
