package libvirt

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	machine "quantix/agent/hardware"
	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// The agent looks up host devices at hot-plug, and attaches them at the address of the next start.
func TestHotPluggedHostDeviceIsResolvedAndAddressed(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put := func(file, text string) {
		file = filepath.Join(root, "sys", file)
		if err := cmp.Or(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"busnum": "1", "devnum": "7", "idVendor": "046d", "idProduct": "c52b", "bDeviceClass": "00"} {
		put("bus/usb/devices/1-2.3/"+file, text+"\n")
	}
	put("class/mdev_bus/0000:41:00.0/mdev_supported_types/nvidia-63/available_instances", "1\n")
	put("class/mdev_bus/0000:41:00.0/mdev_supported_types/nvidia-63/create", "")

	const id = "0190d1c4-7b2e-7c3a-8f00-000000000001"
	x := &libvirtxml.Domain{UUID: id, Devices: &libvirtxml.DomainDeviceList{}}
	spec := fleet.VMSpec{HostDevices: []fleet.VMHostDevice{
		{Device: "pci/0000:41:1f.7"}, {Device: "usb/046d:c52b"}, {Device: "usb-port/1-2.3"}, {Device: "mdev/nvidia-63"}, {Device: "blk/ata-WDC"},
	}}
	hostDevices, _ := fleet.FieldByName("hostDevices")
	domxml.Edit(x, domxml.EditContent{DefinitionEdit: hypervisor.DefinitionEdit{Fields: []*fleet.VMField{&hostDevices}}, Spec: spec})
	a := &applyRun{Backend: &Backend{devices: machine.HostDevices{Root: root}}}
	mdev := machine.MdevID(id, "nvidia-63")
	want := map[string][]string{
		"pci/0000:41:1f.7": {`<hostdev mode="subsystem" type="pci" managed="yes">`, `<address domain="0x0000" bus="0x41" slot="0x1f" function="0x7"></address>`, `<address type="pci" domain="0x0000" bus="0x05" slot="0x00" function="0x0"></address>`},
		"usb/046d:c52b":    {`<hostdev mode="subsystem" type="usb" managed="yes">`, `<vendor id="0x046d"></vendor>`, `<product id="0xc52b"></product>`},
		"usb-port/1-2.3":   {`<hostdev mode="subsystem" type="usb" managed="yes">`, `<address bus="1" device="7"></address>`, `<vendor id="0x046d"></vendor>`, `<alias name="ua-quantix-usbport-1-2_3"></alias>`},
		"mdev/nvidia-63":   {`<hostdev mode="subsystem" type="mdev" model="vfio-pci">`, `<address uuid="` + mdev + `"></address>`, `<alias name="ua-quantix-mdev-nvidia-63"></alias>`},
		"blk/ata-WDC":      {`<disk type="block" device="disk">`, `<source dev="/dev/disk/by-id/ata-WDC"></source>`, `<target dev="vda" bus="virtio"></target>`},
	}
	all := pluggableDevices(x, domxml.DeviceNames{}, spec)
	for _, p := range all {
		if !p.wanted || p.field != "hostDevices" || len(want[p.label]) == 0 {
			t.Errorf("the hot-pluggable devices contain %+v", p)
		}
		// host disks need a running host: see the conformance suite
		if p.prepare != nil && !strings.HasPrefix(p.label, fleet.PhysicalDevice) {
			if err := p.prepare(t.Context(), a); err != nil {
				t.Errorf("%s: %v", p.label, err)
			}
		}
		bus, zero := uint(5), uint(0)
		text, err := p.deviceXML(&libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Domain: &zero, Bus: &bus, Slot: &zero, Function: &zero}})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want[p.label] {
			if !strings.Contains(text, part) {
				t.Errorf("%s is attached without %s:\n%s", p.label, part, text)
			}
		}
		if bare, err := p.deviceXML(nil); err != nil || strings.Contains(bare, `<address type=`) {
			t.Errorf("%s at any free address: %v\n%s", p.label, err, bare)
		}
	}
	if len(all) != len(want) {
		t.Errorf("of %d devices %d are hot-pluggable", len(want), len(all))
	}
	made, err := os.ReadFile(filepath.Join(root, "sys/class/mdev_bus/0000:41:00.0/mdev_supported_types/nvidia-63/create"))
	if err != nil || string(made) != mdev {
		t.Errorf("the kernel got the request for %q: %v", made, err)
	}
	if left := pendingUnplugs(&libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{}}, x, domxml.DeviceNames{}, fleet.VMSpec{}); len(left) != len(want) {
		t.Errorf("after the removal %d of %d are pending unplug", len(left), len(want))
	}
	if left := pendingUnplugs(&libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{}}, x, domxml.DeviceNames{}, spec); len(left) != 0 {
		t.Errorf("a device removed only from the definition is unplugged: %+v", reportUnplugs(left))
	}
}

