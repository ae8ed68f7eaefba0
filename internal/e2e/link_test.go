//go:build linux

package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
)

// uploadLink is a TCP proxy between an uploader and a portal. The test can cut it. The first freeBytes of a connection
// pass at once; further bytes wait until the test allows them.
type uploadLink struct {
	url string
	to  string

	mu         sync.Mutex
	changed    *sync.Cond
	allowance  int64 // number of bytes that may pass; below 0: unlimited
	maxPerConn int64 // limit of bytes of one connection, which is then closed; 0: no limit
	passed     int64
	cuts       int
	open       map[net.Conn]bool
}

// freeBytes is the number of bytes of each connection that always pass. It is enough for requests of pages.
const freeBytes = 64 << 10

func newUploadLink(t *testing.T, to string) *uploadLink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &uploadLink{url: "http://" + l.Addr().String(), to: to, allowance: -1, open: map[net.Conn]bool{}}
	k.changed = sync.NewCond(&k.mu)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { k.splice(from) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		k.allowBytes(-1)
		k.cut()
		all.Wait()
	})
	return k
}

func (k *uploadLink) splice(from net.Conn) {
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
		if n > 0 && k.waitAllowed(from, sent, int64(n)) {
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

// waitAllowed waits until n bytes may pass. It closes a connection that exceeds its limit and returns false.
func (k *uploadLink) waitAllowed(from net.Conn, sent, n int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.maxPerConn > 0 && sent+n > k.maxPerConn {
		k.cuts++
		delete(k.open, from)
		from.Close()
		return false
	}
	if sent < freeBytes {
		return true
	}
	for k.allowance >= 0 && k.allowance < n && k.open[from] {
		k.changed.Wait()
	}
	if !k.open[from] {
		return false
	}
	if k.passed += n; k.allowance >= 0 {
		k.allowance -= n
	}
	return true
}

func (k *uploadLink) isOpen(from net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open[from]
}

// allowBytes lets n more bytes pass; below 0: all bytes.
func (k *uploadLink) allowBytes(n int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.allowance = max(k.allowance, 0) + n; n < 0 {
		k.allowance = -1
	}
	k.changed.Broadcast()
}

// cut closes every connection.
func (k *uploadLink) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.open {
		c.Close()
		delete(k.open, c)
	}
	k.changed.Broadcast()
}
