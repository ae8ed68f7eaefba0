package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quantix/agent/image"
	"quantix/internal/fleet"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// emptyDiskFile is the file that the test servers send: an empty disk.
var emptyDiskFile = append([]byte("\xeb\x63"), make([]byte, 3<<20)...)

func sha256Of(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// newFileServer starts a TLS server. The returned client trusts it and may connect to it.
func newFileServer(t *testing.T, answer http.HandlerFunc) (*httptest.Server, *Client) {
	t.Helper()
	s := httptest.NewUnstartedServer(answer)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	c := New(Settings{AllowedNetworks: loopback})
	c.settings.Roots = x509.NewCertPool()
	c.settings.Roots.AddCert(s.Certificate())
	return s, c
}

func (c *Client) get(t *testing.T, url, checksum string) ([]byte, error) {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := c.Get(ctx, Request{URL: url, Checksum: checksum, FreeBytes: 1 << 30}, &out, func(int64, int64, int64) {})
	return out.Bytes(), err
}

func wantErrorText(t *testing.T, what string, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) || fleet.CodeOf(err) != fleet.Conflict && fleet.CodeOf(err) != fleet.Invalid {
		t.Errorf("%s: %v, want a refusal that says %q", what, err, says)
	}
}

func TestDownloadWritesVerifiedFile(t *testing.T) {
	t.Parallel()
	var seen http.Header
	s, c := newFileServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/to":
			http.SetCookie(w, &http.Cookie{Name: "track", Value: "you"})
			http.Redirect(w, r, "/file?x=1", http.StatusFound)
		default:
			seen = r.Header.Clone()
			http.ServeContent(w, r, "file", time.Time{}, bytes.NewReader(emptyDiskFile))
		}
	})
	for _, sum := range []string{"", sha256Of(emptyDiskFile), strings.TrimPrefix(strings.ToUpper(sha256Of(emptyDiskFile)), "SHA256:")} {
		got, err := c.get(t, s.URL+"/to", sum)
		if err != nil || !bytes.Equal(got, emptyDiskFile) {
			t.Errorf("with checksum %q: %d bytes, %v", sum, len(got), err)
		}
	}
	for _, header := range []string{"Cookie", "Referer", "Authorization", "Range"} {
		if seen.Get(header) != "" {
			t.Errorf("the server received %s %q", header, seen.Get(header))
		}
	}
	if seen.Get("Accept-Encoding") != "identity" {
		t.Errorf("the request accepts %q", seen.Get("Accept-Encoding"))
	}
	other := "sha256:" + strings.Repeat("ab", 32)
	_, err := c.get(t, s.URL+"/file", other)
	wantErrorText(t, "a wrong checksum", err, strings.TrimPrefix(other, "sha256:"))
	wantErrorText(t, "a wrong checksum", err, strings.TrimPrefix(sha256Of(emptyDiskFile), "sha256:"))
	stranger := New(Settings{AllowedNetworks: loopback})
	_, err = stranger.get(t, s.URL+"/file", "")
	wantErrorText(t, "a certificate that nobody knows", err, "cannot be verified")
}

