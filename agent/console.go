package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
)

const (
	maxConsoles  = 256
	consolePing  = 20 * time.Second
	consoleWrite = 30 * time.Second // longest wait for a peer that does not read
)

// consoleBuffers are shared by all consoles: 32 KiB a direction while bytes flow.
var consoleBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// openConsole dials the VM's screen and the portal at once, and returns as soon as both are open; from then on bytes
// flow until either side, or the agent, ends.
func openConsole(ctx context.Context, a *Agent, j *job) error {
	if a.consoles.Add(1) > maxConsoles {
		a.consoles.Add(-1)
		return fleet.Errorf(fleet.TooMany, "This host has %d consoles open already. Close one and try again.", maxConsoles)
	}
	screen, ws, err := a.dialBoth(ctx, j)
	if err != nil {
		a.consoles.Add(-1)
		return err
	}
	a.metrics.consoles.Inc()
	a.work.Go(func() {
		splice(a.life, ws, screen)
		a.metrics.consoles.Dec()
		a.consoles.Add(-1)
	})
	return nil
}

func (a *Agent) dialBoth(ctx context.Context, j *job) (net.Conn, *websocket.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ws *websocket.Conn
	var wsErr error
	dialled := make(chan struct{})
	go func() {
		defer close(dialled)
		if ws, wsErr = a.client.DialConsole(ctx, j.Args.PortalURL, j.Args.Console); wsErr != nil {
			cancel()
		}
	}()
	screen, err := a.hypervisor.Console(ctx, j.VM.ID)
	if err != nil {
		cancel()
	}
	<-dialled
	if err == nil && wsErr == nil {
		return screen, ws, nil
	}
	if ws != nil {
		closeMessage(ws, websocket.CloseInternalServerErr, "The VM's screen cannot be reached.")
		ws.Close()
	}
	if screen != nil {
		screen.Close()
	}
	// One failure cancels the other dial: what is told is the one that came first.
	if wsErr != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return nil, nil, fmt.Errorf("open the console at the portal: %w", wsErr)
	}
	return nil, nil, fmt.Errorf("open the VM's screen: %w", err)
}

// splice copies both ways until one side ends, then ends the other.
func splice(ctx context.Context, ws *websocket.Conn, screen net.Conn) {
	over := make(chan struct{})
	end := sync.OnceFunc(func() {
		close(over)
		closeMessage(ws, websocket.CloseNormalClosure, "")
		ws.Close()
		screen.Close()
	})
	defer context.AfterFunc(ctx, end)()
	var both sync.WaitGroup
	both.Go(func() {
		defer end()
		toPortal(ws, screen)
	})
	both.Go(func() {
		defer end()
		toScreen(screen, ws)
	})
	both.Go(func() {
		defer end()
		keepAlive(ws, over)
	})
	both.Wait()
}

func toPortal(ws *websocket.Conn, screen net.Conn) {
	buf := consoleBuffers.Get().(*[32 << 10]byte)
	defer consoleBuffers.Put(buf)
	for {
		n, err := screen.Read(buf[:])
		if n > 0 {
			ws.SetWriteDeadline(time.Now().Add(consoleWrite))
			if ws.WriteMessage(websocket.BinaryMessage, buf[:n]) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func toScreen(screen net.Conn, ws *websocket.Conn) {
	buf := consoleBuffers.Get().(*[32 << 10]byte)
	defer consoleBuffers.Put(buf)
	alive := func(string) error { return ws.SetReadDeadline(time.Now().Add(3 * consolePing)) }
	ws.SetPongHandler(alive)
	_ = alive("") // where it cannot be set, the first read says why
	for {
		kind, r, err := ws.NextReader()
		if err != nil || kind != websocket.BinaryMessage {
			return
		}
		if _, err := io.CopyBuffer(patient{screen}, r, buf[:]); err != nil {
			return
		}
	}
}

// patient gives each write its deadline.
type patient struct{ net.Conn }

func (p patient) Write(b []byte) (int, error) {
	p.SetWriteDeadline(time.Now().Add(consoleWrite))
	return p.Conn.Write(b)
}

// keepAlive pings, so that a portal that is gone is noticed on a quiet screen.
func keepAlive(ws *websocket.Conn, over <-chan struct{}) {
	t := time.NewTicker(consolePing)
	defer t.Stop()
	for {
		select {
		case <-over:
			return
		case <-t.C:
			if ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(consoleWrite)) != nil {
				return
			}
		}
	}
}

// closeMessage says why as far as the other side still listens.
func closeMessage(ws *websocket.Conn, code int, why string) {
	_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why), time.Now().Add(time.Second))
}
