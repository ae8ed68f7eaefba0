// Package conn connects to libvirtd and runs its calls. Call and Conn.Do run calls of go-libvirt on a connection, with
// a deadline. The errors are classified in errors.go. Daemon opens the connections of a backend and wakes its
// subscribers.
package conn

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// CallTimeout bounds the opening of a connection, and each call on the state or event connection.
const CallTimeout = 10 * time.Second

// HostStateTimeout limits the time to read domains and networks. A read of hundreds of them takes less than a second.
const HostStateTimeout = 8 * time.Second

// Conn is one connection to libvirtd. libvirtd handles at most five calls of a connection at a time, so each call that
// may hang gets its own connection.
type Conn struct {
	client *golibvirt.Libvirt
	socket *watchedConn
	shared bool // true: a caller's deadline does not close the connection, but the owner's failed ping does
}

// watchedConn closes the channel closed at the first failed read. go-libvirt's Disconnected misses a loss during the
// handshake.
type watchedConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (w *watchedConn) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err != nil {
		w.once.Do(func() { close(w.closed) })
	}
	return n, err
}

// openConn gives go-libvirt a connection that is already open.
type openConn struct{ net.Conn }

func (d openConn) Dial() (net.Conn, error) { return d.Conn, nil }

// dial opens a connection to qemu:///system at the socket, within CallTimeout. Its errors wrap
// hypervisor.ErrUnreachable.
func dial(ctx context.Context, socket string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, hypervisor.WrapUnreachable(fmt.Errorf("connect to libvirt: %w", err))
	}
	sock := &watchedConn{Conn: raw, closed: make(chan struct{})}
	c := &Conn{client: golibvirt.NewWithDialer(openConn{sock}), socket: sock}
	err = c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.ConnectToURI(golibvirt.QEMUSystem) })
	if err != nil {
		c.close()
		return nil, hypervisor.WrapUnreachable(fmt.Errorf("connect to libvirt: %w", err))
	}
	return c, nil
}

// Share keeps the connection open when a call's context ends, because other calls use the connection too. The owner
// must close a connection that hangs.
func (c *Conn) Share() { c.shared = true }

// Closed returns a channel that is closed when the connection is lost or closed.
func (c *Conn) Closed() <-chan struct{} { return c.socket.closed }

// Disconnect closes the connection with libvirt's close call. libvirtd logs an error for a connection that ends without
// this call.
func (c *Conn) Disconnect() {
	select {
	case <-c.Closed():
	default:
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Do(ctx, (*golibvirt.Libvirt).ConnectClose) // the socket is closed below in any case
	}
	c.close()
}

// close closes the socket. Calls in progress return an error, but libvirtd may still complete them.
func (c *Conn) close() { c.socket.Close() }

// Do is Call for a function without a result.
func (c *Conn) Do(ctx context.Context, f func(*golibvirt.Libvirt) error) error {
	_, err := Call(ctx, c, func(l *golibvirt.Libvirt) (struct{}, error) { return struct{}{}, f(l) })
	return err
}

// Call runs the RPCs of f and returns their result. If ctx ends first, Call closes a connection that is not shared,
// because go-libvirt cannot cancel a call, and returns an error that wraps ctx's error. See TranslateError for other
// errors.
func Call[T any](ctx context.Context, c *Conn, f func(*golibvirt.Libvirt) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f(c.client)
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, TranslateError(r.err)
	case <-ctx.Done():
		if !c.shared {
			c.close()
		}
		return none, hypervisor.WrapUnreachable(fmt.Errorf("libvirt did not answer in time: %w", ctx.Err()))
	}
}

// ParseUUID returns the libvirt UUID of a VM ID. It refuses an invalid ID.
func ParseUUID(id fleet.VMID) (golibvirt.UUID, error) {
	var u golibvirt.UUID
	b, err := hex.DecodeString(strings.ReplaceAll(string(id), "-", ""))
	if err != nil || len(b) != len(u) {
		return u, fleet.Errorf(fleet.Invalid, "%q is not a valid VM ID.", id)
	}
	copy(u[:], b)
	return u, nil
}

// FormatUUID returns the VM ID of a libvirt UUID.
func FormatUUID(u golibvirt.UUID) fleet.VMID {
	s := hex.EncodeToString(u[:])
	return fleet.VMID(s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:])
}
