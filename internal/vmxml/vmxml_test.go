package vmxml_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/vmxml"
)

// web is the XML of a running domain, as "virsh dumpxml" prints it.
const web = `<?xml version='1.0' encoding='UTF-8'?>
<!-- kept by hand -->
<domain type='kvm' id='3' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>web</name>
  <uuid>6b1a4f3e-6f1c-4d0e-9d1c-0f0b8d3f7a11</uuid>
  <title>The shop</title>
  <memory unit='KiB'>2097152</memory>
  <currentMemory unit='KiB'>2097152</currentMemory>
  <memoryBacking><hugepages><page size='2' unit='MiB'/></hugepages><locked/><access mode='shared'/></memoryBacking>
  <vcpu placement='static' current='2'>4</vcpu>
  <os firmware='efi'>
    <type arch='x86_64' machine='pc-q35-7.2'>hvm</type>
    <boot dev='hd'/>
    <boot dev='network'/>
    <bootmenu enable='yes' timeout='3000'/>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode='custom' match='exact'><model fallback='forbid'>Skylake-Server</model><topology sockets='2' dies='1' cores='2' threads='1'/><feature policy='require' name='vmx'/></cpu>
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/>
      <source file='/srv/vm/web.qcow2'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <disk type='volume' device='disk'><source pool='fast' volume='data.qcow2'/><target dev='sda' bus='scsi'/></disk>
    <disk type='file' device='cdrom'><source file='/srv/iso/cd.iso'/><target dev='sdb' bus='sata'/><readonly/></disk>
    <controller type='pci' index='0' model='pcie-root'/>
    <interface type='network'><mac address='52:54:00:00:00:07'/><source network='lan' portgroup='web'/><model type='virtio'/></interface>
    <interface type='bridge'><source bridge='br0'/><model type='e1000e'/></interface>
    <serial type='pty'><source path='/dev/pts/4'/></serial>
    <channel type='unix'><source mode='bind' path='/var/lib/libvirt/qemu/channel/x'/></channel>
    <input type='mouse' bus='usb'/>
    <graphics type='vnc' port='5901' autoport='yes' keymap='de' passwd='geheim'/>
    <video><model type='virtio' heads='2'/></video>
    <sound model='ich9'/>
    <watchdog model='i6300esb' action='pause'/>
    <rng model='virtio'><rate bytes='1024' period='1000'/><backend model='random'>/dev/urandom</backend></rng>
    <tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>
    <vsock model='virtio'><cid auto='yes'/></vsock>
    <memballoon model='virtio'/>
  </devices>
</domain>
`

func TestDomainXMLConvertedToSpec(t *testing.T) {
	t.Parallel()
	r, err := vmxml.ConvertDomain(web)
	if err != nil {
		t.Fatal(err)
	}
	want := fleet.VMSpec{
		CPUs: 2, MemoryMiB: 2048, Firmware: fleet.UEFI,
		NICs: []fleet.NIC{{Network: "lan", PortGroup: "web", MAC: "52:54:00:00:00:07"}, {Bridge: "br0", Model: "e1000e"}},
		CPU:  fleet.VMCPU{Model: "Skylake-Server", Sockets: 2, Cores: 2, Threads: 1, Max: 4, Features: "+vmx"}, Memory: fleet.VMMemory{Shared: true, Locked: true, HugePageKiB: 2048}, Boot: fleet.VMBoot{Menu: true},
		Display:  fleet.VMDisplay{Video: "virtio", Heads: 2, Keyboard: "de", Pointer: "mouse", Sound: "ich9"},
		Security: fleet.VMSecurity{TPM: true}, Devices: fleet.VMDevices{Watchdog: "i6300esb", WatchdogAction: "pause", RNGRate: 1024, VSOCK: true},
	}
	if !reflect.DeepEqual(r.Spec, want) || r.Name != "web" || r.Description != "The shop" {
		t.Errorf("read is %q %q\n%+v, want\n%+v", r.Name, r.Description, r.Spec, want)
	}
	disks := []vmxml.Disk{
		{Line: 23, Target: "vda", Path: "/srv/vm/web.qcow2"}, {Line: 28, Target: "sda", As: fleet.Disk{Bus: "scsi"}, Pool: "fast", Volume: "data.qcow2"}, {Line: 29, Target: "sdb", CDROM: true, Path: "/srv/iso/cd.iso"},
	}
	if !reflect.DeepEqual(r.Disks, disks) {
		t.Errorf("the disks are %+v", r.Disks)
	}
	notes := map[string]vmxml.NoteKind{}
	for i, n := range r.Notes {
		notes[fmt.Sprint(n.Line, " ", n.At)] = n.Kind
		if !strings.HasSuffix(n.Text, ".") || strings.Contains(n.Text, "geheim") || i > 0 && r.Notes[i-1].Line > n.Line {
			t.Errorf("note %d is %+v", i, n)
		}
	}
	for at, kind := range map[string]vmxml.NoteKind{
		"13 os/boot": vmxml.Usual, "36 devices/graphics": vmxml.Left, "41 devices/tpm": vmxml.Left, "30 devices/controller": vmxml.Usual,
	} {
		if notes[at] != kind {
			t.Errorf("line %s: kind %q, want %q; all %v", at, notes[at], kind, notes)
		}
	}
	if r.ReachesOutsideVM() {
		t.Errorf("reported as outside the VM: %+v", r.Notes)
	}
}

