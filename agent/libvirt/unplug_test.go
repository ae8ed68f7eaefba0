//go:build linux && ordeal

package libvirt_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// startLinuxGuest starts a Linux guest with direct kernel boot. The guest is able to release hot-plugged memory.
func startLinuxGuest(f fixture, change func(*fleet.VMSpec)) *snapper {
	guest, err := lab.GuestImage(f.t.Context(), lab.CacheDir())
	f.requireNoError(err)
	s := &snapper{fixture: f, vm: f.newVM()}
	in := func(file string) *fleet.Volref {
		run(f.t, "cp", file, filepath.Join(f.pool.Spec.Path, filepath.Base(file)))
		return &fleet.Volref{PoolID: f.pool.ID, Volume: filepath.Base(file)}
	}
	s.vm.Spec.Boot = fleet.VMBoot{Kernel: in(guest.Kernel), Initrd: in(guest.Initrd), Cmdline: "console=ttyS0 quiet no_timer_check memhp_default_state=online_movable"}
	change(&s.vm.Spec)
	s.apply(s.vm)
	f.requireNoError(f.StartVM(f.t.Context(), s.vm.ID))
	return s
}

// applyEdit applies an edit of the VM and returns its status.
func (s *snapper) applyEdit(change func(*fleet.VMSpec)) fleet.VMStatus {
	s.t.Helper()
	s.vm.Generation++
	change(&s.vm.Spec)
	s.apply(s.vm)
	return s.status()
}

