//go:build linux && ordeal

package e2e

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// cutProxy is the network between one agent and its portal. What is sent while it is held is late, not lost: TCP sees to that.
type cutProxy struct {
	url string // for the agent

	mu    sync.Mutex
	held  chan struct{} // closed when it is opened again; nil: it is open
	conns map[net.Conn]bool
}

func newCutProxy(t testing.TB, portal string) *cutProxy {
	t.Helper()
	u, err := url.Parse(portal)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &cutProxy{url: "https://" + l.Addr().String(), conns: map[net.Conn]bool{}}
	t.Cleanup(func() { l.Close(); d.open(); d.cut() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go d.splice(c, u.Host)
		}
	}()
	return d
}

func (d *cutProxy) splice(agent net.Conn, address string) {
	defer agent.Close()
	d.through()
	portal, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer portal.Close()
	d.mu.Lock()
	d.conns[agent], d.conns[portal] = true, true
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.conns, agent)
		delete(d.conns, portal)
	}()
	go func() {
		defer portal.Close()
		pass(portal, agent, func([]byte) { d.through() })
	}()
	pass(agent, portal, func([]byte) { d.through() })
}

// through returns when nothing holds the door.
func (d *cutProxy) through() {
	d.mu.Lock()
	held := d.held
	d.mu.Unlock()
	if held != nil {
		<-held
	}
}

// hold lets nothing through until open.
func (d *cutProxy) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == nil {
		d.held = make(chan struct{})
	}
}

func (d *cutProxy) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != nil {
		close(d.held)
		d.held = nil
	}
}

// cut breaks all connections; new ones are made as ever.
func (d *cutProxy) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		c.Close()
	}
}
