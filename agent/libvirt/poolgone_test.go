//go:build ordeal

package libvirt_test

import (
	"strings"
	"syscall"
	"testing"

	"quantix/internal/fleet"
)

// A pool whose device disappears while mounted reports the kernel's error, and other pools are unaffected. After the
// unmount, the pool recovers without a job.
func TestPoolRecoversAfterDeviceLoss(t *testing.T) {
	t.Parallel()
	device := newLoopDevice(t, "xfs")
	b := backendAllowing(t, "/dev/loop*")
	p := newMountedPool(t, b, fleet.PoolSpec{Kind: fleet.PoolFS, Device: device, Format: "xfs"})
	beside := newFixtureOn(t, b)
	beside.requireNoError(b.ApplyPool(t.Context(), p))
	waitPoolStatus(t, b, p, "write-tested", func(s fleet.PoolStatus) bool { return s.WriteMicros > 0 && s.Error == "" })
	runOutput(t, "xfs_io", "-x", "-c", "shutdown -f", p.Spec.Path)
	want := strings.ToLower(syscall.EIO.Error())
	waitPoolStatus(t, b, p, "without its device", func(s fleet.PoolStatus) bool { return strings.Contains(strings.ToLower(s.Error), want) })
	waitPoolStatus(t, b, beside.pool, "healthy", func(s fleet.PoolStatus) bool { return s.State == fleet.PoolActive && s.Error == "" })
	unmount(t, p.Spec.Path)
	waitPoolStatus(t, b, p, "mounted again", func(s fleet.PoolStatus) bool { return s.State == fleet.PoolActive && s.Error == "" })
}
