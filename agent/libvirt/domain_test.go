//go:build linux

package libvirt_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/hypervisor/conformance"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

func TestApplyPreservesAdministratorChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{f.newDisk("one"), f.newDisk("two")}
	f.apply(vm)
	id := string(vm.ID)
	extra := filepath.Join(f.pool.Spec.Path, "extra")
	run(t, "qemu-img", "create", "-f", "raw", extra, "1M")
	virsh(t, "attach-disk", id, extra, "vdc", "--config", "--subdriver", "raw")
	virsh(t, "attach-interface", id, "network", "default", "--model", "e1000", "--config")
	virsh(t, "desc", id, "--config", "Ask Ada before touching it.")
	virsh(t, "metadata", id, "http://example.org/app", "--key", "app", "--set", "<x>kept</x>", "--config")
	edit(t, id, "<graphics type='vnc'", "<graphics type='vnc' passwd='secret'")
	virsh(t, "autostart", id)

	vm.Generation, vm.Spec.CPUs = 2, 2
	vm.Spec.Disks = []fleet.Disk{vm.Spec.Disks[0], f.newDisk("three")}
	f.apply(vm)
	xml := virsh(t, "dumpxml", id, "--security-info")
	for _, want := range []string{
		extra, "e1000", "Ask Ada", ">kept</app:x>", "passwd='secret'", ">2</vcpu>", "<quantix:generation>2</quantix:generation>",
		f.pool.Spec.Path + "/one", f.pool.Spec.Path + "/three",
	} {
		if !strings.Contains(xml, want) {
			t.Errorf("the definition lost %q", want)
		}
	}
	if strings.Contains(xml, f.pool.Spec.Path+"/two") {
		t.Error("the removed disk is still there")
	}
	if t.Failed() {
		t.Log(xml)
	}
	if !strings.Contains(virsh(t, "dominfo", id), "Autostart:      enable") {
		t.Error("autostart was lost")
	}
}

// After a snapshot the guest writes to an overlay. An apply must not replace the overlay by the disk's own volume.
func TestApplyKeepsOverlayOfVirshSnapshot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{f.newDisk("base")}
	f.apply(vm)
	id := string(vm.ID)
	virsh(t, "snapshot-create-as", id, "before", "--disk-only")
	overlay := filepath.Join(f.pool.Spec.Path, "base.before")
	vm.Generation, vm.Spec.CPUs = 2, 2
	f.apply(vm)
	if blocks := virsh(t, "domblklist", id); !strings.Contains(blocks, overlay) || strings.Count(blocks, "vd") != 1 {
		t.Errorf("the disks are\n%s", blocks)
	}
}

