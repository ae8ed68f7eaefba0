package vmxml_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/vmxml"
)

// allSettings are definitions that together contain every setting of a VM, except the settings in notInXML.
var allSettings = []string{
	domainWith(`<maxMemory slots='16' unit='MiB'>2048</maxMemory><currentMemory unit='MiB'>256</currentMemory>
<cputune><shares>2048</shares><period>50000</period><quota>25000</quota><vcpupin vcpu='0' cpuset='2-3'/></cputune><on_crash>restart</on_crash>
<numatune><memory mode='strict' nodeset='0-1'/></numatune>
<memoryBacking><hugepages><page size='2' unit='MiB'/></hugepages><locked/><access mode='shared'/></memoryBacking>
<os><type machine='pc-i440fx-7.2'>hvm</type><bootmenu enable='yes'/></os>
<cpu mode='custom'><model>Haswell</model><topology sockets='2' cores='1' threads='1'/><feature policy='require' name='vmx'/><feature policy='disable' name='hle'/></cpu>`,
		`<disk type='file'><driver name='qemu' type='raw' cache='none' io='native' discard='ignore'/><source file='/p/a'/><target dev='sda' bus='scsi'/><serial>ABC123</serial><readonly/><boot order='2'/>
<iotune><total_iops_sec>500</total_iops_sec><total_iops_sec_max>900</total_iops_sec_max><total_iops_sec_max_length>5</total_iops_sec_max_length>
<total_bytes_sec>1048576</total_bytes_sec><total_bytes_sec_max>2097152</total_bytes_sec_max></iotune></disk>
<disk type='file'><source file='/p/b'/><target dev='vda'/><iotune><read_iops_sec>1</read_iops_sec><write_iops_sec>2</write_iops_sec><read_bytes_sec>4096</read_bytes_sec><write_bytes_sec>8192</write_bytes_sec></iotune></disk>
<disk type='file' device='cdrom'><target dev='hdc' bus='ide'/><boot order='3'/></disk><disk type='file' device='floppy'><target dev='fda' bus='fdc'/></disk>
<interface type='network'><source network='lan'/><model type='virtio'/><boot order='1'/><link state='down'/><driver name='vhost' queues='4'/>
<bandwidth><inbound average='1000' peak='2000' burst='512'/><outbound average='100' peak='200' burst='51'/></bandwidth></interface>
<interface type='bridge'><source bridge='br0'/><model type='e1000'/></interface>
<serial type='pty'/><serial type='pty'/><serial type='pty'/><parallel type='pty'/><graphics type='vnc' keymap='de'/><graphics type='spice' autoport='yes'/><redirdev bus='usb' type='spicevmc'/>
<video><model type='qxl' heads='2'/></video><input type='mouse' bus='usb'/><sound model='ich6'/><watchdog model='i6300esb' action='pause'/><memballoon model='virtio' freePageReporting='on'/>
<rng model='virtio'><rate bytes='512' period='500'/><backend model='random'>/dev/urandom</backend></rng><tpm><backend type='emulator'/></tpm><vsock model='virtio'/>`),
	domainWith(`<os firmware='efi'><type>hvm</type><firmware><feature enabled='yes' name='secure-boot'/></firmware><loader secure='yes'/></os>
<numatune><memnode cellid='1' mode='strict' nodeset='3'/></numatune>
<cpu><numa><cell id='0' cpus='0' memory='256' unit='MiB'/><cell id='1' cpus='1' memory='256' unit='MiB'/></numa></cpu>`, ""),
	strings.Replace(domainWith(`<cpu><topology sockets='1' cores='2' threads='2'/></cpu><launchSecurity type='sev'><policy>0x0007</policy></launchSecurity>`, ""), "<vcpu>1<", "<vcpu current='2'>4<", 1),
}

// notInXML lists, by name or prefix, the spec's fields that no definition contains, each with the setting's owner.
var notInXML = map[string]string{
	"cpu.reserved": "the portal's", "memory.minMiB": "the agent's", "policy.": "the host's and the portal's", "migration.": "the portal's", "placement.": "the portal's", "rules": "the portal's",
	"health": "the agent's", "firstBoot": "the portal's",
	"boot.kernel": "a file of the host", "boot.initrd": "a file of the host", "boot.cmdline": "it belongs to the kernel", "hostDevices": "reaches into the host", "deviceClasses": "the portal's", "shares": "reaches into the host",
	"boot.cdrom": "the first drive's place: see Disk", "drives": "see Disk", "devices.guestAgent": "a guest without the channel gets it",
	"disks.shareable": "a copy is no other VM's", "disks.encryption": "its passphrase is the host's",
}

