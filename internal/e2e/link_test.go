//go:build linux

package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
)

// link is the way between a sender and a portal, which the test may cut. What a connection sends beyond its first bytes waits until the test
// lets it through.
type link struct {
	url string
	to  string

	mu     sync.Mutex
	moved  *sync.Cond
	room   int64 // bytes that may pass; below 0: all
	most   int64 // of one connection, which then breaks; 0: any number
	passed int64
	cuts   int
	open   map[net.Conn]bool
}

// usualTalk is what pages send without being held up.
const usualTalk = 64 << 10

func newLink(t *testing.T, to string) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{url: "http://" + l.Addr().String(), to: to, room: -1, open: map[net.Conn]bool{}}
	k.moved = sync.NewCond(&k.mu)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { k.carry(from) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		k.let(-1)
		k.cut()
		all.Wait()
	})
	return k
}

func (k *link) carry(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", k.to)
	if err != nil {
		return
	}
	defer to.Close()
	k.mu.Lock()
	k.open[from] = true
	k.mu.Unlock()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(from, to)
		from.Close()
	}()
	buf := make([]byte, 16<<10)
	for sent := int64(0); ; {
		n, err := from.Read(buf)
		if n > 0 && k.through(from, sent, int64(n)) {
			_, err = to.Write(buf[:n])
		}
		if sent += int64(n); err != nil || !k.isOpen(from) {
			break
		}
	}
	to.Close()
	<-back
	k.mu.Lock()
	delete(k.open, from)
	k.mu.Unlock()
}

// through waits until n bytes may pass, and breaks the connection that has had its share.
func (k *link) through(from net.Conn, sent, n int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.most > 0 && sent+n > k.most {
		k.cuts++
		delete(k.open, from)
		from.Close()
		return false
	}
	if sent < usualTalk {
		return true
	}
	for k.room >= 0 && k.room < n && k.open[from] {
		k.moved.Wait()
	}
	if !k.open[from] {
		return false
	}
	if k.passed += n; k.room >= 0 {
		k.room -= n
	}
	return true
}

func (k *link) isOpen(from net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open[from]
}

// let lets so many more bytes through; below 0: all.
func (k *link) let(n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.room = max(k.room, 0) + n; n < 0 {
		k.room = -1
	}
	k.moved.Broadcast()
}

// cut breaks every connection.
func (k *link) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.open {
		c.Close()
		delete(k.open, c)
	}
	k.moved.Broadcast()
}
