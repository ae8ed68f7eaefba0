package libvirt_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt"
)

// An agent that starts before libvirtd connects as soon as libvirtd is up.
func TestOpenWaitsForLibvirtd(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "libvirt-sock")
	b, err := libvirt.Open(t.Context(), libvirt.Options{Socket: socket, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if state, err := b.HostState(t.Context(), hypervisor.Assignment{}); err == nil || state.Host.Connected {
		t.Errorf("without libvirtd the host is %+v, %v", state.Host, err)
	}
	changes := b.WatchChanges(t.Context())
	if err := os.Symlink(libvirt.DefaultSocket, socket); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(30 * time.Second)
	for {
		select {
		case <-changes:
		case <-deadline:
			t.Fatal("the backend did not connect to the running libvirtd")
		}
		if state, err := b.HostState(t.Context(), hypervisor.Assignment{}); err == nil && state.Host.Connected {
			return
		}
	}
}
