package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"quantix/internal/fleet"
)

func newTestClient(t *testing.T, status int, body string) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer qx_secret" {
			t.Errorf("Authorization %q", r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	c, err := New(s.URL, "qx_secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAPIRefusalHasDetailAndFields(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, 422, `{"detail":"2 fields need a correction.","errors":[{"location":"spec.cpus","message":"Give 1."},{"location":"name","message":"Give a name."}]}`)
	_, err := c.VM(t.Context(), "x")
	var e *Error
	if !errors.As(err, &e) || StatusOf(err) != 422 || len(e.Fields) != 2 || e.Fields[0].Field != "spec.cpus" {
		t.Fatalf("%#v", err)
	}
	if want := "2 fields need a correction. spec.cpus: Give 1. name: Give a name."; err.Error() != want {
		t.Errorf("%q", err)
	}
}

func TestProxyHTMLErrorReturnsStatusText(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, 502, `<html>Bad gateway</html>`)
	if _, err := c.Hosts(t.Context(), fleet.Query{}); StatusOf(err) != 502 || err.Error() != "Bad Gateway" {
		t.Errorf("%v", err)
	}
}

func TestWaitVMStopsWhenContextCancelled(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, 200, `{"id":"x","name":"web","phase":"starting"}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	vm, err := c.WaitVM(ctx, "x", func(vm fleet.VMView) bool { cancel(); return vm.Phase == fleet.PhaseRunning })
	if !errors.Is(err, context.Canceled) || vm.Name != "web" {
		t.Errorf("%+v, %v", vm, err)
	}
}

func TestPortalAddressMustBeURL(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "portal", "portal:8443", "ftp://portal"} {
		if _, err := New(address, "", nil); err == nil {
			t.Errorf("%q accepted", address)
		}
	}
}