// An old guest keeps its machine type and device models where they are supported.
func TestOldDefinitionKeepsMachineType(t *testing.T) {
	t.Parallel()
	devices := `<disk type='file'><source file='/p/a'/><target dev='hda' bus='ide'/></disk><disk type='file'><source file='/p/b'/><target dev='nvme0n1' bus='nvme'/><serial>N1</serial></disk>
<disk type='file'><source file='/p/c'/><target dev='xvda' bus='xen'/></disk><disk type='file'><source file='/p/d'/></disk>
<interface type='bridge'><source bridge='br0'/><model type='rtl8139'/></interface><interface type='bridge'><source bridge='br0'/><model type='ne2k_pci'/></interface>`
	for machine, want := range map[string]struct{ machine, bus, notes string }{
		"pc": {"pc", "ide", ""}, "pc-i440fx-rhel7.6.0": {"pc", "ide", ""}, "pc-1.3": {"pc", "ide", ""}, "pc-q35-7.2": {"", "sata", "has no IDE"}, "q35": {"", "sata", "has no IDE"},
		"isapc": {"", "sata", "q35 or pc, not isapc"}, "": {"", "sata", "has no IDE"},
	} {
		r, err := vmxml.ConvertDomain(domainWith(`<os><type machine='`+machine+`'>hvm</type></os>`, devices))
		if err != nil {
			t.Fatal(err)
		}
		var notes []string
		for _, n := range r.Notes {
			notes = append(notes, n.Text)
		}
		all := strings.Join(notes, " ")
		if r.Spec.Boot.Machine != want.machine || r.Disks[0].As.Bus != want.bus || !strings.Contains(all, want.notes) || want.notes == "" && strings.Contains(all, "IDE") {
			t.Errorf("%q: machine %q, bus %q, notes %q", machine, r.Spec.Boot.Machine, r.Disks[0].As.Bus, notes)
		}
		if r.Disks[1].As.Bus != "nvme" || r.Disks[1].As.Serial != "N1" || r.Disks[2].As.Bus != "" || !strings.Contains(all, "not xen") || r.Spec.NICs[0].Model != "rtl8139" || r.Spec.NICs[1].Model != "" || !strings.Contains(all, "not ne2k_pci") {
			t.Errorf("%q: read is %+v, %+v; notes %q", machine, r.Disks, r.Spec.NICs, notes)
		}
	}
}

// domainWith returns the XML of a domain with additional elements in the domain and in its devices.
func domainWith(more, devices string) string {
	return `<domain type='kvm'><name>web</name><memory unit='MiB'>512</memory><vcpu>1</vcpu>` + more + `<devices>` + devices + `</devices></domain>`
}