func TestDownloadsFromForbiddenAddressesAreRefused(t *testing.T) {
	t.Parallel()
	c := New(Settings{})
	for _, a := range []string{
		"127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "100.127.255.254", "169.254.169.254", "224.0.0.1", "0.0.0.0", "0.1.2.3",
		"255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.0.8", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "fec0::1",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:127.0.0.1", "168.63.129.16", "64:ff9b::a83f:8110", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
	} {
		if err := c.dialer.Check(netip.MustParseAddr(a)); fleet.CodeOf(err) != fleet.Conflict {
			t.Errorf("%s: %v", a, err)
		}
	}
	for _, a := range []string{"1.1.1.1", "172.32.0.1", "100.128.0.1", "168.63.129.17", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"} {
		if err := c.dialer.Check(netip.MustParseAddr(a)); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	c.dialer.OwnAddresses = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("203.0.113.9"), Mask: net.CIDRMask(24, 32)}}, nil
	}
	for spelt, own := range map[string]bool{"203.0.113.9": true, "64:ff9b::cb00:7109": true, "203.0.113.8": false} {
		if err := c.dialer.Check(netip.MustParseAddr(spelt)); (err != nil) != own {
			t.Errorf("%s: %v, is the host's own: %v", spelt, err, own)
		}
	}
	open := New(Settings{AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if open.dialer.Check(netip.MustParseAddr("::ffff:10.1.2.3")) != nil || open.dialer.Check(netip.MustParseAddr("192.168.0.1")) == nil {
		t.Error("the setting opens another network than its own")
	}
}

// Redirects and changing DNS answers reach no address that the settings forbid. 127.0.0.2 simulates the Internet here.
func TestRedirectsAndDNSCannotBypassAddressRules(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	inner := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(inner.Close)
	where := make(chan string, 1)
	outer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, <-where, http.StatusFound)
	}))
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	outer.Listener.Close()
	outer.Listener = listener
	outer.StartTLS()
	t.Cleanup(outer.Close)
	c := New(Settings{AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	c.settings.Roots = x509.NewCertPool()
	c.settings.Roots.AddCert(outer.Certificate())
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_, innerPort, _ := net.SplitHostPort(inner.Listener.Addr().String())

	start := "https://example.com:" + port + "/image"
	for _, to := range []string{inner.URL, "https://[::ffff:127.0.0.1]:" + innerPort, "https://localhost:" + innerPort, "https://169.254.169.254/latest"} {
		var lookups atomic.Int64
		c.dialer.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			if lookups.Add(1); host == "example.com" {
				return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
			}
			return net.DefaultResolver.LookupNetIP(t.Context(), "ip", host)
		}
		where <- to
		_, err := c.get(t, start, "")
		wantErrorText(t, "redirected to "+to, err, "private or reserved")
	}

	var lookups atomic.Int64
	c.dialer.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		if lookups.Add(1) == 1 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	where <- "https://example.com:" + innerPort + "/again"
	_, err = c.get(t, start, "")
	wantErrorText(t, "a name that is 127.0.0.1 the second time", err, "private or reserved")
	if lookups.Load() != 2 || asked.Load() != 0 {
		t.Errorf("%d lookups, and the inner server was asked %d times", lookups.Load(), asked.Load())
	}
}

func TestDownloadRedirectsAreLimited(t *testing.T) {
	t.Parallel()
	plainServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/round" {
			http.Redirect(w, r, "/file", http.StatusSeeOther)
			return
		}
		_, _ = w.Write(emptyDiskFile)
	}))
	t.Cleanup(plainServer.Close)
	s, c := newFileServer(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		switch _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); {
		case r.URL.Path == "/down":
			http.Redirect(w, r, plainServer.URL, http.StatusFound)
		case r.URL.Path == "/secret":
			w.Header().Set("Location", "https://user:secret@"+r.Host+"/0")
			w.WriteHeader(http.StatusFound)
		case r.URL.Path == "/deletedDir":
			w.WriteHeader(http.StatusFound)
		case r.URL.Path == "/file-scheme":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		case err == nil && n > 0:
			http.Redirect(w, r, fmt.Sprintf("/%d", n-1), http.StatusFound)
		default:
			_, _ = w.Write(emptyDiskFile)
		}
	})
	// a chunked response without a Content-Length
	if got, err := c.get(t, s.URL+"/5", ""); err != nil || !bytes.Equal(got, emptyDiskFile) {
		t.Errorf("five redirects: %v", err)
	}
	_, err := c.get(t, s.URL+"/6", sha256Of(emptyDiskFile))
	wantErrorText(t, "six redirects", err, "more than 5")
	_, err = c.get(t, s.URL+"/down", sha256Of(emptyDiskFile))
	wantErrorText(t, "from https to http", err, "from https to http")
	for _, path := range []string{"/secret", "/deletedDir", "/file-scheme"} {
		_, err = c.get(t, s.URL+path, sha256Of(emptyDiskFile))
		wantErrorText(t, path, err, "not allowed")
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error contains the secret: %v", err)
		}
	}
	_, err = c.get(t, plainServer.URL+"/round", "")
	wantErrorText(t, "http without a checksum", err, "checksum")
	if got, err := c.get(t, plainServer.URL+"/round", sha256Of(emptyDiskFile)); err != nil || !bytes.Equal(got, emptyDiskFile) {
		t.Errorf("http with a checksum: %v", err)
	}
}

// rawAnswer returns a handler that sends text as the raw response and then calls onSent with the connection.
func rawAnswer(text string, onSent func(net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = buffered.WriteString(text)
		_ = buffered.Flush()
		if onSent != nil {
			onSent(conn)
		}
	}
}

