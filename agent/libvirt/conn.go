package libvirt

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// conn is one connection to libvirtd. libvirtd handles at most five calls of a connection at a time, so each call that
// may hang gets its own connection.
type conn struct {
	client *golibvirt.Libvirt
	socket *watchedConn
	shared bool // true: a caller's deadline does not close the connection, but a failed ping in waitConnectionLost does
}

// watchedConn closes its channel closed at the first failed read. go-libvirt's Disconnected misses a loss during the
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

// dial opens a connection to qemu:///system at the socket, within callLimit. Its errors wrap hypervisor.ErrUnreachable.
func dial(ctx context.Context, socket string) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, libvirtCallTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, hypervisor.WrapUnreachable(fmt.Errorf("connect to libvirt: %w", err))
	}
	sock := &watchedConn{Conn: raw, closed: make(chan struct{})}
	c := &conn{client: golibvirt.NewWithDialer(openConn{sock}), socket: sock}
	err = c.do(ctx, func(l *golibvirt.Libvirt) error { return l.ConnectToURI(golibvirt.QEMUSystem) })
	if err != nil {
		c.close()
		return nil, hypervisor.WrapUnreachable(fmt.Errorf("connect to libvirt: %w", err))
	}
	return c, nil
}

// closed returns a channel that is closed when the connection is lost or closed.
func (c *conn) closed() <-chan struct{} { return c.socket.closed }

// disconnect closes the connection with libvirt's close call. libvirtd logs an error for a connection that ends without
// this call.
func (c *conn) disconnect() {
	select {
	case <-c.closed():
	default:
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.do(ctx, (*golibvirt.Libvirt).ConnectClose) // the socket is closed below in any case
	}
	c.close()
}

// close closes the socket. Calls in progress return an error, but libvirtd may still complete them.
func (c *conn) close() { c.socket.Close() }

// do is call for a function without a result.
func (c *conn) do(ctx context.Context, f func(*golibvirt.Libvirt) error) error {
	_, err := call(ctx, c, func(l *golibvirt.Libvirt) (struct{}, error) { return struct{}{}, f(l) })
	return err
}

// call runs the RPCs of f and returns their result. If ctx ends first, call closes a connection that is not shared,
// because go-libvirt cannot cancel a call, and returns an error that wraps ctx's error. See translateError for other
// errors.
func call[T any](ctx context.Context, c *conn, f func(*golibvirt.Libvirt) (T, error)) (T, error) {
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
		return r.value, translateError(r.err)
	case <-ctx.Done():
		if !c.shared {
			c.close()
		}
		return none, hypervisor.WrapUnreachable(fmt.Errorf("libvirt did not answer in time: %w", ctx.Err()))
	}
}

var errConnectionLost = hypervisor.WrapUnreachable(errors.New("the connection to libvirt was lost"))

// translateError converts an error of go-libvirt. The result wraps hypervisor.ErrUnreachable if QEMU timed out or the
// connection was lost. An error from libvirt gets the prefix "libvirt: ".
func translateError(err error) error {
	var libvirtErr golibvirt.Error
	switch {
	case err == nil:
		return nil
	case isLibvirtCode(err, golibvirt.ErrOperationTimeout): // QEMU does not answer libvirt
		return hypervisor.WrapUnreachable(fmt.Errorf("libvirt: %w", err))
	case errors.As(err, &libvirtErr):
		return fmt.Errorf("libvirt: %w", err)
	case errors.Is(err, golibvirt.ErrInterrupted), errors.Is(err, syscall.EINVAL), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.EPIPE):
		return errConnectionLost
	}
	return err
}

// isLibvirtCode reports whether err is libvirt's error with that code.
func isLibvirtCode(err error, code golibvirt.ErrorNumber) bool {
	var libvirtErr golibvirt.Error
	return errors.As(err, &libvirtErr) && golibvirt.ErrorNumber(libvirtErr.Code) == code
}

// isObjectError reports whether err concerns only the queried object: libvirt returned an error for the object, or
// libvirt's answer cannot be parsed. Otherwise libvirt is unreachable or the context has ended.
func isObjectError(err error) bool {
	err = translateError(err)
	return err != nil && (isLibvirtError(err) || !errors.Is(err, hypervisor.ErrUnreachable) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded))
}

// isLibvirtError reports whether err is an answer of libvirt and not a failure to reach libvirt.
func isLibvirtError(err error) bool {
	var libvirtErr golibvirt.Error
	return errors.As(err, &libvirtErr)
}

func parseUUID(id fleet.VMID) (golibvirt.UUID, error) {
	var u golibvirt.UUID
	b, err := hex.DecodeString(strings.ReplaceAll(string(id), "-", ""))
	if err != nil || len(b) != len(u) {
		return u, fleet.Errorf(fleet.Invalid, "%q is not a valid VM ID.", id)
	}
	copy(u[:], b)
	return u, nil
}

func formatUUID(u golibvirt.UUID) fleet.VMID {
	s := hex.EncodeToString(u[:])
	return fleet.VMID(s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:])
}
