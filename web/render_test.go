package web_test

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

func TestPagesCompressedWhenAccepted(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	ann := p.newSignedInBrowser("ann", fleet.RoleAdmin)
	for accepted, want := range map[string]string{
		"gzip": "gzip", "br;q=1.0, gzip;q=0.5": "br", "br;q=0, gzip": "gzip", "br": "br", "zstd, gzip": "gzip", "": "", "identity": "", "gzip;q=0": "", "gzipped": "",
	} {
		a := ann.get("/vms", "Accept-Encoding", accepted).requireStatus(t, http.StatusOK)
		if got := a.header.Get("Content-Encoding"); got != want {
			t.Errorf("%q: %q", accepted, got)
		}
		if vary := a.header.Values("Vary"); len(vary) != 2 {
			t.Errorf("Vary: %q", vary)
		}
	}
	part := ann.get("/vms", "Accept-Encoding", "gzip, deflate, br, zstd", "HX-Request", "true", "HX-Target", "vms-head", "HX-Trigger", "vms-head").requireStatus(t, http.StatusOK)
	if got := part.header.Get("Content-Encoding"); got == "br" {
		t.Error("an automatic refresh is compressed with brotli")
	}
	small := ann.get("/projects/switch", "Accept-Encoding", "gzip", "HX-Request", "true").requireStatus(t, http.StatusOK)
	if got := small.header.Get("Content-Encoding"); got != "" {
		t.Errorf("a response of %d bytes has the encoding %q", len(small.body), got)
	}
}
