//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// A release stops a preexisting pool that was inactive before, unless a domain of the host still uses the pool.
func TestReleaseRestoresPreexistingPool(t *testing.T) {
	t.Parallel()
	b := openBackend(t)
	t.Cleanup(func() { b.Close() })
	for _, used := range []bool{false, true} {
		p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: filepath.Join(t.TempDir(), "imgs")}}
		p.Name = "theirs-" + string(p.ID)
		virsh(t, "pool-define-as", p.Name, "dir", "--target", p.Spec.Path)
		t.Cleanup(func() { virsh(t, "pool-undefine", p.Name) })
		if err := b.ApplyPool(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if used {
			run(t, "qemu-img", "create", "-f", "qcow2", filepath.Join(p.Spec.Path, "existing.qcow2"), "4M")
			virsh(t, "pool-refresh", p.Name)
			startDomainOnVolume(t, p.Name, "existing.qcow2")
		}
		if err := b.ReleasePool(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		info := virsh(t, "pool-info", p.Name)
		if active := strings.Contains(info, "running"); active != used || !strings.Contains(strings.Join(strings.Fields(info), " "), "Autostart: no") {
			t.Errorf("used %v: the pool is %s", used, info)
		}
		if used {
			virsh(t, "destroy", "on-"+p.Name)
			virsh(t, "start", "on-"+p.Name)
		}
		if _, err := os.Lstat(filepath.Join(p.Spec.Path, pooldir.MarkerFile)); !os.IsNotExist(err) {
			t.Errorf("the marker: %v", err)
		}
	}
}

// startDomainOnVolume starts a domain with a disk that the definition names by pool and volume.
func startDomainOnVolume(t *testing.T, pool, volume string) {
	t.Helper()
	name, file := "on-"+pool, filepath.Join(t.TempDir(), "domain.xml")
	text := `<domain type='qemu'><name>` + name + `</name><memory unit='MiB'>64</memory><os><type arch='x86_64'>hvm</type></os><devices>
<disk type='volume'><driver name='qemu' type='qcow2'/><source pool='` + pool + `' volume='` + volume + `'/><target dev='vda' bus='virtio'/></disk></devices></domain>`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { virsh(t, "pool-destroy", pool) }) // runs last, because the domain uses the pool
	virsh(t, "define", file)
	t.Cleanup(func() { virsh(t, "undefine", name) })
	virsh(t, "start", name)
	t.Cleanup(func() { virsh(t, "destroy", name) })
}
