// Package migration is the connection between the two agents of a live migration. One authenticated connection carries
// the agents' messages and any number of byte streams, such as QEMU's migration stream.
package migration

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// Limits of a link.
const (
	maxMessageBytes = 4 << 20          // a domain definition and libvirt's cookie
	maxStreams      = 64               // QEMU opens at most 16 channels, and one stream for each disk
	silenceTimeout  = 30 * time.Second // longest time without an answer to yamux's keep-alive
	pieceBytes      = 256 << 10        // of one read; smaller pieces cost more system calls and yamux headers
)

// Link is a live migration's connection to the other host's agent. Send and Receive must not be called concurrently.
type Link struct {
	session *yamux.Session
	control net.Conn
	closing sync.Once
}

func settings() *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog, c.ConnectionWriteTimeout, c.KeepAliveInterval = maxStreams, silenceTimeout, silenceTimeout/3
	c.MaxStreamWindowSize = 16 << 20 // a long fat network needs more than yamux's 256 KiB
	c.LogOutput = io.Discard         // every failure reaches a caller
	return c
}

// Connect makes a link of the connection that the source has opened. It owns conn.
func Connect(conn net.Conn) (*Link, error) {
	session, err := yamux.Client(conn, settings())
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	control, err := session.Open()
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return &Link{session: session, control: control}, nil
}

// Accept makes a link of the connection that the target has admitted. It owns conn.
func Accept(conn net.Conn) (*Link, error) {
	session, err := yamux.Server(conn, settings())
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	control, err := session.Accept()
	if err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return &Link{session: session, control: control}, nil
}

// Close closes the link and all its streams.
func (l *Link) Close() { l.closing.Do(func() { _ = l.session.Close() }) }

// Send sends a message, encoded as JSON.
func (l *Link) Send(ctx context.Context, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(text) > maxMessageBytes {
		return fmt.Errorf("the message to the other host has %d bytes, more than %d", len(text), maxMessageBytes)
	}
	defer context.AfterFunc(ctx, l.Close)()
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(text)))
	_, err = l.control.Write(append(head[:], text...))
	return l.wrap(ctx, err)
}

// Receive decodes the other host's next message. It closes the link when ctx ends.
func (l *Link) Receive(ctx context.Context, message any) error {
	defer context.AfterFunc(ctx, l.Close)()
	var head [4]byte
	if _, err := io.ReadFull(l.control, head[:]); err != nil {
		return l.wrap(ctx, err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxMessageBytes {
		return fmt.Errorf("the other host sends a message of %d bytes, more than %d", n, maxMessageBytes)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(l.control, text); err != nil {
		return l.wrap(ctx, err)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	if err := in.Decode(message); err != nil {
		return fmt.Errorf("the other host sends an invalid message: %w", err)
	}
	return nil
}

// ErrLost is wrapped by the error of a link whose connection was lost.
var ErrLost = errors.New("the connection to the other host was lost")

func (l *Link) wrap(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// ForwardFrom forwards each connection that the listener accepts to the other host, until the listener is closed. kind
// is a stream's purpose, which the other host's ForwardTo gets.
func (l *Link) ForwardFrom(listener net.Listener, kind byte) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		local, err := listener.Accept()
		if err != nil {
			return
		}
		stream, err := l.session.Open()
		if err == nil {
			_, err = stream.Write([]byte{kind})
		}
		if err != nil {
			local.Close()
			continue // the program at the listener gets the error
		}
		all.Go(func() { splice(local, stream) })
	}
}

// ForwardTo connects each stream of the other host to the connection that dial opens for its kind, until the link ends. It
// keeps the order of the other host's connections, because QEMU's first connection is the main one.
func (l *Link) ForwardTo(dial func(kind byte) (net.Conn, error)) {
	var all sync.WaitGroup
	defer all.Wait()
	for range maxStreams {
		stream, err := l.session.Accept()
		if err != nil {
			return
		}
		local, err := dialKind(stream, dial)
		if err != nil {
			stream.Close()
			continue // the program at the other end gets the error
		}
		all.Go(func() { splice(local, stream) })
	}
}

// dialKind opens the connection for the stream's kind, which is its first byte.
func dialKind(stream net.Conn, dial func(kind byte) (net.Conn, error)) (net.Conn, error) {
	var kind [1]byte
	if err := stream.SetReadDeadline(time.Now().Add(silenceTimeout)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(stream, kind[:]); err != nil {
		return nil, err
	}
	if err := stream.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return dial(kind[0])
}

// splice copies both directions and closes both connections when both directions have ended.
func splice(local, stream net.Conn) {
	var both sync.WaitGroup
	forward := func(to, from net.Conn) {
		// The plain interfaces let CopyBuffer use the buffer instead of sendfile or a buffer of 32 KiB.
		_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, pieceBytes))
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
			return
		}
		_ = to.Close() // a yamux stream stays readable after Close, until the other side closes it
	}
	both.Go(func() { forward(local, stream) })
	both.Go(func() { forward(stream, local) })
	both.Wait()
	_ = local.Close()
	_ = stream.Close()
}
