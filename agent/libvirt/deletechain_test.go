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

// Overlays that virsh created on a VM's disks are deleted with the VM: chains of overlays, snapshots with memory, and
// overlays without a snapshot.
func TestDeleteVMRemovesVirshOverlays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{f.newDisk("one.qcow2"), f.newDisk("two.qcow2")}
	f.apply(vm)
	id := string(vm.ID)
	at := func(target, name string) string { return target + ",file=" + f.volumePath(name) }
	virsh(t, "snapshot-create-as", id, "first", "--disk-only", "--diskspec", at("vda", "one.first"), "--diskspec", at("vdb", "two.first"))
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	virsh(t, "snapshot-create-as", id, "second", "--memspec", "file="+f.volumePath("second.mem"), "--diskspec", at("vda", "one.second"), "--diskspec", at("vdb", "two.second"))
	virsh(t, "snapshot-create-as", id, "third", "--disk-only", "--no-metadata", "--diskspec", at("vda", "one.third.qcow2"), "--diskspec", "vdb,snapshot=no")
	f.requireNoError(f.DeleteVM(t.Context(), vm, []fleet.Pool{f.pool}, true))
	entries, err := os.ReadDir(f.pool.Spec.Path)
	f.requireNoError(err)
	for _, e := range entries {
		if e.Name() != pooldir.MarkerFile {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// A deletion that would leave an overlay behind is refused, names the file and deletes nothing.
func TestDeleteVMRefusedWhenOverlayWouldStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{f.newDisk("disk.qcow2")}
	f.apply(vm)
	virsh(t, "snapshot-create-as", string(vm.ID), "theirs", "--disk-only", "--diskspec", "vda,file="+elsewhere)
	err := f.DeleteVM(t.Context(), vm, []fleet.Pool{f.pool}, true)
	if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), elsewhere) {
		t.Errorf("the deletion: %v", err)
	}
	for _, file := range []string{f.volumePath("disk.qcow2"), elsewhere} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	if powerOf(t, vm.ID) != fleet.Stopped {
		t.Error("the VM was deleted")
	}
	f.requireNoError(f.DeleteVM(t.Context(), vm, []fleet.Pool{f.pool}, false))
	for _, file := range []string{f.volumePath("disk.qcow2"), elsewhere} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	f.requireNoError(os.Remove(f.volumePath("disk.qcow2")))
}
