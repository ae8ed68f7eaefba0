//go:build linux && ordeal

package libvirt_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// A guest may end during the pivot. If libvirt reports that the pivot happened, the job succeeds. Otherwise the copy
// may have the last writes, so neither this agent, nor the next agent, nor a retry with a running guest deletes it.
func TestDiskCopyNotDeletedWhenGuestEndsDuringPivot(t *testing.T) {
	t.Parallel()
	m := newDiskMoveFixture(t, 2)
	to := m.newTargetPool("")
	m.apply(m.vm)
	id := string(m.vm.ID)
	ending := func(how func()) error {
		in := m.moveJob(to, 0)
		in.Progress = func(_ int, note string) {
			if strings.HasPrefix(note, "switching") {
				how()
			}
		}
		return m.MoveDisk(t.Context(), in)
	}
	kept := func(when string, err error) {
		t.Helper()
		if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "last writes") {
			t.Fatalf("%s: %v", when, err)
		}
		m.wantDiskInPool(when, m.pool)
		run(t, "qemu-img", "compare", m.volumePath("disk.qcow2"), filepath.Join(to.Spec.Path, "disk.qcow2"), "-U")
	}
	m.requireNoError(m.StartVM(t.Context(), m.vm.ID))
	kept("ended", ending(func() { virsh(t, "destroy", id) }))
	kept("the retried job", m.MoveDisk(t.Context(), m.moveJob(to, 0)))
	m.requireNoError(m.StartVM(t.Context(), m.vm.ID))
	kept("while it runs again", m.MoveDisk(t.Context(), m.moveJob(to, 0)))

	m.requireNoError(os.Remove(filepath.Join(to.Spec.Path, "disk.qcow2"))) // as an operator does after the comparison
	m.recordedFile = ""
	m.requireNoError(ending(func() {
		virsh(t, "blockjob", id, "vda", "--pivot")
		virsh(t, "destroy", id)
	}))
	m.wantDiskInPool("pivoted", to)
}

// An agent that ends just after it has changed the definition to the copy does not see that somebody started the guest
// on the old disk. The next agent restores the definition before the guest's next start.
func TestInterruptedDiskMigrationRestoresOldDisk(t *testing.T) {
	t.Parallel()
	m := newDiskMoveFixture(t, 2)
	to := m.newTargetPool("")
	m.apply(m.vm)
	definition := func(name string) string {
		file := filepath.Join(t.TempDir(), name)
		m.requireNoError(os.WriteFile(file, []byte(virsh(t, "dumpxml", "--inactive", "--security-info", string(m.vm.ID))), 0o600))
		return file
	}
	before := definition("before")
	m.requireNoError(m.MoveDisk(t.Context(), m.moveJob(to, 0)))
	after := definition("after")
	virsh(t, "define", before)
	virsh(t, "start", string(m.vm.ID))
	virsh(t, "define", after)
	if err := m.MoveDisk(t.Context(), m.moveJob(to, 0)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "Somebody started or changed the VM") {
		t.Fatalf("the retried job: %v", err)
	}
	m.wantDiskInPool("restored", m.pool)
	m.wantEmptyPool("restored", to)
}

// If the guest uses the new disk but its definition cannot be written, the job does not fail: it retries the write.
func TestDiskMigrationRetriesDefinitionWriteAfterPivot(t *testing.T) {
	t.Parallel()
	m := newDiskMoveFixture(t, 2)
	to := m.newTargetPool("")
	m.apply(m.vm)
	inTheWay := filepath.Join("/etc/libvirt/qemu", m.vm.Name+".xml.new") // libvirt's temporary name of the definition
	m.requireNoError(os.Mkdir(inTheWay, 0o700))
	if err := m.MoveDisk(t.Context(), m.moveJob(to, 0)); err == nil || fleet.CodeOf(err) == fleet.Unavailable {
		t.Fatalf("of a VM that is off: %v", err)
	}
	m.wantDiskInPool("off, definition not writable", m.pool)
	m.wantEmptyPool("off, definition not writable", to)
	m.requireNoError(os.Remove(inTheWay))
	m.requireNoError(m.StartVM(t.Context(), m.vm.ID))
	in := m.moveJob(to, 0)
	in.Progress = func(_ int, note string) {
		if strings.HasPrefix(note, "switching") {
			m.requireNoError(os.Mkdir(inTheWay, 0o700))
		}
	}
	t.Cleanup(func() { _ = os.Remove(inTheWay) }) // no longer exists if the test passed
	if err := m.MoveDisk(t.Context(), in); fleet.CodeOf(err) != fleet.Unavailable || !strings.Contains(err.Error(), "cannot be written") {
		t.Fatalf("without room for its definition: %v", err)
	}
	m.requireNoError(os.Remove(inTheWay))
	m.requireNoError(m.MoveDisk(t.Context(), m.moveJob(to, 0)))
	m.wantDiskInPool("afterwards", to)
}

// If an agent ends just after it has removed a migrated VM, the next agent removes the VM's NIC filters.
func TestInterruptedMigrationRemovesFilters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	name := hypervisor.FilterName(vm.ID, "52:54:00:00:00:07")
	file := filepath.Join(t.TempDir(), "filter.xml")
	f.requireNoError(os.WriteFile(file, []byte("<filter name='"+name+"' chain='root'/>"), 0o600))
	virsh(t, "nwfilter-define", file)
	in := hypervisor.MigrateVMWork{VM: vm, WaitArrived: func(context.Context) error { return nil }, Progress: func(int, string) {}}
	f.requireNoError(f.MigrateVM(t.Context(), in))
	if all := virsh(t, "nwfilter-list"); strings.Contains(all, name) {
		virsh(t, "nwfilter-undefine", name)
		t.Errorf("there is still %s", name)
	}
}
