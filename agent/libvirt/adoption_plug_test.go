//go:build linux && ordeal

package libvirt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// foreignGuest is a guest as virsh defines it: its devices have no alias of Quantix.
const foreignGuest = `<domain type='qemu'>
  <name>%s</name><memory unit='MiB'>192</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type><kernel>%s</kernel><initrd>%s</initrd><cmdline>console=ttyS0 quiet no_timer_check</cmdline></os>
  <features><acpi/><apic/></features>
  <devices>
    <controller type='pci' model='pcie-root'/>
    <controller type='pci' model='pcie-root-port'/><controller type='pci' model='pcie-root-port'/><controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-root-port'/><controller type='pci' model='pcie-root-port'/><controller type='pci' model='pcie-root-port'/>
    <controller type='pci' model='pcie-root-port'/><controller type='pci' model='pcie-root-port'/><controller type='pci' model='pcie-root-port'/>
    <disk type='file'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vda' bus='virtio'/></disk>
    <disk type='file'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vdb' bus='virtio'/></disk>
    <interface type='network'><mac address='%s'/><source network='default'/><model type='virtio'/></interface>
    <serial type='pty'/>
  </devices>
</domain>`

// adoptedGuest is a running guest that virsh defined and Quantix adopted.
type adoptedGuest struct{ *snapper }

// adoptForeignGuest defines and starts a guest with two disks and a NIC, and adopts it.
func adoptForeignGuest(f fixture) adoptedGuest {
	f.t.Helper()
	guest, err := lab.GuestImage(f.t.Context(), lab.CacheDir())
	f.requireNoError(err)
	name := "foreign-" + string(fleet.NewID[fleet.VMID]())[24:]
	for _, file := range []string{guest.Kernel, guest.Initrd} {
		run(f.t, "cp", file, f.volumePath(filepath.Base(file)))
	}
	for _, disk := range []string{"a.qcow2", "b.qcow2"} {
		run(f.t, "qemu-img", "create", "-f", "qcow2", f.volumePath(disk), "8M")
	}
	xml := filepath.Join(f.t.TempDir(), "domain.xml")
	text := fmt.Sprintf(foreignGuest, name, f.volumePath(filepath.Base(guest.Kernel)), f.volumePath(filepath.Base(guest.Initrd)), f.volumePath("a.qcow2"), f.volumePath("b.qcow2"), conformanceMAC(name))
	f.requireNoError(os.WriteFile(xml, []byte(text), 0o600))
	virsh(f.t, "define", xml)
	s := adoptedGuest{&snapper{fixture: f}}
	s.vm.ID, s.vm.Name, s.vm.Generation = fleet.VMID(virsh(f.t, "domuuid", name)), name, 1
	f.t.Cleanup(func() {
		if powerOf(f.t, s.vm.ID) != fleet.Stopped {
			virsh(f.t, "destroy", string(s.vm.ID))
		}
		virsh(f.t, "undefine", string(s.vm.ID))
	})
	virsh(f.t, "start", name)
	read, err := f.ReadUnmanagedVM(f.t.Context(), s.vm.ID, []fleet.Pool{f.pool})
	if err != nil || len(read.Refusals) > 0 {
		f.t.Fatalf("%q %v", read.Refusals, err)
	}
	s.vm.Spec = read.Spec
	s.applySpec()
	return s
}

func (s adoptedGuest) applySpec() {
	s.t.Helper()
	in := applyJob(s.vm, s.pool)
	in.Adopted = true
	if s.vm.Generation == 1 {
		for _, d := range s.vm.Spec.Disks {
			in.CreatedDisks = append(in.CreatedDisks, d.Ref())
		}
	}
	s.requireNoError(s.ApplyVM(s.t.Context(), in))
}

// edit applies an edit.
func (s adoptedGuest) edit(what string, change func(*fleet.VMSpec)) fleet.VMStatus {
	s.t.Helper()
	s.vm.Generation++
	change(&s.vm.Spec)
	s.applySpec()
	st := s.status()
	if len(st.Drift)+len(st.Faults)+len(st.PendingUnplug) > 0 {
		s.t.Errorf("%s: drift %+v, faults %+v, pending unplugs %+v", what, st.Drift, st.Faults, st.PendingUnplug)
	}
	return st
}

// waitUntilBooted waits until the guest has this number of disks, so that it also releases devices.
func (s adoptedGuest) waitUntilBooted(disks string) {
	s.t.Helper()
	guest := s.openGuestShell()
	waitFor(s.t, "the guest has its disks", func() bool { return guest.run("ls -d /sys/block/vd* 2>/dev/null | wc -l") == disks })
}

// apply applies an edit that the running guest takes completely.
func (s adoptedGuest) apply(what string, change func(*fleet.VMSpec)) fleet.VMStatus {
	s.t.Helper()
	st := s.edit(what, change)
	if len(st.NextBoot) > 0 {
		s.t.Errorf("%s: waiting for the next start %q", what, st.NextBoot)
	}
	return st
}

