//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"testing"

	"quantix/internal/fleet"
)

// The bytes that a guest writes to a raw disk are data, even if they look like a qcow2 header with a backing file. The
// disk still grows and starts as raw, and nothing opens the file named in the header.
func TestRawDiskStaysRawWhateverGuestWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{{PoolID: f.pool.ID, Volume: "plain.raw", SizeBytes: 1 << 20, Format: fleet.Raw}}
	f.apply(vm)
	at, decoy := filepath.Join(f.pool.Spec.Path, "plain.raw"), filepath.Join(t.TempDir(), "lure.qcow2")
	run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", "/etc/shadow", "-F", "raw", decoy, "1G")
	written, err := os.ReadFile(decoy)
	f.requireNoError(err)
	grown := func(size int64) {
		t.Helper()
		vm.Generation++
		vm.Spec.Disks = []fleet.Disk{{PoolID: f.pool.ID, Volume: "plain.raw", SizeBytes: size, Format: fleet.Raw}}
		f.apply(vm)
		info, err := os.Stat(at)
		if err != nil || info.Size() != size {
			t.Errorf("the file has %d bytes, want %d: %v", info.Size(), size, err)
		}
	}
	write := func() {
		t.Helper()
		file, err := os.OpenFile(at, os.O_WRONLY, 0)
		f.requireNoError(err)
		_, err = file.WriteAt(written[:512], 0)
		f.requireNoError(err)
		f.requireNoError(file.Close())
	}
	write()
	grown(2 << 20)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	grown(3 << 20)
	status, _, err := f.VM(t.Context(), vm.ID)
	f.requireNoError(err)
	if len(status.Drift) > 0 || len(status.NextBoot) > 0 || len(status.Faults) > 0 {
		t.Errorf("the VM is %+v", status)
	}
	begin := make([]byte, 4)
	file, err := os.Open(at)
	f.requireNoError(err)
	defer file.Close()
	if _, err := file.ReadAt(begin, 0); err != nil || string(begin) != "QFI\xfb" {
		t.Errorf("the guest's data is %q: %v", begin, err)
	}
}
