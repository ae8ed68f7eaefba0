package conn

import (
	"context"
	"fmt"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/domxml"
)

// Daemon gives the parts of the backend access to the host's libvirtd. Its methods may be called from several
// goroutines.
type Daemon struct {
	Socket      string
	RunContext  context.Context // ends when the backend closes
	Subscribers Subscribers     // woken after changes of the host
}

// NewDaemon returns the libvirtd at the socket. runContext ends when the backend closes.
func NewDaemon(runContext context.Context, socket string) *Daemon {
	return &Daemon{Socket: socket, RunContext: runContext}
}

// Dial opens a connection. Its errors wrap hypervisor.ErrUnreachable.
func (d *Daemon) Dial(ctx context.Context) (*Conn, error) { return dial(ctx, d.Socket) }

// WithConn runs f with a connection of its own, then closes the connection and wakes the subscribers.
func (d *Daemon) WithConn(ctx context.Context, f func(context.Context, *Conn) error) error {
	ctx, cancel := d.CancelOnClose(ctx)
	defer cancel()
	c, err := d.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Disconnect()
	defer d.Subscribers.WakeAll()
	return f(ctx, c)
}

// Ping asks the daemon for its version, on a connection of its own, because another one may wait for a slow call.
func (d *Daemon) Ping(ctx context.Context) error {
	ctx, cancel := d.CancelOnClose(ctx)
	defer cancel()
	c, err := d.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Disconnect() // without WakeAll: nothing has changed
	_, err = Call(ctx, c, func(l *golibvirt.Libvirt) (uint64, error) { return l.ConnectGetLibVersion() })
	return err
}

// Versions returns a text like "libvirt 9.0.0, QEMU 7.2.22".
func Versions(l *golibvirt.Libvirt) (string, error) {
	lib, err := l.ConnectGetLibVersion()
	if err != nil {
		return "", err
	}
	qemu, err := l.ConnectGetVersion()
	if err != nil {
		return "", err
	}
	dotted := func(v uint64) string { return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000) }
	return "libvirt " + dotted(lib) + ", QEMU " + dotted(qemu), nil
}

// CancelOnClose returns a copy of ctx that is also cancelled when the backend closes. The caller must call the returned
// function when it no longer needs the context.
func (d *Daemon) CancelOnClose(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(d.RunContext, cancel)
	return ctx, func() { stop(); cancel() }
}

// ReadDefinition reads a domain's definition.
func ReadDefinition(ctx context.Context, c *Conn, ref golibvirt.Domain, flags golibvirt.DomainXMLFlags) (*libvirtxml.Domain, error) {
	text, err := Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) { return l.DomainGetXMLDesc(ref, flags) })
	if err != nil {
		return nil, err
	}
	return domxml.ParseDefinition(text, flags&golibvirt.DomainXMLInactive == 0)
}
