//go:build linux && ordeal

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// TestPageShowsRefreshInterval checks that pages show the refresh interval that the event stream sends under load, and
// hide it when the load ends. A proxy injects the events into the portal's stream.
func TestPageShowsRefreshInterval(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	behind, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	injected := make(chan string) // each value is inserted into one stream
	proxyHandler := httputil.NewSingleHostReverseProxy(behind)
	proxyHandler.FlushInterval = -1
	proxyHandler.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Path == "/events" && r.StatusCode == http.StatusOK {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(strings.NewReader("event: pace\ndata: 4\n\n"), &streamInjector{r.Body, injected}), r.Body}
		}
		return nil
	}
	proxy := httptest.NewServer(proxyHandler)
	t.Cleanup(proxy.Close)
	t.Cleanup(func() { proxy.CloseClientConnections() })
	p := newTab(t, proxy.URL)
	p.signIn(s)
	p.open("/vms")
	p.waitText("#pace", "live, every 4 s")
	p.capture("pace")
	vm := findByName[fleet.VMView](t, s.api(), "vms", "desk-01")
	p.open("/vms/" + string(vm.ID)) // another page on the same stream; the stream does not repeat the event
	p.waitText("#pace", "live, every 4 s")
	go func() { injected <- "event: pace\ndata: 1\n\n" }()
	p.waitTrue("the interval to be hidden", `document.getElementById("pace").hidden`)
}

// streamInjector inserts events into a stream, before the data of the next read.
type streamInjector struct {
	from     io.Reader
	injected <-chan string
}

func (r *streamInjector) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	copy(b, bytes.ReplaceAll(b[:n], []byte("event: pace"), []byte("event: own "))) // renames the portal's own interval event, so that pages ignore it
	select {
	case more := <-r.injected:
		return n + copy(b[n:], more), err
	default:
		return n, err
	}
}