func TestEveryVMSettingIsReadFromXML(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	for _, text := range allSettings {
		r, err := vmxml.ConvertDomain(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range r.Notes {
			if n.Kind != vmxml.Usual && !strings.Contains(n.Text, "e1000") && !strings.Contains(n.Text, "new TPM") {
				t.Errorf("line %d, %s, was dropped: %s", n.Line, n.At, n.Text)
			}
		}
		for _, f := range fleet.OptionalFields() {
			taken[f.Name] = taken[f.Name] || !f.Default(r.Spec)
		}
		for _, f := range fleet.NICFields {
			taken["nics."+f.Name] = taken["nics."+f.Name] || slices.ContainsFunc(r.Spec.NICs, func(n fleet.NIC) bool { return !f.Default(n) })
		}
		for _, f := range fleet.DiskFields {
			taken["disks."+f.Name] = taken["disks."+f.Name] || slices.ContainsFunc(r.Disks, func(d vmxml.Disk) bool { return !f.Default(d.As) })
		}
	}
	if !taken["policy.restart"] {
		t.Error("on_crash was dropped")
	}
	for _, name := range fleet.OptionalFieldNames() {
		group, _, _ := strings.Cut(name, ".")
		if _, none := notInXML[name]; !none && !taken[name] && notInXML[group+"."] == "" {
			t.Errorf("%s is never set", name)
		}
	}
}

func TestImportedXMLSettingsKeepValues(t *testing.T) {
	t.Parallel()
	r, err := vmxml.ConvertDomain(allSettings[0])
	if err != nil {
		t.Fatal(err)
	}
	nics := []fleet.NIC{
		{
			Network: "lan", Queues: 4, BootOrder: 1, LinkDown: true,
			Limits: fleet.NICLimits{InKiB: 1000, InPeakKiB: 2000, InBurstKiB: 512, OutKiB: 100, OutPeakKiB: 200, OutBurstKiB: 51},
		},
		{Bridge: "br0", Model: "e1000e"},
	}
	disks := []fleet.Disk{
		{
			Bus: "scsi", Cache: "none", IO: "native", Discard: "ignore", Serial: "ABC123", ReadOnly: true, BootOrder: 2, Format: fleet.Raw,
			Limits: fleet.DiskLimits{TotalIOPS: 500, BurstIOPS: 900, BurstSeconds: 5, TotalKiB: 1024, BurstKiB: 2048},
		},
		{Limits: fleet.DiskLimits{ReadIOPS: 1, WriteIOPS: 2, ReadKiB: 4, WriteKiB: 8}},
		{BootOrder: 3},
		{},
	}
	if !reflect.DeepEqual(r.Spec.NICs, nics) {
		t.Errorf("NICs %+v, want %+v", r.Spec.NICs, nics)
	}
	for i, d := range r.Disks {
		if d.As != disks[i] || d.CDROM != (i == 2) || d.Floppy != (i == 3) {
			t.Errorf("disk %d is %+v, want %+v", i, d, disks[i])
		}
	}
	want := fleet.VMSpec{
		CPUs: 1, MemoryMiB: 512, Firmware: fleet.BIOS, NICs: nics,
		CPU:     fleet.VMCPU{Model: "Haswell", Sockets: 2, Cores: 1, Threads: 1, Features: "+vmx -hle", Shares: 2048, Limit: 50, Pinned: "2-3"},
		Memory:  fleet.VMMemory{Shared: true, Locked: true, HugePageKiB: 2048, MaxMiB: 2048, BalloonMiB: 256, Nodes: "0-1"},
		Boot:    fleet.VMBoot{Menu: true, Machine: fleet.MachinePC},
		Display: fleet.VMDisplay{Video: "qxl", Heads: 2, Keyboard: "de", Pointer: "mouse", Sound: "ich6", Spice: true, USBRedirection: 1}, Security: fleet.VMSecurity{TPM: true},
		Devices: fleet.VMDevices{Watchdog: "i6300esb", WatchdogAction: "pause", RNGRate: 1024, VSOCK: true, Balloon: "reporting", Serials: 2, Parallel: true},
		Policy:  fleet.VMPolicy{Restart: "onFailure"},
	}
	if !reflect.DeepEqual(r.Spec, want) {
		t.Errorf("the spec is\n%+v, want\n%+v", r.Spec, want)
	}
	r, err = vmxml.ConvertDomain(allSettings[1])
	nodes := []fleet.VMNUMANode{{CPUs: "0", MemoryMiB: 256}, {CPUs: "1", MemoryMiB: 256, Nodes: "3"}}
	if err != nil || !slices.Equal(r.Spec.NUMA, nodes) || !r.Spec.Security.SecureBoot {
		t.Errorf("NUMA nodes %+v (%v), secure boot %v", r.Spec.NUMA, err, r.Spec.Security.SecureBoot)
	}
	r, err = vmxml.ConvertDomain(allSettings[2])
	if err != nil || r.Spec.CPUs != 2 || r.Spec.CPU.Max != 4 || r.Spec.Security.Confidential != "sev-es" {
		t.Errorf("the spec is %+v (%v)", r.Spec, err)
	}
}

// A boot order of device kinds becomes a boot order of devices if it differs from the default.
func TestBootOrderOfDeviceKindsConverted(t *testing.T) {
	t.Parallel()
	devices := `<disk type='file'><source file='/a'/><target dev='vda'/></disk><disk type='file'><source file='/b'/><target dev='vdb'/></disk><disk device='cdrom'><target dev='sda'/></disk>
<interface type='network'><source network='a'/></interface>`
	for order, want := range map[string]string{
		"": "0 0 0 0", "hd": "0 0 0 0", "hd cdrom network": "0 0 0 0", "hd network": "0 0 0 0", "network hd": "2 0 0 1", "cdrom hd": "2 0 1 0", "cdrom network fd hd": "4 0 1 2",
	} {
		var os strings.Builder
		for kind := range strings.FieldsSeq(order) {
			fmt.Fprintf(&os, "<boot dev='%s'/>", kind)
		}
		r, err := vmxml.ConvertDomain(domainWith("<os><type>hvm</type>"+os.String()+"</os>", devices))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(r.Disks[0].As.BootOrder, r.Disks[1].As.BootOrder, r.Disks[2].As.BootOrder, r.Spec.NICs[0].BootOrder); got != want {
			t.Errorf("%q: the places are %s, want %s; notes %+v", order, got, want, r.Notes)
		}
	}
}

// Each dropped line has a note with the reason. An imported line has no note.
func TestDroppedXMLLinesHaveReasons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ head, devices, message string }{
		"explicit default values":            {"", "<disk type='file'><source file='/a'/><driver discard='unmap' cache='default' io='io_uring'/><target bus='virtio'/></disk><watchdog model='i6300esb' action='reset'/>", ""},
		"a balloon with all memory":          {"<currentMemory unit='MiB'>512</currentMemory>", "<memballoon model='virtio'><stats period='10'/></memballoon>", ""},
		"memory without a balloon":           {"<currentMemory unit='MiB'>256</currentMemory>", "<memballoon model='none'/>", "Without a balloon the guest has all of its memory"},
		"queues of a non-virtio NIC":         {"", "<interface type='network'><source network='a'/><driver queues='4'/><model type='rtl8139'/></interface>", "Only a virtio NIC has several queues."},
		"too many queues":                    {"", "<interface type='network'><source network='a'/><driver queues='400'/></interface>", "from 1 to 64"},
		"redirection without SPICE":          {"", "<redirdev bus='usb' type='spicevmc'/>", "comes through SPICE"},
		"an unknown driver option":           {"", "<disk type='file'><source file='/a'/><driver name='qemu' queues='4' iothread='1'/></disk>", "cannot be chosen here: iothread, queues"},
		"an I/O size limit":                  {"", "<disk type='file'><source file='/a'/><iotune><size_iops_sec>4096</size_iops_sec></iotune></disk>", "limits here are operations and bytes"},
		"a serial number with a space":       {"", "<disk type='file'><source file='/a'/><serial>A B</serial></disk>", "A serial number has"},
		"a fifth serial port":                {"", strings.Repeat("<serial type='pty'/>", 5), "from 1 to 3"},
		"a VLAN on the NIC":                  {"", "<interface type='network'><source network='a'/><vlan><tag id='4'/></vlan></interface>", "network or its port group"},
		"a clock in local time":              {"<clock offset='localtime'/>", "", "UTC"},
		"Hyper-V":                            {"<features><acpi/><hyperv><relaxed state='on'/></hyperv></features>", "", "Hyper-V enlightenments"},
		"IOThreads":                          {"<iothreads>2</iothreads>", "", "IOThreads"},
		"separate pinning for each vCPU":     {"<cputune><vcpupin vcpu='0' cpuset='1'/><vcpupin vcpu='1' cpuset='2'/></cputune>", "", "pinned to the same processors"},
		"preferred memory node":              {"<numatune><memory mode='preferred' nodeset='0'/></numatune>", "", "another mode cannot be chosen"},
		"memory node of a missing NUMA node": {"<numatune><memnode cellid='2' mode='strict' nodeset='0'/></numatune>", "", "no such NUMA node"},
		"on_crash preserve":                  {"<on_crash>preserve</on_crash>", "", `"preserve" cannot be chosen`},
	} {
		r, err := vmxml.ConvertDomain(domainWith(c.head, c.devices))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var notes []string
		for _, n := range r.Notes {
			if n.Kind != vmxml.Usual {
				notes = append(notes, n.Text)
			}
		}
		if len(notes) != min(len(c.message), 1) || !strings.Contains(strings.Join(notes, " "), c.message) {
			t.Errorf("%s: notes %q, want one with %q", name, notes, c.message)
		}
	}
}