// A running guest sees the hot-plug and hot-unplug of a physical disk, a USB disk and memory. The host reports a
// pending unplug until the guest releases the device.
func TestRunningGuestSeesHotPlugAndUnplug(t *testing.T) {
	t.Parallel()
	device, _ := physicalDisk(t)
	s := startLinuxGuest(newFixture(t), func(s *fleet.VMSpec) { s.MemoryMiB, s.Memory.MaxMiB, s.CPU.Max = 192, 1024, 2 })
	guest := s.openGuestShell()
	disks := func() string { return guest.run("ls -d /sys/block/vd* 2>/dev/null | wc -l") }
	if got := disks(); got != "0" {
		t.Fatalf("the guest starts with %s disks", got)
	}
	settled := func(what string, st fleet.VMStatus) {
		t.Helper()
		if len(st.NextBoot) != 0 || len(st.PendingUnplug) != 0 || len(st.Drift) != 0 || st.Power == fleet.Stopped {
			t.Fatalf("%s: waiting for the next start %q, pending unplugs %+v, drift %+v", what, st.NextBoot, st.PendingUnplug, st.Drift)
		}
	}
	with := []fleet.VMHostDevice{{Device: device}}
	settled("with a physical disk", s.applyEdit(func(s *fleet.VMSpec) { s.HostDevices = with }))
	waitFor(t, "the guest sees the disk", func() bool { return disks() == "1" })
	if got := guest.run("cat /sys/block/vda/size"); got != "32768" {
		t.Errorf("the guest sees %s sectors of the 16 MiB disk", got)
	}
	settled("without it", s.applyEdit(func(s *fleet.VMSpec) { s.HostDevices = nil }))
	if got := disks(); got != "0" {
		t.Errorf("after the unplug the guest has %s disks", got)
	}

	usb := fleet.Disk{PoolID: s.pool.ID, Volume: "usb.qcow2", SizeBytes: 8 << 20, Bus: "usb"}
	settled("with a USB disk", s.applyEdit(func(s *fleet.VMSpec) { s.Disks = []fleet.Disk{usb} }))
	seen := func() string { return virsh(t, "qemu-monitor-command", string(s.vm.ID), "--hmp", "info usb") }
	if got := seen(); !strings.Contains(got, "QEMU USB HARDDRIVE") && !strings.Contains(got, "MSD") {
		t.Errorf("QEMU has %s", got)
	}
	settled("without it", s.applyEdit(func(s *fleet.VMSpec) { s.Disks = nil }))
	if got := seen(); strings.Contains(got, "ua-quantix-disk") {
		t.Errorf("after the unplug QEMU has %s", got)
	}

	memory := func() int {
		mib, err := strconv.Atoi(guest.run("free -m | awk '/Mem:/{print $2}'"))
		s.requireNoError(err)
		return mib
	}
	before := memory()
	settled("with more memory", s.applyEdit(func(s *fleet.VMSpec) { s.MemoryMiB = 320 }))
	st := s.applyEdit(func(s *fleet.VMSpec) { s.MemoryMiB = 576 })
	settled("with still more", st)
	if !slices.Equal(st.Modules, []fleet.Module{{MiB: 128}, {MiB: 256}}) {
		t.Errorf("the guest has the memory modules %+v", st.Modules)
	}
	waitFor(t, "the guest has the memory", func() bool { return memory() == before+384 })
	st = s.applyEdit(func(s *fleet.VMSpec) { s.MemoryMiB = 320 })
	settled("with less", st)
	if got := memory(); got != before+128 {
		t.Errorf("after the unplug the guest has %d MiB, and had %d MiB at its start", got, before)
	}
	if st.MemoryMiB != 320 || !slices.Equal(st.Modules, []fleet.Module{{MiB: 128}}) {
		t.Errorf("after the unplug the VM has %d MiB, modules %+v", st.MemoryMiB, st.Modules)
	}
	if st = s.applyEdit(func(s *fleet.VMSpec) { s.MemoryMiB = 160 }); st.MemoryMiB != 320 || len(st.PendingUnplug) != 0 || !slices.Equal(st.NextBoot, []string{"memoryMiB"}) {
		t.Errorf("below the memory at start: %+v", st)
	}

	// An emulated guest does not support the unplug of vCPUs, so none is requested.
	settled("with another vCPU", s.applyEdit(func(s *fleet.VMSpec) { s.MemoryMiB, s.CPUs = 320, 2 }))
	if st = s.applyEdit(func(s *fleet.VMSpec) { s.CPUs = 1 }); st.CPUs != 2 || st.MinCPUs != 0 || len(st.PendingUnplug) != 0 || !slices.Equal(st.NextBoot, []string{"cpus"}) {
		t.Errorf("with one vCPU less: %+v", st)
	}

	// A paused guest cannot answer unplug requests.
	settled("with all again", s.applyEdit(func(s *fleet.VMSpec) { s.CPUs, s.HostDevices = 2, with }))
	waitFor(t, "the guest sees the disk", func() bool { return disks() == "1" })
	s.requireNoError(s.PauseVM(t.Context(), s.vm.ID))
	st = s.applyEdit(func(s *fleet.VMSpec) { s.MemoryMiB, s.HostDevices = 192, nil })
	want := []fleet.PendingUnplug{{Field: "hostDevices", What: device}, {Field: "memoryMiB", What: "128 MiB of memory"}}
	if !slices.Equal(st.PendingUnplug, want) || !slices.Equal(st.NextBoot, []string{"memoryMiB", "hostDevices"}) || len(st.Drift) != 0 {
		t.Errorf("paused: pending unplugs %+v, waiting %q, drift %+v", st.PendingUnplug, st.NextBoot, st.Drift)
	}
	changes := s.WatchChanges(t.Context())
	s.requireNoError(s.ResumeVM(t.Context(), s.vm.ID))
	for st = s.status(); len(st.PendingUnplug) > 0 || len(st.NextBoot) > 0; st = s.status() {
		select {
		case <-changes:
		case <-t.Context().Done():
			t.Fatalf("resumed: still pending %+v", st.PendingUnplug)
		}
	}
	if st.MemoryMiB != 192 || disks() != "0" {
		t.Errorf("resumed: %d MiB, %s disks", st.MemoryMiB, disks())
	}
}

// A guest has few USB ports. USB disks without a free port wait for the next start, which adds ports for all.
func TestUSBDiskWithoutFreePortWaitsForNextStart(t *testing.T) {
	t.Parallel()
	s := &snapper{fixture: newFixture(t)}
	s.vm = s.fixture.newVM()
	s.apply(s.vm)
	s.requireNoError(s.StartVM(t.Context(), s.vm.ID))
	st := s.applyEdit(func(spec *fleet.VMSpec) {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			spec.Disks = append(spec.Disks, fleet.Disk{PoolID: s.pool.ID, Volume: name + ".qcow2", SizeBytes: 1 << 20, Bus: "usb"})
		}
	})
	if n := len(st.Disks); n < 2 || n > 4 || !slices.Equal(st.NextBoot, []string{"disks"}) || len(st.PendingUnplug)+len(st.Drift) != 0 {
		t.Errorf("with more disks than ports: %+v", st)
	}
	s.requireNoError(s.StopVM(t.Context(), s.vm.ID))
	s.requireNoError(s.StartVM(t.Context(), s.vm.ID))
	if st := s.status(); len(st.Disks) != 5 || len(st.NextBoot) != 0 {
		t.Errorf("after the next start: %+v", st)
	}
}