func TestInvalidServerAnswersFailDownload(t *testing.T) {
	t.Parallel()
	body := string(emptyDiskFile[:100000])
	endless := func(head string) http.HandlerFunc {
		return rawAnswer(head, func(conn net.Conn) {
			part := bytes.Repeat([]byte("x"), 64<<10)
			for {
				if _, err := conn.Write(part); err != nil {
					return
				}
			}
		})
	}
	silent := func(head string) http.HandlerFunc {
		return rawAnswer(head, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
		change func(*Client)
		sum    string
	}{
		"cut in the middle":               {rawAnswer("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n"+body, nil), "cut off after", nil, sha256Of(emptyDiskFile)},
		"cut between chunks":              {rawAnswer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", nil), "cut off after", nil, ""},
		"more than announced":             {rawAnswer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"+body, nil), "was expected", nil, sha256Of(emptyDiskFile[:100000])},
		"no length and no checksum":       {rawAnswer("HTTP/1.1 200 OK\r\n\r\n"+body, nil), "does not report the size", nil, ""},
		"nothing":                         {rawAnswer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", nil), "the file is empty", nil, ""},
		"announces too much for the pool": {rawAnswer("HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n"+body, nil), "room for 1 GiB", nil, ""},
		"announces more than the limit":   {rawAnswer("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+body, nil), "accepts at most 1 KiB", func(c *Client) { c.settings.MaxBytes = 1 << 10 }, ""},
		"endless":                         {endless("HTTP/1.1 200 OK\r\n\r\n"), "more than 8 MiB", func(c *Client) { c.settings.MaxBytes = 8 << 20 }, sha256Of(emptyDiskFile)},
		"endless header":                  {endless("HTTP/1.1 200 OK\r\nX: "), "", nil, ""},
		"stops sending":                   {silent("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + body), "sent nothing for", func(c *Client) { c.stallTimeout = 200 * time.Millisecond }, ""},
		"never answers":                   {silent(""), "sent nothing for", func(c *Client) { c.stallTimeout = 200 * time.Millisecond }, ""},
		"half a header":                   {silent("HTTP/1.1 200 OK\r\nContent-"), "sent nothing for", func(c *Client) { c.stallTimeout = 200 * time.Millisecond }, ""},
		"not found":                       {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, `"404 Not Found"`, nil, ""},
		"partial content":                 {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPartialContent) }, `"206 Partial`, nil, ""},
		"compressed transfer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(gzipped(emptyDiskFile))
		}, "with the encoding", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, client := newFileServer(t, c.answer)
			if c.change != nil {
				c.change(client)
			}
			got, err := client.get(t, s.URL+"/file", c.sum)
			if c.says == "" {
				if err == nil {
					t.Errorf("%d bytes were taken", len(got))
				}
				return
			}
			wantErrorText(t, name, err, c.says)
		})
	}
}

// gzipped returns the text compressed by gzip.
func gzipped(text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text)
	_ = w.Close()
	return out.Bytes()
}

// The downloaded file is stored unchanged: compressed data stays compressed, and a web page stays a web page. Neither
// is an image.
func TestDownloadedFileIsStoredUnchanged(t *testing.T) {
	t.Parallel()
	bomb := gzipped(make([]byte, 64<<20))
	s, c := newFileServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bomb" {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(bomb))
			return
		}
		_, _ = io.WriteString(w, "<!DOCTYPE html><title>Please sign in</title>")
	})
	for path, says := range map[string]string{"/bomb": "Unpack it first", "/page": "a web page"} {
		got, err := c.get(t, s.URL+path, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > len(bomb) {
			t.Errorf("%s: it was unpacked to %d bytes", path, len(got))
		}
		f, err := image.ReadFacts(bytes.NewReader(got), int64(len(got)), true)
		if err != nil {
			t.Fatal(err)
		}
		wantErrorText(t, path, f.CheckDownloaded(false), says)
	}
}

func TestDownloadIsCancelled(t *testing.T) {
	t.Parallel()
	begun := make(chan bool)
	s, c := newFileServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(emptyDiskFile[:1000])
		w.(http.Flusher).Flush()
		close(begun)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if err := c.Get(ctx, Request{URL: s.URL, FreeBytes: 1 << 30}, io.Discard, func(int64, int64, int64) {}); err == nil || fleet.CodeOf(err) != "" {
		t.Errorf("the stopped download ended %v", err)
	}
}

func TestUnreachableServerFailsDownload(t *testing.T) {
	t.Parallel()
	c := New(Settings{AllowedNetworks: loopback})
	c.dialer.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		if host == "gone.example" {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	_, err = c.get(t, "https://gone.example/x", "")
	wantErrorText(t, "no such name", err, "cannot find gone.example")
	_, err = c.get(t, "https://closed.example:"+port+"/x", "")
	wantErrorText(t, "nobody listens", err, "cannot reach closed.example")
	for _, bad := range []string{"ftp://x/y", "https://user@x/y", "https://u:p@x/y", "https://x/y#z", "file:///etc/passwd", "https:///y", "http://x/y", "", "https://x/a b"} {
		if _, err := c.get(t, bad, ""); fleet.CodeOf(err) != fleet.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
