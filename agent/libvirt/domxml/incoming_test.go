package domxml

import (
	"errors"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

func TestIncomingDefinitionNamesOnlyResourcesOfVM(t *testing.T) {
	t.Parallel()
	const id = "01a22140-f038-7000-9db8-bcbf0307c075"
	vm := fleet.VM{Meta: fleet.Meta{ID: id}, Spec: fleet.VMSpec{NICs: []fleet.NIC{{Network: "default"}, {Network: "lan", PortGroup: "web"}, {Bridge: "br0"}}}}
	definition := func(more string) string {
		return `<domain type="kvm"><name>web</name><uuid>` + id + `</uuid><resource><partition>/machine</partition></resource>
			<os><loader type="pflash">/usr/share/OVMF/OVMF_CODE_4M.fd</loader><nvram template="/usr/share/OVMF/OVMF_VARS_4M.fd">/var/lib/libvirt/qemu/nvram/` + id + `_VARS.fd</nvram></os><devices>
			<emulator>/usr/bin/qemu-system-x86_64</emulator>
			<disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file="/srv/pool/web.qcow2"/><backingStore type="file"><source file="/srv/pool/golden.qcow2"/></backingStore></disk>
			<interface type="network"><source network="default" portid="x" bridge="virbr0"/></interface><interface type="bridge"><source bridge="br0"/></interface>
			<serial type="pty"><source path="/dev/pts/3"/></serial><rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
			<channel type="unix"><source mode="bind" path="/var/lib/libvirt/qemu/channel/target/domain-1-web/org.qemu.guest_agent.0"/></channel>` + more + `</devices></domain>`
	}
	const seedFile = "/var/lib/quantix/seeds/" + id + "/cloudinit-1.iso"
	in := Incoming{
		VM: vm, Dirs: []string{"/srv/pool"}, Disks: map[string]string{"/srv/pool/web.qcow2": "qcow2", "/srv/other/web.raw": "raw"},
		Media: []string{"/srv/pool/tools.iso", "/srv/pool/drivers.img"}, Seed: seedFile,
		Backing: func(disk string) map[string]bool {
			return map[string]map[string]bool{"/srv/pool/web.qcow2": {"/srv/pool/golden.qcow2": false, "/srv/pool/base.raw": true, "/etc/shadow": true}}[disk]
		},
		Network: func(name string) (*libvirtxml.Network, error) {
			vlan := &libvirtxml.NetworkVLAN{Tags: []libvirtxml.NetworkVLANTag{{ID: 42}}}
			return &libvirtxml.Network{Bridge: &libvirtxml.NetworkBridge{Name: "ovs0"}, PortGroups: []libvirtxml.NetworkPortGroup{{Name: "web", VLAN: vlan}}}, nil
		},
	}
	ownDisk := func(more string) string {
		return `<disk type="file"><driver type="qcow2"/><source file="/srv/pool/web.qcow2"/>` + more + `</disk>`
	}
	lan := func(more string) string {
		return `<interface type="bridge"><source network="lan" portgroup="web" portid="x" bridge="ovs0"/>` + more + `</interface>`
	}
	for name, more := range map[string]string{
		"the VM's medium":          `<disk type="file" device="cdrom"><source file="/srv/pool/tools.iso"/></disk>`,
		"the VM's floppy":          `<disk type="file" device="floppy"><driver type="raw"/><source file="/srv/pool/drivers.img"/><readonly/></disk>`,
		"the VM's first-boot data": `<disk type="file" device="cdrom"><driver type="raw"/><source file="` + seedFile + `"/></disk>`,
		"the disk's backing chain": ownDisk(`<backingStore type="file"><format type="qcow2"/><source file="/srv/pool/golden.qcow2"/><backingStore type="file"><format type="raw"/><source file="/srv/pool/base.raw"/><backingStore/></backingStore></backingStore>`),
		"an emulated TPM":          `<tpm model="tpm-crb"><backend type="emulator" version="2.0"/></tpm><rng model="virtio"><backend model="builtin"/></rng>`,
		"the port group's VLAN":    lan(`<vlan><tag id="42"/></vlan>`),
		"a comment":                `<!-- web -->`,
	} {
		if name2, err := in.CheckDefinition(definition(more)); err != nil || name2 != "web" {
			t.Errorf("%s is refused: %q, %v", name, name2, err)
		}
	}
	for name, more := range map[string]string{
		"a file outside the pools":        `<disk type="file"><source file="/etc/shadow"/></disk>`,
		"a relative path as a disk":       `<disk type="file"><source file="etc/shadow"/></disk>`,
		"a relative device":               `<disk type="block"><source dev="dev/vg/other"/></disk>`,
		"a relative path as UEFI":         `</devices><os><loader>etc/shadow</loader></os><devices>`,
		"a relative path as variables":    `</devices><os><nvram template="etc/shadow"/></os><devices>`,
		"another VM's disk":               `<disk type="file"><source file="/srv/pool/db.qcow2"/></disk>`,
		"a raw disk as qcow2":             `<disk type="file"><source file="/srv/other/web.raw"/><driver type="qcow2"/></disk>`,
		"a disk whose format is probed":   `<disk type="file"><source file="/srv/other/web.raw"/></disk>`,
		"another VM's disk after a drive": `<disk type="file" device="cdrom"/><disk type="block" device="disk"><source dev="/srv/pool/db.qcow2"/></disk>`,
		"another VM's disk as a medium":   `<disk type="file" device="cdrom"><source file="/srv/pool/db.qcow2"/></disk>`,
		"another VM's disk as a floppy":   `<disk type="file" device="floppy"><source file="/srv/pool/db.qcow2"/><readonly/></disk>`,
		"a floppy that is writable":       `<disk type="file" device="floppy"><source file="/srv/pool/drivers.img"/></disk>`,
		"a medium as a disk":              `<disk type="file"><source file="/srv/pool/tools.iso"/></disk>`,
		"a medium as qcow2":               `<disk type="file" device="cdrom"><driver type="qcow2"/><source file="/srv/pool/tools.iso"/></disk>`,
		"another VM's first-boot data":    `<disk type="file" device="cdrom"><source file="/var/lib/quantix/seeds/other/cloudinit-1.iso"/></disk>`,
		"another VM's disk as backing":    ownDisk(`<backingStore type="file"><format type="qcow2"/><source file="/srv/pool/db.qcow2"/></backingStore>`),
		"a backing file of no pool":       ownDisk(`<backingStore type="file"><format type="raw"/><source file="/etc/shadow"/></backingStore>`),
		"a raw backing file as qcow2":     ownDisk(`<backingStore type="file"><format type="qcow2"/><source file="/srv/pool/base.raw"/></backingStore>`),
		"a raw backing file, late qcow2":  ownDisk(`<backingStore type="file"><source file="/srv/pool/base.raw"/><format type="raw"/></backingStore>`),
		"a backing file below a medium":   `<disk type="file" device="cdrom"><source file="/srv/pool/tools.iso"/><backingStore type="file"><source file="/srv/pool/golden.qcow2"/></backingStore></disk>`,
		"a backing file by network":       ownDisk(`<backingStore type="network"><source protocol="nbd" name="db"/></backingStore>`),
		"a mirror of another VM":          ownDisk(`<mirror type="file"><source file="/srv/pool/db.qcow2"/></mirror>`),
		"a second source":                 ownDisk(`<source file="/srv/other/web.raw"/>`),
		"a second format":                 ownDisk(`<driver type="raw"/>`),
		"another VM's disk as variables":  `</devices><os><nvram>/srv/pool/db.qcow2</nvram></os><devices>`,
		"a TPM of the host":               `<tpm model="tpm-tis"><backend type="passthrough"/></tpm>`,
		"random numbers of a service":     `<rng model="virtio"><backend model="egd" type="tcp"/></rng>`,
		"another VLAN":                    lan(`<vlan><tag id="7"/></vlan>`),
		"a trunk":                         lan(`<vlan trunk="yes"><tag id="42"/></vlan>`),
		"a VLAN of a bridge":              `<interface type="bridge"><source bridge="br0"/><vlan><tag id="42"/></vlan></interface>`,
		"another port group":              `<interface type="network"><source network="lan" portgroup="management"/></interface>`,
		"another bridge of a network":     `<interface type="bridge"><source network="default" bridge="br-mgmt"/></interface>`,
		"a second name":                   `</devices><name>db</name><devices>`,
		"a second UUID":                   `</devices><uuid>01a22140-f038-7000-9db8-bcbf0307c076</uuid><devices>`,
		"a path that leads out":           `<disk type="file"><source file="/srv/pool/../../etc/shadow"/></disk>`,
		"another VM's NVRAM as a disk":    `<disk type="file"><source file="/var/lib/libvirt/qemu/nvram/db_VARS.fd"/></disk>`,
		"another VM's NVRAM":              `</devices><os><nvram>/var/lib/libvirt/qemu/nvram/db_VARS.fd</nvram></os><devices>`,
		"a volume of any pool":            `<disk type="volume"><source pool="default" volume="db.qcow2"/></disk>`,
		"a disk by network":               `<disk type="network"><source protocol="nbd" name="db"/></disk>`,
		"a physical NIC":                  `<interface type="direct"><source dev="eth0" mode="bridge"/></interface>`,
		"another network":                 `<interface type="network"><source network="management"/></interface>`,
		"another bridge":                  `<interface type="bridge"><source bridge="br-mgmt"/></interface>`,
		"a terminal of the host":          `<serial type="dev"><source path="/dev/pts/0"/></serial>`,
		"a host device":                   `<hostdev mode="subsystem" type="pci"/>`,
		"a shared folder":                 `<filesystem type="mount"><source dir="/srv/pool/x"/></filesystem>`,
		"a program as QEMU":               `<emulator>/usr/bin/python3</emulator>`,
		"QEMU without confinement":        `</devices><seclabel type="none"/><devices>`,
		"QEMU as root":                    `</devices><seclabel type="static" model="dac"><label>+0:+0</label></seclabel><devices>`,
		"options of QEMU":                 `</devices><commandline xmlns="http://libvirt.org/schemas/domain/qemu/1.0"/><devices>`,
	} {
		if _, err := in.CheckDefinition(definition(more)); fleet.CodeOf(err) != fleet.Conflict {
			t.Errorf("%s is accepted: %v", name, err)
		}
		if err := in.CheckCookie([]byte("<qemu-migration><uuid>" + id + "</uuid>" + definition(more) + "</qemu-migration>\x00")); fleet.CodeOf(err) != fleet.Conflict {
			t.Errorf("%s is accepted in a cookie: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"a document type with default values": `<!DOCTYPE domain [<!ATTLIST source file CDATA "/dev/vg/other">]>` + definition(`<disk type="file"><source/></disk>`),
		"a name around a comment":             strings.Replace(definition(""), "<name>web</name>", "<name>web<!-- --> 2</name>", 1),
		"the name of another VM's files":      strings.Replace(definition(""), "<name>web</name>", "<name>01a22140-f038-7000-9db8-bcbf0307c076</name>", 1),
		"another VM":                          strings.Replace(definition(""), id, "01a22140-f038-7000-9db8-bcbf0307c076", 1), "no XML": "<domain", "nothing": "",
	} {
		if _, err := in.CheckDefinition(text); err == nil {
			t.Errorf("%s is accepted", name)
		}
		if err := in.CheckCookie([]byte("<qemu-migration>" + text + "</qemu-migration>")); err == nil && text != "" {
			t.Errorf("%s is accepted in a cookie", name)
		}
	}
	for _, cookie := range []string{"<qemu-migration><name>web</name></qemu-migration>\x00", "<qemu-migration>" + definition("") + "</qemu-migration>"} {
		if err := in.CheckCookie([]byte(cookie)); err != nil {
			t.Errorf("libvirt's cookie is refused: %v", err)
		}
	}
}

func TestReasonAgainstMigrationIsSentence(t *testing.T) {
	t.Parallel()
	const fixed = "Quantix cannot check the VM's definition, so the VM stays on this host."
	for want, err := range map[string]error{
		"": nil, fixed: errors.New("XML syntax error on line 3: unexpected EOF"), "The VM's definition has a host device.": fleet.Errorf(fleet.Conflict, "The VM's definition has a host device."),
	} {
		if is := RefusalReason(err); is != want {
			t.Errorf("the reason for %v is %q, want %q", err, is, want)
		}
	}
}
