package migration_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"quantix/agent/migration"
)

// newLinks returns both ends of a link.
func newLinks(t *testing.T) (source, target *migration.Link) {
	t.Helper()
	a, b := net.Pipe()
	source, target = migration.NewLink(a, migration.Source), migration.NewLink(b, migration.Target)
	t.Cleanup(source.Close)
	t.Cleanup(target.Close)
	return source, target
}

// forward forwards UNIX connections through the link. near opens a connection at the source, and far receives its other
// end at the target.
func forward(t *testing.T, source, target *migration.Link) (near func() *net.UnixConn, far chan *net.UnixConn) {
	t.Helper()
	dir := t.TempDir()
	listen := func(name string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	from, to := listen("s"), listen("t")
	far = make(chan *net.UnixConn, 1)
	go source.ForwardFrom(from, 'm')
	go target.ForwardTo(func(byte) (net.Conn, error) { return net.Dial("unix", to.Addr().String()) })
	go func() {
		for {
			c, err := to.AcceptUnix()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			far <- c
		}
	}()
	return func() *net.UnixConn {
		c, err := net.Dial("unix", from.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c.(*net.UnixConn)
	}, far
}

// Each direction sends more than the largest window and ends on its own.
func TestStreamCarriesBothDirectionsToTheirEnds(t *testing.T) {
	t.Parallel()
	near, far := forwardOne(t)
	sent := make([]byte, 20<<20)
	_, _ = rand.Read(sent)
	go func() {
		_, _ = near.Write(sent)
		_ = near.CloseWrite()
	}()
	got, err := io.ReadAll(far)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d of %d bytes arrived, equal: %t, %v", len(got), len(sent), bytes.Equal(got, sent), err)
	}
	go func() {
		_, _ = far.Write(sent)
		_ = far.CloseWrite()
	}()
	if got, err = io.ReadAll(near); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d of %d bytes came back, equal: %t, %v", len(got), len(sent), bytes.Equal(got, sent), err)
	}
}

// forwardOne returns both ends of one forwarded connection.
func forwardOne(t *testing.T) (near, far *net.UnixConn) {
	t.Helper()
	source, target := newLinks(t)
	dial, accepted := forward(t, source, target)
	near = dial()
	return near, <-accepted
}

// QEMU must notice at once that the QEMU on the other host has died.
func TestWritesFailWhenProgramOnOtherHostDied(t *testing.T) {
	t.Parallel()
	near, far := forwardOne(t)
	far.Close()
	if err := near.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		_, err = near.Write(make([]byte, 64<<10))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the writes do not fail")
	}
}

// QEMU may read a disk's stream only after the memory's stream.
func TestStalledStreamDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	source, target := newLinks(t)
	dial, accepted := forward(t, source, target)
	stalled := dial()
	<-accepted
	if err := stalled.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := stalled.Write(make([]byte, 40<<20)); err == nil {
		t.Fatalf("%d bytes were sent without a reader", n)
	}
	near := dial()
	far := <-accepted
	if _, err := near.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(far, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := source.Send(t.Context(), "still there"); err != nil {
		t.Fatal(err)
	}
	var text string
	if err := target.Receive(t.Context(), &text); err != nil || text != "still there" {
		t.Fatal(text, err)
	}
}

func TestMessageSentBeforeCloseIsReceived(t *testing.T) {
	t.Parallel()
	source, target := newLinks(t)
	if err := target.Send(t.Context(), "result"); err != nil {
		t.Fatal(err)
	}
	target.Close()
	var text string
	if err := source.Receive(t.Context(), &text); err != nil || text != "result" {
		t.Fatal(text, err)
	}
	if err := source.Receive(t.Context(), &text); !errors.Is(err, migration.ErrLost) {
		t.Errorf("the closed link returns %v", err)
	}
}

func TestLinkEndsWithoutFramesOfOtherHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		go func() { _, _ = io.Copy(io.Discard, b) }()
		l := migration.NewLink(a, migration.Source)
		defer l.Close()
		began := time.Now()
		if err := l.Receive(t.Context(), new(string)); !errors.Is(err, migration.ErrLost) {
			t.Errorf("the link ended with %v", err)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("the link ended after %s", took)
		}
	})
}

func TestIdleLinkStaysOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		source, target := migration.NewLink(a, migration.Source), migration.NewLink(b, migration.Target)
		defer source.Close()
		defer target.Close()
		time.Sleep(time.Hour) // of the test's own clock
		if err := source.Send(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if err := target.Receive(t.Context(), new(string)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestInvalidFramesEndLink(t *testing.T) {
	t.Parallel()
	opened := []byte{2, 0, 0, 0, 0, 'm'}
	piece := append([]byte{3, 0, 0, 0, 0, 1}, 'x')
	for name, sent := range map[string][]byte{
		"unknown type":            slices.Concat(opened, []byte{9, 0, 0, 0, 0, 0}),
		"data of unopened stream": piece,
		"long message":            {1, 0, 0xff, 0, 0, 0},
		"stream out of order":     {2, 1, 0, 0, 0, 'm'},
		"long piece":              slices.Concat(opened, []byte{3, 0, 0, 2, 0, 0}),
		"empty piece":             slices.Concat(opened, []byte{3, 0, 0, 0, 0, 0}),
		"credit beyond window":    slices.Concat(opened, []byte{6, 0, 0, 1, 0, 0}),
		"data after its end":      slices.Concat(opened, []byte{4, 0, 0, 0, 0, 0}, piece),
		"data beyond window":      slices.Concat(opened, bytes.Repeat(piece, 9)),
		"messages nobody reads":   bytes.Repeat([]byte{1, 0, 0, 0, 0, 1, '1'}, 5),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantEnded(t, migration.Target, sent)
		})
	}
}

// Only the source opens streams, so nobody would take the data of the target's.
func TestStreamOfTargetEndsSourcesLink(t *testing.T) {
	t.Parallel()
	wantEnded(t, migration.Source, []byte{2, 0, 0, 0, 0, 'm'})
}

// wantEnded checks that a link ends when the other host sends some bytes.
func wantEnded(t *testing.T, role migration.Role, sent []byte) {
	t.Helper()
	a, b := net.Pipe()
	l := migration.NewLink(a, role)
	defer l.Close()
	go func() { _, _ = b.Write(sent) }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, b)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("the link stays open")
	}
}

// QEMU takes the first connection as the main one, so streams must not overtake each other.
func TestStreamsArriveInOrderOfConnections(t *testing.T) {
	t.Parallel()
	source, target := newLinks(t)
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
