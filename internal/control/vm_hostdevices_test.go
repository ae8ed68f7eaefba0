package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// As many VMs can use a mediated device type as the host can create devices of it. A USB port belongs to one VM.
func TestMediatedDevicesAreSharedAndUSBPortExclusive(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	chief := s.addUser("ada", fleet.RoleAdmin)
	create := func(name, device string, on fleet.HostID) error {
		_, err := s.CreateVM(t.Context(), chief, control.CreateVM{
			ProjectID: s.red, Name: name, HostID: on, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, HostDevices: []fleet.VMHostDevice{{Device: device}}},
		})
		return err
	}
	if err := create("one", "mdev/nvidia-63", ""); err != nil { // placement chooses the only host with such devices
		t.Fatal(err)
	}
	s.wantRefused("of a host without", fleet.Invalid, "has no device mdev/nvidia-63", func() error { return create("two", "mdev/nvidia-63", s.h2) })
	if err := create("two", "mdev/nvidia-63", s.h1); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a third VM for two devices", fleet.Invalid, "h1 can assign mdev/nvidia-63 to 2 VMs, and all are in use.", func() error { return create("three", "mdev/nvidia-63", s.h1) })
	if devices, err := s.HostDevicesOf(t.Context(), chief, s.h1); err != nil || devices["mdev/nvidia-63"].Name != "one" {
		t.Errorf("the host's devices are held by %+v, %v", devices, err)
	}
	s.wantRefused("a USB port without its host", fleet.Invalid, "Choose the host that has the device", func() error { return create("port", "usb-port/1-2.3", "") })
	if err := create("port", "usb-port/1-2.3", s.h1); err != nil { // no device needs to be plugged in
		t.Fatal(err)
	}
	s.wantRefused("a port that another VM has", fleet.Invalid, "is already assigned to the VM port", func() error { return create("second", "usb-port/1-2.3", s.h1) })
}

// People who may change a VM can set its NUMA nodes. Pinning them to host nodes needs an administrator.
func TestNUMAPinningNeedsAdministrator(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	chief := s.addUser("ada", fleet.RoleAdmin)
	vm := s.createVM("web", fleet.Stopped)
	half := vm.Spec.MemoryMiB / 2
	numaNodes := func(nodes string, memory int) func(*fleet.VMSpec) {
		return func(v *fleet.VMSpec) {
			v.CPUs, v.MemoryMiB, v.NUMA = 2, half+memory, []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: half, Nodes: nodes}, {CPUs: "1", MemoryMiB: memory}}
		}
	}
	edit := func(a fleet.Actor, change func(*fleet.VMSpec)) error {
		got, _, err := s.UpdateVM(t.Context(), a, vm.ID, editedSpec(vm, change))
		if err == nil {
			vm = got
		}
		return err
	}
	if err := edit(s.member, numaNodes("", half)); err != nil {
		t.Errorf("NUMA nodes: %v", err)
	}
	s.wantRefused("a tenant's on a node", fleet.Invalid, "Only those who may change infrastructure may choose this value of NUMA nodes", func() error { return edit(s.member, numaNodes("0", half)) })
	if err := edit(chief, numaNodes("0", half)); err != nil {
		t.Errorf("on a node: %v", err)
	}
	s.wantRefused("a tenant's on another node", fleet.Invalid, "Only those who may change infrastructure", func() error { return edit(s.member, numaNodes("1", half)) })
	if err := edit(s.member, numaNodes("0", half-1)); err != nil {
		t.Errorf("an edit of another field of a pinned VM: %v", err)
	}
	if err := edit(s.member, func(v *fleet.VMSpec) { v.NUMA = nil }); err != nil {
		t.Errorf("cancelled: %v", err)
	}
}

// Only an administrator can enable encrypted memory, which needs support by the host's processor. A VM with encrypted
// memory cannot have snapshots.
func TestEncryptedMemoryNeedsHostSupportAndForbidsSnapshots(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,firmwares}', '["bios", "uefi"]')`)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmGaps}', '[{"field":"security.confidential","value":"tdx","why":"It takes libvirt 11.6."}]')`)
	chief := s.addUser("ada", fleet.RoleAdmin)
	create := func(a fleet.Actor, kind string) (fleet.VMView, error) {
		return s.CreateVM(t.Context(), a, control.CreateVM{ProjectID: s.red, Name: "vault-" + kind, HostID: s.h1, Spec: fleet.VMSpec{
			CPUs: 1, MemoryMiB: 256, Firmware: fleet.UEFI, Security: fleet.VMSecurity{Confidential: kind},
		}})
	}
	try := func(a fleet.Actor, kind string) func() error {
		return func() error { _, err := create(a, kind); return err }
	}
	s.wantRefused("an encryption that the host lacks", fleet.Invalid, "h1 does not support this memory encryption: tdx. It takes libvirt 11.6.", try(chief, "tdx"))
	s.wantRefused("an unknown kind", fleet.Invalid, "Choose one of sev, sev-es, sev-snp, tdx", try(chief, "sgx"))
	s.wantRefused("a tenant's", fleet.Invalid, "", try(s.member, "sev"))
	vm, err := create(chief, "sev")
	if err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = '{"power":"running","cpus":1,"memoryMiB":256,"launch":{"kind":"sev","measurement":"AAAA","policy":3}}' WHERE id = $1`, vm.ID)
	got, err := s.GetVM(t.Context(), chief, vm.ID)
	if err != nil || got.Status.Launch == nil || got.Status.Launch.Measurement != "AAAA" {
		t.Errorf("the launch measurement is %+v, %v", got.Status, err)
	}
	s.wantRefused("its memory in a snapshot", fleet.Conflict, "The host cannot read this VM's encrypted memory, so", func() error {
		_, err := s.TakeSnapshot(t.Context(), chief, vm.ID, control.NewSnapshot{Name: "with", Memory: true})
		return err
	})
}
