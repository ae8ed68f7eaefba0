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

// TestThePageSaysItsPace: what a stream says of its pace under load stands on every page, and goes when the load has gone. The load is
// played by a proxy that says so in the portal's stream.
func TestThePageSaysItsPace(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	behind, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string) // one for each stream
	line := httputil.NewSingleHostReverseProxy(behind)
	line.FlushInterval = -1
	line.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Path == "/events" && r.StatusCode == http.StatusOK {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(strings.NewReader("event: pace\ndata: 4\n\n"), &saying{r.Body, said}), r.Body}
		}
		return nil
	}
	proxy := httptest.NewServer(line)
	t.Cleanup(proxy.Close)
	t.Cleanup(func() { proxy.CloseClientConnections() })
	p := newTab(t, proxy.URL)
	p.signIn(s)
	p.open("/vms")
	p.waitText("#pace", "live, every 4 s")
	p.portray("pace")
	vm := one[fleet.VMView](t, s.api(), "vms", "desk-01")
	p.open("/vms/" + string(vm.ID)) // another page of the same stream, which says nothing anew
	p.waitText("#pace", "live, every 4 s")
	go func() { said <- "event: pace\ndata: 1\n\n" }()
	p.waitTrue("the page to say nothing", `document.getElementById("pace").hidden`)
}

// saying reads on, and says what is to be said before the next thing that is read.
type saying struct {
	from io.Reader
	said <-chan string
}

func (r *saying) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	copy(b, bytes.ReplaceAll(b[:n], []byte("event: pace"), []byte("event: own "))) // its own pace is not what this is about
	select {
	case more := <-r.said:
		return n + copy(b[n:], more), err
	default:
		return n, err
	}
}