// Each line that reaches outside the VM causes a note and changes nothing in the spec.
func TestXMLHostAccessIsDroppedWithNote(t *testing.T) {
	t.Parallel()
	plain, err := vmxml.ConvertDomain(domainWith("", ""))
	if err != nil {
		t.Fatal(err)
	}
	qemu := `<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:arg value='-monitor'/></q:commandline>`
	for name, text := range map[string]string{
		"QEMU's command line":                       domainWith(qemu, ""),
		"QEMU's command line without its namespace": domainWith(`<qemu:commandline><qemu:env name='LD_PRELOAD'/></qemu:commandline>`, ""),
		"another extension":                         domainWith(`<lxc:namespace xmlns:lxc='urn:x'/>`, ""),
		"an extension among devices":                domainWith("", `<x:disk xmlns:x='urn:x'/>`),
		"a kernel of the host":                      domainWith(`<os><type>hvm</type><kernel>/boot/vmlinuz</kernel></os>`, ""),
		"an initrd of the host":                     domainWith(`<os><type>hvm</type><initrd>/boot/initrd</initrd></os>`, ""),
		"a command line of a kernel":                domainWith(`<os><type>hvm</type><cmdline>init=/bin/sh</cmdline></os>`, ""),
		"a device tree":                             domainWith(`<os><type>hvm</type><dtb>/etc/passwd</dtb></os>`, ""),
		"tables of ACPI":                            domainWith(`<os><type>hvm</type><acpi><table type='slic'>/etc/shadow</table></acpi></os>`, ""),
		"a PCI device":                              domainWith("", `<hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0' bus='1' slot='0' function='0'/></source></hostdev>`),
		"a USB device":                              domainWith("", `<hostdev mode='subsystem' type='usb'><source><vendor id='0x1'/></source></hostdev>`),
		"a mediated device":                         domainWith("", `<hostdev mode='subsystem' type='mdev' model='vfio-pci'/>`),
		"a SCSI device":                             domainWith("", `<disk type='block' device='lun'><source dev='/dev/sda'/><target dev='sda'/></disk>`),
		"a directory":                               domainWith("", `<filesystem type='mount'><source dir='/'/><target dir='root'/></filesystem>`),
		"shared memory":                             domainWith("", `<shmem name='x'/>`),
		"a smart card":                              domainWith("", `<smartcard mode='host'/>`),
		"a lease":                                   domainWith("", `<lease><lockspace>x</lockspace></lease>`),
		"a network disk":                            domainWith("", `<disk type='network' device='disk'><source protocol='rbd' name='vms/a'/><target dev='vda'/></disk>`),
		"an NVMe disk":                              domainWith("", `<disk type='nvme' device='disk'><source type='pci'/><target dev='vda'/></disk>`),
		"a directory as a disk":                     domainWith("", `<disk type='dir' device='disk'><source dir='/etc'/><target dev='vda'/></disk>`),
		"a vhost-user disk":                         domainWith("", `<disk type='vhostuser' device='disk'><source type='unix' path='/x'/><target dev='vda'/></disk>`),
		"a backing file":                            domainWith("", `<disk type='file'><source file='/a'/><backingStore type='file'><source file='/etc/shadow'/></backingStore><target dev='vda'/></disk>`),
		"a mirror":                                  domainWith("", `<disk type='file'><source file='/a'/><mirror type='file'><source file='/b'/></mirror><target dev='vda'/></disk>`),
		"a secret for a disk":                       domainWith("", `<disk type='file'><source file='/a'/><encryption format='luks'><secret type='passphrase' uuid='x'/></encryption><target dev='vda'/></disk>`),
		"a storage user name":                       domainWith("", `<disk type='file'><source file='/a'/><auth username='admin'/><target dev='vda'/></disk>`),
		"a direct NIC":                              domainWith("", `<interface type='direct'><source dev='eth0'/></interface>`),
		"a hostdev NIC":                             domainWith("", `<interface type='hostdev'><source><address/></source></interface>`),
		"a vhost-user NIC":                          domainWith("", `<interface type='vhostuser'><source type='unix' path='/x'/></interface>`),
		"an ethernet NIC with a script":             domainWith("", `<interface type='ethernet'><script path='/tmp/up'/></interface>`),
		"a bridge NIC with a script":                domainWith("", `<interface type='bridge'><source bridge='br0'/><script path='/tmp/up'/></interface>`),
		"a NIC with a tap backend":                  domainWith("", `<interface type='network'><source network='lan'/><backend tap='/dev/net/tun'/></interface>`),
		"a NIC without a network":                   domainWith("", `<interface type='network'/>`),
		"a serial port to a file":                   domainWith("", `<serial type='file'><source path='/etc/cron.d/x'/></serial>`),
		"a serial port of a device":                 domainWith("", `<serial type='dev'><source path='/dev/ttyS0'/></serial>`),
		"a serial port over TCP":                    domainWith("", `<serial type='tcp'><source mode='connect' host='10.0.0.1' service='22'/></serial>`),
		"a console on a socket":                     domainWith("", `<console type='unix'><source mode='bind' path='/run/docker.sock'/></console>`),
		"a channel to a pipe":                       domainWith("", `<channel type='pipe'><source path='/tmp/p'/></channel>`),
		"a parallel port":                           domainWith("", `<parallel type='dev'><source path='/dev/lp0'/></parallel>`),
		"random numbers from a file":                domainWith("", `<rng model='virtio'><backend model='random'>/etc/shadow</backend></rng>`),
		"random numbers from a network":             domainWith("", `<rng model='virtio'><backend model='egd' type='udp'/></rng>`),
		"a TPM of the host":                         domainWith("", `<tpm model='tpm-tis'><backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm>`),
		"a TPM without a backend":                   domainWith("", `<tpm/>`),
		"an input of the host":                      domainWith("", `<input type='passthrough' bus='virtio'><source evdev='/dev/input/event1'/></input>`),
		"a persistent store":                        domainWith("", `<pstore backend='acpi-erst'><path>/tmp/x</path></pstore>`),
	} {
		r, err := vmxml.ConvertDomain(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !r.ReachesOutsideVM() {
			t.Errorf("%s has no note: %+v", name, r.Notes)
		}
		r.Spec.NICs = nil // the network of a NIC with a script stays in the spec
		if !reflect.DeepEqual(r.Spec, plain.Spec) {
			t.Errorf("%s: the spec is %+v", name, r.Spec)
		}
	}
}

func TestInvalidXMLRefusedWithLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	for name, c := range map[string]struct{ text, message string }{
		"empty input":                    {" \n", "Paste the XML of a domain"},
		"not XML":                        {"web 4 GiB", "outside of the domain"},
		"only a comment":                 {"<!-- -->", "contains no domain"},
		"too long":                       {domainWith(`<description>`+strings.Repeat("a", vmxml.MaxText)+`</description>`, ""), "more than 60 KiB"},
		"NUL":                            {domainWith("\x00", ""), "must be UTF-8 text"},
		"invalid UTF-8":                  {domainWith("\xff\xfe", ""), "must be UTF-8 text"},
		"another encoding":               {`<?xml version="1.0" encoding="UTF-16"?>` + domainWith("", ""), "Line 1: this is no well-formed XML"},
		"cut off":                        {"<domain type='kvm'>\n<name>", "Line 2: this is no well-formed XML"},
		"crossed tags":                   {"<domain type='kvm'><name></domain></name>", "this is no well-formed XML"},
		"a document type":                {"<!DOCTYPE domain>\n" + domainWith("", ""), "Line 1: a document type is not read"},
		"entities":                       {"<!DOCTYPE d [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>" + domainWith("<title>&a;</title>", ""), "document type"},
		"an entity bomb":                 {"<!DOCTYPE d [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]>" + domainWith("<title>&b;</title>", ""), "document type"},
		"an unknown entity":              {domainWith("<title>&a;</title>", ""), "this is no well-formed XML"},
		"an inner document type":         {`<domain type='kvm'><!DOCTYPE x></domain>`, "document type"},
		"instructions":                   {`<?php system("id") ?>` + domainWith("", ""), "processing instructions"},
		"instructions in it":             {domainWith(`<?xml-stylesheet href="x"?>`, ""), "processing instructions"},
		"two domains":                    {domainWith("", "") + domainWith("", ""), "there is more text after the domain"},
		"text after the domain":          {domainWith("", "") + "x", "outside of the domain"},
		"a network definition":           {"<network><name>lan</name></network>", "the outermost element is <network>"},
		"a list of domains":              {"<domains>" + domainWith("", "") + "</domains>", "the outermost element is <domains>"},
		"another namespace":              {"<domain xmlns='urn:x' type='kvm'/>", "the outermost element"},
		"a long element name":            {"<" + long + "/>", "…>, not <domain>"},
		"too deep nesting":               {domainWith(strings.Repeat("<metadata>", 30)+strings.Repeat("</metadata>", 30), ""), "deeper ones, than a VM needs"},
		"too many elements":              {domainWith(strings.Repeat("<a/>", 4001), ""), "more elements"},
		"too many attributes":            {`<domain type='kvm' ` + manyAttributes(40) + `/>`, "more elements"},
		"a duplicate attribute":          {domainWith("<cpu mode='a' mode='b'/>", ""), "has mode twice"},
		"another hypervisor":             {"<domain type='xen'/>", `type "xen"`},
		"no hypervisor":                  {"<domain/>", `type ""`},
		"a container":                    {domainWith("<os><type>exe</type></os>", ""), `guest of type "exe"`},
		"no memory size":                 {"<domain type='kvm'><name>web</name></domain>", "how many vCPUs"},
		"no vCPUs":                       {"<domain type='kvm'><memory>1048576</memory></domain>", "how many vCPUs"},
		"memory that is not a number":    {"<domain type='kvm'><memory>much</memory></domain>", `"much"  in <memory> is no amount`},
		"negative memory":                {"<domain type='kvm'><memory>-1</memory></domain>", "no amount of memory"},
		"memory of an odd unit":          {"<domain type='kvm'><memory unit='PiB'>1</memory></domain>", "no amount of memory"},
		"memory that overflows":          {"<domain type='kvm'><memory unit='TiB'>99999999999999</memory></domain>", "no amount of memory"},
		"memory over the limit":          {"<domain type='kvm'><memory unit='TiB'>4000</memory></domain>", "more memory than a VM can have"},
		"two memory elements":            {domainWith("<memory>1</memory>", ""), "<memory> occurs twice"},
		"two names":                      {domainWith("<name>other</name>", ""), "<name> occurs twice"},
		"vCPUs that are not a number":    {"<domain type='kvm'><vcpu>two</vcpu></domain>", "no whole number"},
		"too many vCPUs":                 {"<domain type='kvm'><vcpu>99999</vcpu></domain>", "no whole number up to"},
		"negative vCPUs":                 {"<domain type='kvm'><vcpu>-4</vcpu></domain>", "no whole number"},
		"cores that are not a number":    {domainWith("<cpu><topology sockets='1' cores='x' threads='1'/></cpu>", ""), "no whole number"},
		"too many cores":                 {domainWith("<cpu><topology dies='500' clusters='500' cores='500'/></cpu>", ""), "more cores than a VM can have"},
		"page size that is not a number": {domainWith("<memoryBacking><hugepages><page size='big'/></hugepages></memoryBacking>", ""), "no amount of memory"},
		"page size over the limit":       {domainWith("<memoryBacking><hugepages><page size='1' unit='TiB'/></hugepages></memoryBacking>", ""), "no pages of this size"},
		"screens that are not a number":  {domainWith("", "<video><model type='qxl' heads='many'/></video>"), "no whole number"},
		"a number that overflows":        {domainWith("", "<rng><rate bytes='99999999999'/></rng>"), "no whole number"},
		"too many NICs":                  {domainWith("", strings.Repeat("<interface type='network'><source network='a'/></interface>", 65)), "more NICs than a VM can have"},
		"two TPMs":                       {domainWith("", strings.Repeat("<tpm><backend type='emulator'/></tpm>", 2)), "<tpm> occurs twice"},
	} {
		r, err := vmxml.ConvertDomain(c.text)
		if fleet.CodeOf(err) != fleet.Invalid || !strings.Contains(fmt.Sprint(err), c.message) {
			t.Errorf("%s: %v, want %q", name, err, c.message)
		}
		if len(fmt.Sprint(err)) > 400 || !reflect.DeepEqual(r, vmxml.Result{}) {
			t.Errorf("%s: refused with %d letters and %+v", name, len(fmt.Sprint(err)), r)
		}
	}
}

