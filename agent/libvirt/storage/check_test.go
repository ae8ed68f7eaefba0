//go:build linux

package storage

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// While libvirt creates a volume, libvirt does not refresh the pool, but new files are still listed. Unfinished and
// hidden files, links, directories and overlays are not listed.
func TestBusyPoolListsNewFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{{at("come.qcow2"), "4M"}, {at("a.qcow2" + PartialSuffix), "1M"}, {"-b", at("come.qcow2"), "-F", "qcow2", at("overlay.qcow2")}} {
		if out, err := exec.CommandContext(t.Context(), "qemu-img", append([]string{"create", "-q", "-f", "qcow2"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, name := range []string{".hidden", "known.raw"} {
		if err := os.WriteFile(at(name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("come.qcow2"), at("link.qcow2")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at("dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	known := []fleet.Volume{{Name: "known.raw", CapacityBytes: 7}}
	info, err := hostfile.ReadVolumeFile(at("come.qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	want := []fleet.Volume{{Name: "come.qcow2", Path: at("come.qcow2"), Format: "qcow2", CapacityBytes: 4 << 20, AllocBytes: info.Alloc}, known[0]}
	got := addNewFiles(fleet.Pool{Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: dir}}, known)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
