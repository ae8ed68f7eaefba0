package web

import (
	"context"
	"errors"
	"sync/atomic"

	"quantix/internal/console/rfb"
	"quantix/internal/control/consoles"
	"quantix/internal/fleet"
	"quantix/internal/relay"
)

// consoleSession is an open session of a console on this portal. Of what its user sends, the VM gets keys and the mouse
// only while the session has the keyboard.
type consoleSession struct {
	id          fleet.PairID
	keyboard    atomic.Bool
	acted       atomic.Bool // the user has typed or moved the mouse
	sent, shown atomic.Int64
	input       rfb.Filter
}

func (c *consoleSession) tap() *relay.Tap {
	return &relay.Tap{Send: c.send, Got: func(bytes int) { c.shown.Add(int64(bytes)) }}
}

func (c *consoleSession) send(chunk []byte) ([]byte, error) {
	c.sent.Add(int64(len(chunk)))
	out, err := c.input.Next(chunk, c.keyboard.Load())
	if c.input.Acted {
		c.acted.Store(true)
		c.input.Acted = false
	}
	switch {
	case errors.Is(err, rfb.ErrTooLarge):
		return nil, relay.CloseReason("The clipboard has more than 1 MiB of text.")
	case err != nil:
		return nil, relay.CloseReason("The console closed the connection: " + err.Error() + ".")
	}
	return out, nil
}

func (c *consoleSession) traffic() consoles.Traffic {
	return consoles.Traffic{Sent: c.sent.Load(), Shown: c.shown.Load()}
}

// errConsoleLost is the end of a session whose portal could not report it for a while, such as during an outage of
// PostgreSQL. The browser opens the console again.
var errConsoleLost = errors.New("the session counts as ended")

// reportConsole stores the session's traffic and follows who has the keyboard. It returns a relay.CloseReason if somebody
// has ended the session, and errConsoleLost if nobody has, but it counts as ended.
func (s *Server) reportConsole(ctx context.Context, a fleet.Actor, c *consoleSession) error {
	state, err := s.Control.ReportConsoleSession(ctx, a, c.id, c.traffic())
	switch {
	case err != nil:
		return err
	case state.Ended && state.EndedBy != "":
		return relay.CloseReason(state.EndedBy + " ended this console session.")
	case state.Ended:
		return errConsoleLost
	}
	c.keyboard.Store(state.Keyboard)
	return nil
}

// closeConsole records the end of the session. cause is why the portal ended it; nil: one of the two sides did.
func (s *Server) closeConsole(ctx context.Context, a fleet.Actor, c *consoleSession, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout)
	defer cancel()
	var reason string
	if why, ok := errors.AsType[relay.CloseReason](cause); ok {
		reason = string(why)
	}
	if err := s.Control.CloseConsoleSession(ctx, a, c.id, c.traffic(), reason); err != nil {
		s.Log.Warn("record the end of a console session", "session", c.id, "error", err)
	}
}