// Right after an adoption the running guest gains and loses disks and NICs, adopted ones included. Its process and its
// other devices stay.
func TestAdoptedGuestGainsAndLosesDevicesWhileItRuns(t *testing.T) {
	t.Parallel()
	s := adoptForeignGuest(newFixture(t))
	guest, pid := s.openGuestShell(), guestPID(t, s.vm.Name)
	count := func(what string) string { return guest.run("ls -d " + what + " 2>/dev/null | wc -l") }
	waitFor(t, "the guest has its devices", func() bool { return count("/sys/block/vd*") == "2" && count("/sys/class/net/e*") == "1" })
	before := virsh(t, "dumpxml", s.vm.Name, "--inactive")

	s.apply("with another disk and NIC", func(v *fleet.VMSpec) {
		v.Disks = append(v.Disks, s.newDisk("c.qcow2"))
		v.NICs = append(v.NICs, fleet.NIC{Network: "default", MAC: "52:54:00:77:00:01"})
	})
	waitFor(t, "the guest sees the new devices", func() bool { return count("/sys/block/vd*") == "3" && count("/sys/class/net/e*") == "2" })
	is := virsh(t, "dumpxml", s.vm.Name, "--inactive")
	for line := range strings.SplitSeq(before, "\n") {
		if !strings.Contains(line, "quantix") && !strings.Contains(is, line) {
			t.Errorf("the new devices changed the line %s", line)
		}
	}

	st := s.apply("with limits of an adopted disk", func(v *fleet.VMSpec) { v.Disks[0].Limits.TotalIOPS = 500 })
	if len(st.Disks) != 3 || !strings.Contains(virsh(t, "dumpxml", s.vm.Name), "<total_iops_sec>500<") {
		t.Errorf("the guest has the disks %+v without the limit", st.Disks)
	}
	s.apply("without an adopted disk and NIC", func(v *fleet.VMSpec) { v.Disks, v.NICs = append(v.Disks[:1:1], v.Disks[2]), v.NICs[1:] })
	waitFor(t, "the guest has released the devices", func() bool { return count("/sys/block/vd*") == "2" && count("/sys/class/net/e*") == "1" })
	if text := virsh(t, "dumpxml", s.vm.Name); strings.Contains(text, "<source file='"+s.volumePath("b.qcow2")) || strings.Contains(text, "<mac address='"+conformanceMAC(s.vm.Name)) {
		t.Errorf("the running guest still has the removed devices:\n%s", text)
	}
	if now := guestPID(t, s.vm.Name); now != pid {
		t.Errorf("QEMU is process %s, before it was %s", now, pid)
	}
	s.requireNoError(s.ReleaseVM(t.Context(), s.vm))
	if text := virsh(t, "dumpxml", s.vm.Name, "--inactive"); strings.Contains(text, "<quantix:vm") || !strings.Contains(text, "c.qcow2") {
		t.Errorf("the released definition is\n%s", text)
	}
}

// A disk that somebody attaches to the running guest only is no disk of the spec, also where the spec gets a disk at the
// same target.
func TestDiskThatVirshAttachedToAdoptedGuestIsNoDiskOfTheSpec(t *testing.T) {
	t.Parallel()
	s := adoptForeignGuest(newFixture(t))
	s.waitUntilBooted("2")
	mine := s.volumePath("mine.qcow2")
	run(t, "qemu-img", "create", "-f", "qcow2", mine, "8M")
	virsh(t, "attach-disk", s.vm.Name, mine, "vdc", "--subdriver", "qcow2", "--live")
	s.edit("with another disk", func(v *fleet.VMSpec) { v.Disks = append(v.Disks, s.newDisk("c.qcow2")) })
	live := virsh(t, "domblklist", s.vm.Name)
	if !strings.Contains(live, mine) || !strings.Contains(live, s.volumePath("c.qcow2")) {
		t.Errorf("the running guest has the disks\n%s", live)
	}
	s.edit("without it", func(v *fleet.VMSpec) { v.Disks = v.Disks[:2] })
	if live := virsh(t, "domblklist", s.vm.Name); !strings.Contains(live, mine) || strings.Contains(live, s.volumePath("c.qcow2")) {
		t.Errorf("after the removal the running guest has the disks\n%s", live)
	}
}