func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d='' ", i)
	}
	return b.String()
}

// Unknown values are dropped with a note, and the fields keep their defaults.
func TestUnknownXMLValuesDroppedWithNote(t *testing.T) {
	t.Parallel()
	r, err := vmxml.ConvertDomain(domainWith("<cpu mode='host-passthrough'/><idmap/>", `<video><model type='cirrus'/></video><sound model='sb16'/><watchdog model='diag288'/><graphics type='sdl'/><floppy/>`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Spec.Display != (fleet.VMDisplay{}) || r.Spec.Devices != (fleet.VMDevices{}) || r.Spec.CPU.Model != "host-passthrough" || r.ReachesOutsideVM() || len(r.Notes) != 6 {
		t.Errorf("read is %+v with %+v", r.Spec, r.Notes)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{web, domainWith("", ""), "<domain type='kvm'/>", domainWith("<cpu><topology/></cpu>", "<disk/><interface/><rng><rate/></rng>"), "<!DOCTYPE a>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := vmxml.ConvertDomain(text)
		if err != nil {
			if fleet.CodeOf(err) != fleet.Invalid {
				t.Errorf("refused as %q: %v", fleet.CodeOf(err), err)
			}
			return
		}
		if s := r.Spec; s.CPUs <= 0 || s.CPUs > fleet.MaxCPUs || s.MemoryMiB <= 0 || s.MemoryMiB > fleet.MaxMemoryMiB || len(s.NICs) > 64 || len(r.Notes) > 500 {
			t.Errorf("read is %+v", s)
		}
		var checks fleet.Checks // the form makes further checks, which this fuzz test does not run
		r.Spec.Check(&checks, "spec")
	})
}
