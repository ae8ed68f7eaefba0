package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

const (
	maxConsoles     = 256
	vncWriteTimeout = 30 * time.Second // timeout of a write to the VNC server
)

// consoleBuffers holds the copy buffers of all consoles: 32 KiB per direction.
var consoleBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// openConsole dials the VM's VNC server and the portal in parallel, and returns once both connections are open. Bytes
// then flow until either connection or the agent ends.
func openConsole(ctx context.Context, a *Agent, j *job) error {
	id, discovered := j.Subject.DiscoveredVM()
	switch {
	case j.VM != nil:
		id = j.VM.ID
	case !discovered:
		return errors.New("the portal sent this job without its VM")
	}
	if a.consoleCount.Add(1) > maxConsoles {
		a.consoleCount.Add(-1)
		return fleet.Errorf(fleet.TooMany, "This host has %d consoles open already. Close a console and try again.", maxConsoles)
	}
	screen, portal, err := a.dialVNCAndPortal(ctx, j, id)
	if err != nil {
		a.consoleCount.Add(-1)
		return err
	}
	a.metrics.consoles.Inc()
	a.jobGoroutines.Go(func() {
		splice(a.runContext, portal, writeDeadlineConn{screen})
		a.metrics.consoles.Dec()
		a.consoleCount.Add(-1)
	})
	return nil
}

func (a *Agent) dialVNCAndPortal(ctx context.Context, j *job, id fleet.VMID) (net.Conn, *wire.Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var portal *wire.Stream
	var portalErr error
	dialled := make(chan struct{})
	go func() {
		defer close(dialled)
		ws, err := a.client.DialRelay(ctx, j.Args.PortalURL, j.Args.Console)
		if err != nil {
			portalErr = err
			cancel()
			return
		}
		portal = wire.NewStream(ws)
	}()
	screen, err := a.hypervisor.Console(ctx, id)
	if err != nil {
		cancel()
	}
	<-dialled
	if err == nil && portalErr == nil {
		return screen, portal, nil
	}
	if portal != nil {
		portal.Fail("The VM's screen cannot be reached.")
	}
	if screen != nil {
		screen.Close()
	}
	// A failure of one dial cancels the other one, so the error of the failure that came first is reported.
	if portalErr != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return nil, nil, fmt.Errorf("connect the console to the portal: %w", portalErr)
	}
	return nil, nil, fmt.Errorf("open the VM's screen: %w", err)
}

// splice copies bytes in both directions until one connection or ctx ends, then closes both connections.
func splice(ctx context.Context, a, b io.ReadWriteCloser) {
	end := sync.OnceFunc(func() {
		a.Close()
		b.Close()
	})
	defer context.AfterFunc(ctx, end)()
	var both sync.WaitGroup
	both.Go(func() { defer end(); copyOneWay(a, b) })
	both.Go(func() { defer end(); copyOneWay(b, a) })
	both.Wait()
}

func copyOneWay(to io.Writer, from io.Reader) {
	buf := consoleBuffers.Get().(*[32 << 10]byte)
	defer consoleBuffers.Put(buf)
	_, _ = io.CopyBuffer(to, from, buf[:]) // the end of either side ends both
}

// writeDeadlineConn sets a deadline for each write. It hides the connection's ReadFrom and WriteTo methods, so that
// io.CopyBuffer uses the shared buffers.
type writeDeadlineConn struct{ conn net.Conn }

func (p writeDeadlineConn) Read(b []byte) (int, error) { return p.conn.Read(b) }
func (p writeDeadlineConn) Close() error               { return p.conn.Close() }

func (p writeDeadlineConn) Write(b []byte) (int, error) {
	p.conn.SetWriteDeadline(time.Now().Add(vncWriteTimeout))
	return p.conn.Write(b)
}
