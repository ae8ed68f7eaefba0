//go:build ordeal

package web_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/andybalholm/brotli"

	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// firstPageBudget is the maximum number of bytes that a new browser receives for its first page, with all files and
// headers.
const firstPageBudget = 55 << 10

// byteCountingConn is a connection that counts its received and sent bytes.
type byteCountingConn struct {
	net.Conn
	in, out *atomic.Int64
}

func (c byteCountingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.in.Add(int64(n))
	return n, err
}

func (c byteCountingConn) Write(b []byte) (int, error) {
	c.out.Add(int64(len(b)))
	return c.Conn.Write(b)
}

var (
	loadedByPage = regexp.MustCompile(`(?:<script[^>]* src|<link[^>]* href|<use href)="(/static/[^"#]+)`)
	loadedByFile = regexp.MustCompile(`(?m)(?:(?:^|;)import\b[^"'\n]*|new URL\()["'](\.[^"']+)["']`)
)

// loadWithAssets loads a page with all its assets, as a browser does. It returns the number of files, and of received
// and sent bytes.
func (b *browser) loadWithAssets(path string) (files int, in, out int64) {
	b.t.Helper()
	var received, sent atomic.Int64
	client := &http.Client{Jar: b.http.Jar, Transport: &http.Transport{
		DisableCompression: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return byteCountingConn{conn, &received, &sent}, err
		},
	}}
	defer client.CloseIdleConnections()
	get := func(path string) string {
		r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.url+path, nil)
		if err != nil {
			b.t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd") // as Chrome sends it
		answer, err := client.Do(r)
		if err != nil {
			b.t.Fatal(err)
		}
		defer answer.Body.Close()
		var body io.Reader = answer.Body
		switch answer.Header.Get("Content-Encoding") {
		case "br":
			body = brotli.NewReader(body)
		case "gzip":
			if body, err = gzip.NewReader(body); err != nil {
				b.t.Fatal(err)
			}
		}
		text, err := io.ReadAll(body)
		if err != nil || answer.StatusCode != http.StatusOK {
			b.t.Fatalf("%s: %d %v", path, answer.StatusCode, err)
		}
		return string(text)
	}
	page := get(path)
	b.t.Logf("%s: %d bytes of HTML, %d received for it", path, len(page), received.Load())
	seen := map[string]bool{}
	var wanted []string
	for _, m := range loadedByPage.FindAllStringSubmatch(page, -1) {
		wanted = append(wanted, m[1])
	}
	for len(wanted) > 0 {
		file := wanted[0]
		if wanted = wanted[1:]; seen[file] {
			continue
		}
		seen[file] = true
		text := get(file)
		if !strings.HasSuffix(file, ".js") {
			continue
		}
		for _, m := range loadedByFile.FindAllStringSubmatch(text, -1) {
			at, err := url.Parse(file)
			if err != nil {
				b.t.Fatal(err)
			}
			wanted = append(wanted, at.ResolveReference(&url.URL{Path: m[1]}).Path)
		}
	}
	return len(seen), received.Load(), sent.Load()
}

func TestUncachedPageLoadWithinSizeBudget(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	testkit.Seed(t, p.pool, 200, 5000)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	for _, path := range []string{"/", "/vms", "/hosts", "/tasks"} {
		files, in, out := b.loadWithAssets(path)
		report := fmt.Sprintf("%s with %d files: %d bytes received, %d sent", path, files, in, out)
		// fewer than 9 files mean that the test no longer finds the page's assets
		if t.Log(report); in > firstPageBudget || files < 9 {
			t.Errorf("%s; at most %d", report, firstPageBudget)
		}
	}
}
