package migration_test

import (
	"net"
	"path/filepath"
	"testing"

	"quantix/agent/migration"
)

// QEMU takes the first connection as the main one, so streams must not overtake each other.
func TestStreamsArriveInOrderOfConnections(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	accepted := make(chan *migration.Link, 1)
	go func() {
		target, err := migration.Accept(b)
		if err != nil {
			t.Error(err)
		}
		accepted <- target
	}()
	source, err := migration.Connect(a)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if err := source.Send(t.Context(), "first"); err != nil { // yamux opens the control stream with its first message
		t.Fatal(err)
	}
	target := <-accepted
	defer target.Close()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go source.ForwardFrom(listener, 'm')
	const streams = 20
	dialled := make(chan net.Conn, streams)
	go target.ForwardTo(func(kind byte) (net.Conn, error) {
		if kind != 'm' {
			t.Errorf("the stream has the kind %q", kind)
		}
		near, far := net.Pipe()
		dialled <- far
		return near, nil
	})
	for n := range byte(streams) {
		c, err := net.Dial("unix", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte{n}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range byte(streams) {
		var got [1]byte
		if _, err := (<-dialled).Read(got[:]); err != nil || got[0] != n {
			t.Fatalf("stream %d carries the connection %d: %v", n, got[0], err)
		}
	}
}