// A disk and a NIC that an edit removed belong to the administrator who attaches them again.
func TestRemovedDevicesThatVirshReattachedStay(t *testing.T) {
	t.Parallel()
	s := adoptForeignGuest(newFixture(t))
	file, mac := s.volumePath("b.qcow2"), conformanceMAC(s.vm.Name)
	reattach := func(how string) {
		virsh(t, "attach-disk", s.vm.Name, file, "vdb", "--subdriver", "qcow2", how)
		virsh(t, "attach-interface", s.vm.Name, "network", "default", "--mac", mac, "--model", "virtio", how)
	}
	wantDevices := func(when string) {
		t.Helper()
		if text := virsh(t, "dumpxml", s.vm.Name); !strings.Contains(text, "<source file='"+file) || !strings.Contains(text, "<mac address='"+mac) {
			t.Errorf("%s: the guest has lost the devices:\n%s", when, text)
		}
	}
	s.waitUntilBooted("2")
	s.apply("without a disk and the NIC", func(v *fleet.VMSpec) { v.Disks, v.NICs = v.Disks[:1], nil })
	reattach("--live")
	s.edit("with a limit", func(v *fleet.VMSpec) { v.Disks[0].Limits.TotalIOPS = 500 })
	wantDevices("attached again to the running guest")

	virsh(t, "destroy", s.vm.Name)
	virsh(t, "start", s.vm.Name)
	s.waitUntilBooted("1")
	reattach("--live")
	s.edit("with another limit", func(v *fleet.VMSpec) { v.Disks[0].Limits.TotalIOPS = 600 })
	wantDevices("attached again to the next run")

	virsh(t, "destroy", s.vm.Name)
	reattach("--config")
	virsh(t, "start", s.vm.Name)
	s.waitUntilBooted("2")
	s.edit("with the first limit", func(v *fleet.VMSpec) { v.Disks[0].Limits.TotalIOPS = 500 })
	wantDevices("attached again to the definition")
	s.requireNoError(s.ReleaseVM(t.Context(), s.vm))
	if text := virsh(t, "dumpxml", s.vm.Name, "--inactive"); !strings.Contains(text, file) || strings.Contains(text, "ua-quantix-disk-/") {
		t.Errorf("the released definition is\n%s", text)
	}
}

// A snapshot of an adopted guest is taken, reverted and deleted, and a disk moves, before the guest was ever restarted.
func TestAdoptedGuestHasSnapshotsAndDiskMovesBeforeItsFirstRestart(t *testing.T) {
	t.Parallel()
	s := adoptForeignGuest(newFixture(t))
	guest, pid := s.openGuestShell(), guestPID(t, s.vm.Name)
	guest.run("printf before | dd of=/dev/vda conv=fsync,notrunc 2>/dev/null && echo written")

	other := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: filepath.Join(t.TempDir(), "other")}}
	other.Name = "pool-" + string(other.ID)
	s.requireNoError(s.ApplyPool(t.Context(), other))
	t.Cleanup(func() { virsh(t, "pool-destroy", other.Name); virsh(t, "pool-undefine", other.Name) })
	recorded, to := "", fleet.Volref{PoolID: other.ID, Volume: "b.qcow2"}
	s.requireNoError(s.MoveDisk(t.Context(), hypervisor.MoveDiskWork{
		VM: s.vm, Pools: []fleet.Pool{s.pool, other}, Stop: make(chan struct{}), Progress: func(int, string) {},
		Params:     fleet.DiskMigrationParams{Disk: s.vm.Spec.Disks[1].Ref(), To: to},
		RecordFile: func(file string) error { recorded = file; return nil }, RecordDisk: func(fleet.Volref) error { return nil },
	}))
	s.vm.Spec.Disks[1].PoolID, s.vm.Spec.Disks[1].Volume = to.PoolID, to.Volume
	if st := s.status(); recorded == "" || len(st.Drift)+len(st.Faults)+len(st.NextBoot) > 0 {
		t.Errorf("after the move: drift %+v, faults %+v, waiting for the next start %q", st.Drift, st.Faults, st.NextBoot)
	}

	work := func(o fleet.SnapshotParams) hypervisor.SnapshotWork {
		in := s.snapshotWork(o)
		in.Pools = append(in.Pools, other)
		return in
	}
	snap := work(fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "one", Memory: true})
	s.requireNoError(s.TakeSnapshot(t.Context(), snap))
	if now := guestPID(t, s.vm.Name); now != pid {
		t.Errorf("after the snapshot QEMU is process %s, before it was %s", now, pid)
	}
	guest.run("printf after- | dd of=/dev/vda conv=fsync,notrunc 2>/dev/null && echo written")
	s.requireNoError(s.RevertSnapshot(t.Context(), work(fleet.SnapshotParams{ID: snap.Params.ID})))
	guest = s.openGuestShell()
	guest.n = 100 // the reverted guest repeats earlier answers
	if got := guest.run("head -c 6 /dev/vda"); got != "before" {
		t.Errorf("after the revert the disk has %q", got)
	}
	s.requireNoError(s.DeleteSnapshot(t.Context(), work(fleet.SnapshotParams{ID: snap.Params.ID})))
	st := s.status()
	if len(st.Drift)+len(st.Faults)+len(st.NextBoot) > 0 || len(st.Disks) != 2 || st.Disks[0].Path != s.volumePath("a.qcow2") {
		t.Errorf("after the snapshot was deleted, the VM is %+v", st)
	}
	s.requireNoError(s.ReleaseVM(t.Context(), s.vm))
	if text := virsh(t, "dumpxml", s.vm.Name, "--inactive"); strings.Contains(text, "<quantix:vm") || !strings.Contains(text, s.volumePath("a.qcow2")) {
		t.Errorf("the released definition is\n%s", text)
	}
}
