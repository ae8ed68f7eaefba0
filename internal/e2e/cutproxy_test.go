//go:build linux && ordeal

package e2e

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// cutProxy is a TCP proxy between one agent and its portal. Data that is sent during a pause is delayed, not lost.
type cutProxy struct {
	url string // URL at which the agent reaches the portal

	mu     sync.Mutex
	paused chan struct{} // closed on resume; nil: not paused
	conns  map[net.Conn]bool
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
	t.Cleanup(func() { l.Close(); d.resume(); d.cut() })
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
	d.waitOpen()
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
		copyObserved(portal, agent, func([]byte) { d.waitOpen() })
	}()
	copyObserved(agent, portal, func([]byte) { d.waitOpen() })
}

// waitOpen blocks while the proxy is paused.
func (d *cutProxy) waitOpen() {
	d.mu.Lock()
	paused := d.paused
	d.mu.Unlock()
	if paused != nil {
		<-paused
	}
}

// pause delays all traffic until resume is called.
func (d *cutProxy) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused == nil {
		d.paused = make(chan struct{})
	}
}

func (d *cutProxy) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused != nil {
		close(d.paused)
		d.paused = nil
	}
}

// cut closes all connections. The proxy accepts new connections.
func (d *cutProxy) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		c.Close()
	}
}
