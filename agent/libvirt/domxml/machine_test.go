package domxml

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/testkit/golden"
)

// newDefinitionOf returns the VM's new definition on the spec's machine type.
func newDefinitionOf(t *testing.T, spec fleet.VMSpec) *libvirtxml.Domain {
	t.Helper()
	vm := fleet.VM{Meta: fleet.Meta{ID: "01a206b5-2a62-7003-a101-340befa69b68", Name: "old", Generation: 1}, Spec: spec}
	x := NewDefinition(vm.ID, "x86_64", MachineTypeOf(spec), AcceleratorKind{Accelerator: "kvm"})
	Edit(x, definitionEditOf(vm, hypervisor.PlanEdit(hypervisor.AppliedRecord{}, hypervisor.DefinedSpec{}, vm, hypervisor.OverwriteAll)))
	AddPCIPorts(x)
	return x
}

func definitionEditOf(vm fleet.VM, plan hypervisor.DefinitionEdit) EditContent {
	in := EditContent{DefinitionEdit: plan, Name: vm.Name, Spec: vm.Spec, Metadata: QuantixMetadata{ID: vm.ID, Generation: 1}}
	for _, d := range plan.Disks {
		in.LocatedDisks = append(in.LocatedDisks, LocatedDisk{Spec: d, Alias: DiskAlias(d.Ref()), Path: "/pool/" + d.Volume})
	}
	return in
}

func disksOnBus(bus string, volumes ...string) (out []fleet.Disk) {
	for _, v := range volumes {
		out = append(out, fleet.Disk{PoolID: "p", Volume: v, Bus: bus})
	}
	return out
}

// The definitions of a pc machine and of NVMe disks match the golden file, and reading them returns the spec.
func TestMachineTypeDefinitionsMatchGoldenFile(t *testing.T) {
	t.Parallel()
	nvme := disksOnBus("nvme", "a.qcow2", "b.qcow2")
	nvme[0].Serial, nvme[1].Serial, nvme[1].BootOrder = "N1", "N2", 1
	for name, spec := range map[string]fleet.VMSpec{
		"pc":   {CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS, Boot: fleet.VMBoot{Machine: fleet.MachinePC}, Disks: disksOnBus("ide", "a.qcow2", "b.qcow2"), Drives: []fleet.VMDrive{{Slot: "cdrom2"}}},
		"nvme": {CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS, Disks: nvme},
	} {
		text, err := newDefinitionOf(t, spec).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		golden.Text(t, filepath.Join("testdata", "vm-machine-"+name+".xml"), text+"\n")
		var again libvirtxml.Domain
		if err := again.Unmarshal(text); err != nil {
			t.Fatal(err)
		}
		is := ReadDefinedSpec(&again, hypervisor.AppliedRecord{Spec: spec, Pools: map[fleet.PoolID]hypervisor.AppliedPool{}}, VolumeLookup{
			AppliedPath: func(hypervisor.AppliedRecord, fleet.Volref) string { return "" }, VolumeAt: func(string) *fleet.Volref { return nil },
		})
		for _, f := range []string{"boot.machine", "disks", "drives"} {
			if f, _ := fleet.FieldByName(f); is.Inexpressible[f.Name] != "" || !f.Same(is.Spec, spec) {
				t.Errorf("%s: %s is read as %s %s", name, f.Name, f.Words(is.Spec), is.Inexpressible[f.Name])
			}
		}
	}
}

// libvirt's machine names and versions map to the two supported types, or are reported as inexpressible by a spec.
func TestUnsupportedMachineTypeReported(t *testing.T) {
	t.Parallel()
	for machine, want := range map[string]string{
		"q35": "", "pc-q35-7.2": "", "pc-q35-rhel9.4.0": "", "pc": "pc", "pc-i440fx-7.2": "pc", "pc-i440fx-rhel7.6.0": "pc", "pc-1.3": "pc",
		"microvm": "odd microvm", "virt-9.0": "odd virt-9.0", "isapc": "odd isapc",
	} {
		var s fleet.VMSpec
		odd := readMachineType(&libvirtxml.Domain{OS: &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Machine: machine}}}, &s)
		if got := strings.TrimSpace(s.Boot.Machine + strings.TrimSuffix(" odd "+odd, " odd ")); got != want {
			t.Errorf("%s is %q, want %q", machine, got, want)
		}
	}
}

