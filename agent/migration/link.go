// Package migration is the connection between the two agents of a live migration. One authenticated connection carries
// the agents' messages and any number of byte streams, such as QEMU's migration stream.
package migration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of a link.
const (
	maxMessageBytes = 4 << 20          // a domain definition and libvirt's cookie
	maxMessages     = 4                // received, but not yet taken by Receive
	maxStreams      = 64               // QEMU opens at most 16 channels, and one stream for each disk
	silenceTimeout  = 30 * time.Second // longest time without a frame of the other host
)

// Role is a host's part in a live migration.
type Role int

// The roles. Only the source opens streams.
const (
	Source Role = iota
	Target
)

// Link is a live migration's connection to the other host's agent. Send and Receive must not be called concurrently.
type Link struct {
	conn     net.Conn
	role     Role          // this host's
	writing  sync.Mutex    // held for a whole frame
	messages chan []byte   // closed when the connection has ended
	accepted chan *stream  // opened by the other host; closed when the connection has ended
	ended    chan struct{} // closed when the connection has ended
	why      error         // why the connection has ended; valid once ended is closed
	pings    chan struct{} // the other host's unanswered ping
	pongs    chan struct{} // answers to pings
	silence  *time.Timer   // closes the link
	closing  sync.Once

	roundTrip atomic.Int64 // shortest time of a ping and its answer in nanoseconds; 0: not measured yet

	opening sync.Mutex // keeps the order of opened streams
	mu      sync.Mutex
	streams []*stream // by number
}

// NewLink returns a link over the connection to the other host's agent. role is this host's. The link owns conn.
func NewLink(conn net.Conn, role Role) *Link {
	l := &Link{conn: conn, role: role, messages: make(chan []byte, maxMessages), accepted: make(chan *stream, maxStreams), ended: make(chan struct{}), pings: make(chan struct{}, 1), pongs: make(chan struct{}, 1)}
	l.silence = time.AfterFunc(silenceTimeout, l.Close)
	go l.readFrames()
	go l.sendPings()
	go l.answerPings()
	return l
}

// Close closes the link and all its streams.
func (l *Link) Close() { l.closing.Do(func() { _ = l.conn.Close() }) }

// Send sends a message, encoded as JSON. It closes the link when ctx ends.
func (l *Link) Send(ctx context.Context, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(text) > maxMessageBytes {
		return fmt.Errorf("the message to the other host has %d bytes, more than %d", len(text), maxMessageBytes)
	}
	defer context.AfterFunc(ctx, l.Close)()
	return wrapLost(ctx, l.writeFrame(frameMessage, 0, append(make([]byte, headBytes), text...)))
}

// Receive decodes the other host's next message. It closes the link when ctx ends.
func (l *Link) Receive(ctx context.Context, message any) error {
	defer context.AfterFunc(ctx, l.Close)()
	text, ok := <-l.messages
	if !ok {
		return wrapLost(ctx, l.why)
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(message); err != nil {
		return fmt.Errorf("the other host sends an invalid message: %w", err)
	}
	return nil
}

// ErrLost is wrapped by the error of a link whose connection was lost.
var ErrLost = errors.New("the connection to the other host was lost")

func wrapLost(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// ForwardFrom forwards each connection that the source's listener accepts to the target, until the listener is closed.
// kind is a stream's purpose, which the target's ForwardTo gets.
func (l *Link) ForwardFrom(listener net.Listener, kind byte) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		local, err := listener.Accept()
		if err != nil {
			return
		}
		s, err := l.open(kind)
		if err != nil {
			local.Close() // the program at the listener gets the error
			continue
		}
		all.Go(func() { s.splice(local) })
	}
}

// ForwardTo connects each stream of the source to the connection that the target's dial opens for its kind, until the link
// ends. It keeps the order of the source's connections, because QEMU's first connection is the main one.
func (l *Link) ForwardTo(dial func(kind byte) (net.Conn, error)) {
	var all sync.WaitGroup
	defer all.Wait()
	for s := range l.accepted {
		local, err := dial(s.kind)
		if err != nil {
			s.refuse() // the program at the other end gets the error
			continue
		}
		all.Go(func() { s.splice(local) })
	}
}