func TestApplyRefusedWhenExistingVolumeDoesNotFitDisk(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	addImage(t, f.pool, conformance.Image{Name: "raw", Kind: conformance.Raw, SizeBytes: 1 << 20})
	addImage(t, f.pool, conformance.Image{Name: "refers", Kind: conformance.Qcow2Backing, SizeBytes: 1 << 20})
	for _, name := range []string{"raw", "refers"} {
		vm := f.newVM()
		vm.Spec.Disks = []fleet.Disk{f.newDisk(name)}
		err := f.ApplyVM(t.Context(), applyJob(vm, f.pool))
		if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// edit changes the definition as virsh edit does.
func edit(t *testing.T, id, from, to string) {
	t.Helper()
	xml := virsh(t, "dumpxml", id, "--inactive", "--security-info")
	file := filepath.Join(t.TempDir(), "edited.xml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(xml, from, to)), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, "define", file)
}

func TestUEFIVariablesSurviveRename(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.Firmware = fleet.UEFI
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	nvram := "/var/lib/libvirt/qemu/nvram/" + string(vm.ID) + "_VARS.fd"
	if _, err := os.Stat(nvram); err != nil {
		t.Fatal(err)
	}
	xml := virsh(t, "dumpxml", string(vm.ID))
	if !strings.Contains(xml, "type='pflash'") || strings.Contains(xml, "secure='yes'") {
		t.Errorf("the firmware is not plain UEFI:\n%s", xml)
	}
	st, _, err := f.VM(t.Context(), vm.ID)
	f.requireNoError(err)
	if st.Power != fleet.Running || len(st.NextBoot) != 0 {
		t.Errorf("status is %+v", st)
	}

	vm.Generation, vm.Name, vm.Spec.Firmware = 2, "renamed-"+vm.Name[:20], fleet.UEFI
	f.apply(vm)
	f.requireNoError(f.StopVM(t.Context(), vm.ID))
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	if got := virsh(t, "domname", string(vm.ID)); got != vm.Name {
		t.Errorf("the name is %q, want %q", got, vm.Name)
	}
	if _, err := os.Stat(nvram); err != nil {
		t.Error(err)
	}
	f.requireNoError(f.DeleteVM(t.Context(), vm, nil, false))
	if _, err := os.Stat(nvram); !os.IsNotExist(err) {
		t.Errorf("the variables outlive the VM: %v", err)
	}
}

func TestApplyChangesFirmware(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	vm.Spec.Firmware = fleet.UEFI
	f.apply(vm)
	st, _, err := f.VM(t.Context(), vm.ID)
	f.requireNoError(err)
	if len(st.NextBoot) != 1 || st.NextBoot[0] != "firmware" {
		t.Errorf("next boot is %q", st.NextBoot)
	}
	f.requireNoError(f.StopVM(t.Context(), vm.ID))
	vm.Spec.Firmware = fleet.BIOS
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
}

func TestClonedDiskEqualsImage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, kind := range []conformance.ImageKind{conformance.Qcow2, conformance.Raw} {
		img := conformance.Image{Name: "image-" + string(kind), Kind: kind, SizeBytes: 4 << 20}
		addImage(t, f.pool, img)
		vm := f.newVM()
		d := f.newDisk("clone-" + string(kind))
		d.SizeBytes, d.Image = 0, &fleet.Volref{PoolID: f.pool.ID, Volume: img.Name}
		vm.Spec.Disks = []fleet.Disk{d}
		f.apply(vm)
		clone := filepath.Join(f.pool.Spec.Path, d.Volume)
		run(t, "qemu-img", "compare", "-F", "qcow2", "-f", string(kind), filepath.Join(f.pool.Spec.Path, img.Name), clone)
		if info := run(t, "qemu-img", "info", clone); !strings.Contains(info, "compat: 1.1") {
			t.Errorf("the clone is\n%s", info)
		}
	}
}

// A killed job leaves a partial volume. The next job neither uses the volume as the disk nor fails because of it.
func TestUnfinishedDiskIsCreatedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	img := conformance.Image{Name: "image", Kind: conformance.Raw, SizeBytes: 4 << 20}
	addImage(t, f.pool, img)
	d := f.newDisk("disk")
	d.SizeBytes, d.Image = 0, &fleet.Volref{PoolID: f.pool.ID, Volume: img.Name}
	partial := filepath.Join(f.pool.Spec.Path, d.Volume+".partial")
	if err := os.WriteFile(partial, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{d}
	f.apply(vm)
	run(t, "qemu-img", "compare", "-f", "raw", "-F", "qcow2", filepath.Join(f.pool.Spec.Path, img.Name), filepath.Join(f.pool.Spec.Path, d.Volume))
	if _, err := os.Stat(partial); !os.IsNotExist(err) {
		t.Errorf("the partial volume is still there: %v", err)
	}
}

func TestCrashedGuestIsReportedAndStartsAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	pid, err := os.ReadFile("/run/libvirt/qemu/" + vm.Name + ".pid")
	f.requireNoError(err)
	run(t, "kill", "-KILL", string(bytes.TrimSpace(pid)))
	waitFor(t, "the guest is crashed", func() bool {
		st, _, err := f.VM(t.Context(), vm.ID)
		return err == nil && st.Power == fleet.Crashed
	})
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	st, _, err := f.VM(t.Context(), vm.ID)
	f.requireNoError(err)
	if st.Power != fleet.Running || st.StartedAt == nil || time.Since(*st.StartedAt) > time.Minute {
		t.Errorf("status is %+v", st)
	}
}

// A VM of an older agent has no record of the last applied spec. The agent treats the definition as applied, and
// overwrites nothing in the definition.
func TestApplyAdoptsDefinitionOfOlderAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{f.newDisk("one")}
	f.apply(vm)
	id := string(vm.ID)
	xml := virsh(t, "dumpxml", id, "--inactive")
	from, to := strings.Index(xml, "<quantix:applied>"), strings.Index(xml, "</quantix:applied>")
	if from < 0 {
		t.Fatalf("the definition has no record of the applied spec:\n%s", xml)
	}
	edit(t, id, xml[from:to+len("</quantix:applied>")], "")
	_, err := f.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{f.pool}}})
	f.requireNoError(err)
	st, _, err := f.VM(t.Context(), vm.ID)
	f.requireNoError(err)
	if len(st.Drift) != 0 || len(st.Disks) != 1 || st.Disks[0].Volume == nil || *st.Disks[0].Volume != vm.Spec.Disks[0].Ref() {
		t.Errorf("before anything is applied: %+v", st)
	}
	restore := hideVolume(t, f.pool, "one")
	if err := f.ApplyVM(t.Context(), applyJob(vm, f.pool)); err == nil || !strings.Contains(err.Error(), "Disk 1") {
		t.Errorf("apply with a missing disk: %v", err)
	}
	restore()
	editVM(t, vm.ID, conformance.VMEdit{CPUs: 4})
	vm.Generation, vm.Spec.Disks = 2, append(vm.Spec.Disks, f.newDisk("two"))
	f.apply(vm)
	st, generation, err := f.VM(t.Context(), vm.ID)
	f.requireNoError(err)
	if st.CPUs != 4 || len(st.Disks) != 2 || generation != 2 || len(st.Drift) != 1 || st.Drift[0].Field != "cpus" {
		t.Errorf("after the first apply: %+v", st)
	}
}