// A guest with KVM can lose hot-plugged vCPUs. Any guest can lose the memory modules that Quantix hot-plugged, but no
// part of a module.
func TestSurplusCPUsAndMemoryAreUnplugged(t *testing.T) {
	t.Parallel()
	parse := func(text string) *libvirtxml.Domain {
		t.Helper()
		x := &libvirtxml.Domain{}
		if err := x.Unmarshal(text); err != nil {
			t.Fatal(err)
		}
		return x
	}
	// libvirt 9.0 writes this definition for a guest that was started with one vCPU and 192 MiB. The guest now has three
	// vCPUs and 640 MiB. A module of 128 MiB was added outside Quantix.
	const guest = `<domain type="kvm"><memory unit="KiB">655360</memory><vcpu placement="static" current="3">4</vcpu><vcpus>
		<vcpu id="0" enabled="yes" hotpluggable="no" order="1"/><vcpu id="1" enabled="yes" hotpluggable="yes" order="2"/>
		<vcpu id="2" enabled="yes" hotpluggable="yes" order="3"/><vcpu id="3" enabled="no" hotpluggable="yes"/></vcpus><devices>
		<memory model="dimm"><target><size unit="KiB">131072</size><node>0</node></target><alias name="dimm0"/></memory>
		<memory model="dimm"><target><size unit="KiB">131072</size><node>0</node></target><alias name="ua-quantix-dimm-1"/></memory>
		<memory model="dimm"><target><size unit="KiB">196608</size><node>0</node></target><alias name="ua-quantix-dimm-2"/></memory>
	</devices></domain>`
	live := parse(guest)
	emulated := parse(strings.Replace(guest, `"kvm"`, `"qemu"`, 1))
	started := parse(regexp.MustCompile(`hotpluggable="yes"`).ReplaceAllString(guest, `hotpluggable="no"`))
	if n := []int{domxml.MinHotUnplugCPUs(live), domxml.MinHotUnplugCPUs(emulated), domxml.MinHotUnplugCPUs(started), domxml.MinHotUnplugCPUs(parse(`<domain type="kvm"><vcpu>2</vcpu></domain>`))}; !slices.Equal(n, []int{1, 0, 0, 0}) {
		t.Errorf("the guests have the minimum vCPUs %v", n)
	}
	if all, _, others := domxml.MemoryModulesOf(live); !slices.Equal(all, []fleet.Module{{MiB: 128}, {MiB: 192}}) || others[0] != 128 {
		t.Errorf("the guest has modules %+v, and unmanaged ones %v", all, others)
	}
	for name, c := range map[string]struct {
		live              *libvirtxml.Domain
		cpus, mib         int // of the spec
		keptCPUs, kept    int // of the persistent definition
		planned, withCPUs string
	}{
		"no surplus":                     {live, 3, 512, 3, 512, "", ""},
		"two vCPUs":                      {live, 1, 512, 1, 512, "", "2 vCPUs"},
		"a vCPU of an emulated guest":    {emulated, 2, 512, 2, 512, "", ""},
		"vCPUs present at the start":     {started, 2, 512, 2, 512, "", ""},
		"vCPUs added outside Quantix":    {live, 3, 512, 2, 512, "", ""},
		"one module":                     {live, 3, 384, 3, 384, "128 MiB of memory", ""},
		"the other module":               {live, 3, 320, 3, 320, "192 MiB of memory", ""},
		"both modules and a vCPU":        {live, 2, 192, 2, 192, "128 MiB of memory, 192 MiB of memory", "1 vCPU"},
		"part of a module":               {live, 3, 448, 3, 448, "", ""},
		"more than all modules":          {live, 3, 128, 3, 128, "", ""},
		"memory removed outside Quantix": {live, 3, 512, 3, 384, "", ""},
	} {
		kept := &libvirtxml.Domain{
			Memory: &libvirtxml.DomainMemory{Value: uint(c.kept) * 1024, Unit: "KiB"}, VCPU: &libvirtxml.DomainVCPU{Value: 4, Current: uint(c.keptCPUs)}, Devices: &libvirtxml.DomainDeviceList{},
		}
		var planned, cpus []string
		for _, h := range reportUnplugs(pendingUnplugs(kept, c.live, domxml.DeviceNames{}, fleet.VMSpec{CPUs: c.cpus, MemoryMiB: c.mib})) {
			if h.Field == "cpus" {
				cpus = append(cpus, h.What)
			} else {
				planned = append(planned, h.What)
			}
		}
		if strings.Join(planned, ", ") != c.planned || strings.Join(cpus, ", ") != c.withCPUs {
			t.Errorf("%s: would unplug %q and %q", name, planned, cpus)
		}
	}
}
