//go:build linux

package libvirt_test

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// procStoragePoolRefresh is the number of a call in libvirt's protocol.
const procStoragePoolRefresh = 83

// proxy stands before libvirtd's socket and can swallow one kind of call, as if libvirtd hung in it.
type proxy struct {
	socket  string
	drop    atomic.Uint32 // the call to swallow; 0: none
	dropped atomic.Int32

	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{socket: filepath.Join(t.TempDir(), "sock")}
	l, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); p.cut() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", "/run/libvirt/libvirt-sock")
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	go func() {
		defer client.Close()
		io.Copy(client, server)
	}()
	// A packet is its length, the program, its version and the call's number, four bytes each, and more.
	head := make([]byte, 16)
	for {
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		rest := make([]byte, binary.BigEndian.Uint32(head)-uint32(len(head)))
		if _, err := io.ReadFull(client, rest); err != nil {
			return
		}
		if proc := binary.BigEndian.Uint32(head[12:]); proc == p.drop.Load() {
			p.dropped.Add(1)
			continue
		}
		if _, err := server.Write(append(append([]byte{}, head...), rest...)); err != nil {
			return
		}
	}
}