// If another file system hides a pool's directory, the pool's disks are missing. No new disk is created in the other
// file system.
func TestDiskMissingWhenPoolIsHiddenByMount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{f.newDisk("one")}
	f.apply(vm)
	run(t, "mount", "-t", "tmpfs", "none", f.pool.Spec.Path)
	mounted := true
	umount := func() {
		if mounted {
			mounted = false
			run(t, "umount", f.pool.Spec.Path)
		}
	}
	defer umount()
	for act, err := range map[string]error{"apply": f.ApplyVM(t.Context(), applyJob(vm, f.pool)), "start": f.StartVM(t.Context(), vm.ID)} {
		if err == nil || !strings.Contains(err.Error(), "Disk 1 (pool "+f.pool.Name) {
			t.Errorf("%s: %v", act, err)
		}
	}
	if made, err := os.ReadDir(f.pool.Spec.Path); err != nil || len(made) != 0 {
		t.Errorf("the other file system contains %v, %v", made, err)
	}
	umount()
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
}

// diskFillingBootSector is a boot sector that writes one sector into each 64 KiB of the boot disk.
var diskFillingBootSector = []byte{
	0x31, 0xc0, // xor ax, ax
	0x8e, 0xd8, // mov ds, ax
	0xbe, 0x1c, 0x7c, // next: mov si, packet
	0xb8, 0x00, 0x43, // mov ax, 4300h: write
	0xcd, 0x13, // int 13h
	0x66, 0x81, 0x06, 0x24, 0x7c, 0x80, 0, 0, 0, // add dword [packet+8], 128
	0xeb, 0xed, // jmp next
	0, 0, 0, 0, 0, // disk address packet: one sector from 0:7c00h, at first to sector 128
	0x10, 0, 1, 0, 0, 0x7c, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0,
}

// A guest's disk grows until its pool is full. QEMU pauses the guest, and the fault names the disk.
func TestFullPoolIsReportedAsGuestFault(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	mark := filepath.Join(f.pool.Spec.Path, pooldir.MarkerFile)
	marker, err := os.ReadFile(mark)
	f.requireNoError(err)
	run(t, "mount", "-t", "tmpfs", "-o", "size=1m", "none", f.pool.Spec.Path)
	t.Cleanup(func() { syscall.Unmount(f.pool.Spec.Path, syscall.MNT_DETACH) })
	f.requireNoError(os.WriteFile(mark, marker, 0o644)) // so that the agent accepts the small file system as the pool
	vm.Spec.Disks = []fleet.Disk{f.newDisk("full")}
	f.apply(vm)
	sector := make([]byte, 512)
	copy(sector, diskFillingBootSector)
	sector[510], sector[511] = 0x55, 0xaa
	file := filepath.Join(t.TempDir(), "sector")
	f.requireNoError(os.WriteFile(file, sector, 0o600))
	run(t, "qemu-io", "-f", "qcow2", "-c", "write -s "+file+" 0 512", filepath.Join(f.pool.Spec.Path, "full"))
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	var st fleet.VMStatus
	// the pause event may arrive before the I/O error event
	waitFor(t, "the guest is paused and QEMU has reported the disk", func() bool {
		var err error
		st, _, err = f.VM(t.Context(), vm.ID)
		return err == nil && st.Power == fleet.Paused && len(st.Faults) > 0 && st.Faults[0].Disk != nil
	})
	want := "QEMU paused the VM, because the storage of disk 1 (pool " + f.pool.Name + ", volume full) is full."
	if f := st.Faults[0]; st.Reason != "I/O error" || f.Code != fleet.FaultIO || !strings.HasPrefix(f.Text, want) || *f.Disk != vm.Spec.Disks[0].Ref() {
		t.Errorf("status is %+v", st)
	}
}