// IDE devices of a pc machine use the targets of its CD-ROM drives and disks until all targets are in use.
func TestIDEDevicesOfPCMachineGetFreeTargets(t *testing.T) {
	t.Parallel()
	spec := fleet.VMSpec{CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS, Boot: fleet.VMBoot{Machine: fleet.MachinePC}, Disks: disksOnBus("ide", "a", "b", "c")}
	x := newDefinitionOf(t, spec)
	places := func() string {
		var all []string
		for i := range x.Devices.Disks {
			d := &x.Devices.Disks[i]
			all = append(all, d.Device+" "+DiskTargetOf(d))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	if got := places(); got != "cdrom hdc, disk hda, disk hdb, disk hdd" {
		t.Errorf("the IDE targets are %s", got)
	}
	if drive := newCDROMOnFreeTarget(x); drive.Target.Bus != "sata" || drive.Target.Dev != "sda" {
		t.Errorf("without a free IDE target the drive is %+v", drive.Target)
	}
	if slices.ContainsFunc(x.Devices.Controllers, func(c libvirtxml.DomainController) bool { return strings.HasPrefix(c.Model, "pcie") }) {
		t.Error("a pc machine got root ports")
	}
	// After somebody changed the machine type, a reapply leaves no device at an address of the other type.
	address := func(x *libvirtxml.Domain) {
		x.Devices.MemBalloon.Address = &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{}}
		x.Devices.Disks[1].Address = &libvirtxml.DomainAddress{Drive: &libvirtxml.DomainAddressDrive{}}
		x.Devices.Hostdevs = []libvirtxml.DomainHostdev{{SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: &libvirtxml.DomainAddressPCI{}}}}}
	}
	x = newDefinitionOf(t, fleet.VMSpec{CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS, Drives: []fleet.VMDrive{{Slot: "cdrom2"}}, Disks: disksOnBus("", "a")})
	address(x)
	writeMachineType(x, spec)
	if got := places(); x.OS.Type.Machine != "pc" || got != "cdrom hdc, cdrom hdd, disk vda" || len(x.Devices.Controllers) != 0 || x.Devices.MemBalloon.Address != nil ||
		x.Devices.Disks[1].Address != nil || x.Devices.Hostdevs[0].SubsysPCI.Source.Address == nil {
		t.Errorf("reapplied as pc: %s, %d controllers, %s", x.OS.Type.Machine, len(x.Devices.Controllers), got)
	}
	address(x)
	writeMachineType(x, fleet.VMSpec{})
	if got := places(); x.OS.Type.Machine != "q35" || got != "cdrom sda, cdrom sdb, disk vda" {
		t.Errorf("reapplied as q35: %s, %s", x.OS.Type.Machine, got)
	}
	address(x)
	if writeMachineType(x, fleet.VMSpec{}); x.Devices.MemBalloon.Address == nil {
		t.Error("an unchanged definition was modified")
	}
}

// NVMe controllers created by libvirt are removed with their disks and have the disks' serial numbers.
func TestNVMeControllersAreRemovedWithDisks(t *testing.T) {
	t.Parallel()
	index := func(n uint) *uint { return &n }
	d := &libvirtxml.DomainDeviceList{
		Disks: []libvirtxml.DomainDisk{{Serial: "NEW", Target: &libvirtxml.DomainDiskTarget{Dev: "nvme1n1", Bus: "nvme"}}, {Target: &libvirtxml.DomainDiskTarget{Bus: "nvme"}, Serial: "B"}},
		Controllers: []libvirtxml.DomainController{
			{Type: "scsi", Index: index(0)}, {Type: "nvme", Index: index(1), NVME: &libvirtxml.DomainControllerNVME{Serial: "OLD"}}, {Type: "nvme", Index: index(2), NVME: &libvirtxml.DomainControllerNVME{Serial: "GONE"}},
		},
	}
	assignTargetNames(d, nil)
	updateNVMeControllers(d)
	if d.Disks[1].Target.Dev != "nvme0n1" || len(d.Controllers) != 2 || d.Controllers[1].NVME.Serial != "NEW" {
		t.Errorf("%+v %+v", d.Disks[1].Target, d.Controllers)
	}
}
