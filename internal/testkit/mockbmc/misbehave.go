package mockbmc

import (
	"net/http"
	"strings"
	"time"
)

// hang waits until the client or the mock ends.
func (b *BMC) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-b.closed:
	}
	panic(http.ErrAbortHandler) // a client that gives up must not get an answer at the same instant
}

// drop closes the connection without an answer.
func (*BMC) drop(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if c, _, err := h.Hijack(); err == nil {
			_ = c.Close()
		}
	}
}

// misbehave answers in the modes that concern each request. It reports whether it has.
func (b *BMC) misbehave(mode Mode, w http.ResponseWriter, r *http.Request) bool {
	switch mode {
	case Hangs:
		b.hang(r)
	case Garbage:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html><title>Sign in</title></html>"))
	case Huge:
		block := []byte(strings.Repeat(" ", 64<<10))
		for {
			if _, err := w.Write(block); err != nil {
				return true
			}
		}
	case Drips:
		b.drip(w, r)
	case Redirects:
		http.Redirect(w, r, "https://127.0.0.2:1/redfish/v1", http.StatusFound)
	default:
		return false
	}
	return true
}

// drip writes a byte at a time until the client or the mock ends.
func (b *BMC) drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := w.Write([]byte(" ")); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-b.closed:
			return
		case <-tick.C:
		}
	}
}
