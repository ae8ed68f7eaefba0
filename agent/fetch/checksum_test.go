package fetch

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A checksum file is downloaded by the same rules as the image, and its size is limited.
func TestChecksumFileIsDownloaded(t *testing.T) {
	t.Parallel()
	digits := strings.TrimPrefix(sha256Of(emptyDiskFile), "sha256:")
	var asked atomic.Int64 // requests for the image
	s, c := newFileServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/SUMS":
			_, _ = w.Write([]byte(digits + "  image.qcow2\n" + strings.Repeat("0", 64) + "  other.qcow2\n"))
		case "/plain":
			_, _ = w.Write([]byte(digits + "\n"))
		case "/wrong":
			_, _ = w.Write([]byte(strings.Repeat("0", 64) + "  image.qcow2\n"))
		case "/long":
			_, _ = w.Write(make([]byte, maxChecksumFile+1))
		case "/to":
			http.Redirect(w, r, "/SUMS", http.StatusFound)
		case "/inside":
			http.Redirect(w, r, "https://169.254.169.254/SUMS", http.StatusFound)
		case "/http":
			http.Redirect(w, r, "http://"+r.Host+"/SUMS", http.StatusFound)
		case "/none":
			http.NotFound(w, r)
		case "/silent":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("a"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			asked.Add(1)
			http.ServeContent(w, r, "file", time.Time{}, bytes.NewReader(emptyDiskFile))
		}
	})
	c.stallTimeout = 2 * time.Second
	get := func(o Request) error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		o.FreeBytes = 1 << 30
		return c.Get(ctx, o, &bytes.Buffer{}, func(int64, int64, int64) {})
	}
	for _, at := range []string{"/SUMS", "/plain", "/to"} {
		if err := get(Request{URL: s.URL + "/image.qcow2", ChecksumURL: s.URL + at}); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	before := asked.Load()
	for at, says := range map[string]string{
		"/long": "is larger than", "/inside": "private or reserved", "/http": "redirects to an address that is not allowed", "/none": "404", "/silent": "sent nothing",
	} {
		wantErrorText(t, at, get(Request{URL: s.URL + "/image.qcow2", ChecksumURL: s.URL + at}), says)
	}
	wantErrorText(t, "another name", get(Request{URL: s.URL + "/third.qcow2", ChecksumURL: s.URL + "/SUMS"}), "no SHA-256 or SHA-512 of third.qcow2")
	wantErrorText(t, "over http", get(Request{URL: s.URL + "/image.qcow2", ChecksumURL: "http://example.org/SUMS"}), "Plain http")
	wantErrorText(t, "a checksum beside it", get(Request{URL: s.URL + "/image.qcow2", Checksum: digits, ChecksumURL: s.URL + "/SUMS"}), "is not a checksum")
	if asked.Load() != before {
		t.Error("the image was requested without its checksum")
	}
	wantErrorText(t, "other bytes", get(Request{URL: s.URL + "/image.qcow2", ChecksumURL: s.URL + "/wrong"}), "was deleted")
	wantErrorText(t, "http without TLS for its checksum", get(Request{URL: "http://127.0.0.1:1/image.qcow2", ChecksumURL: s.URL + "/SUMS"}), "cannot reach")
}
