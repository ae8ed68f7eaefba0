//go:build linux

package libvirt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// adoptableDefinition is a definition as an administrator of years ago would have written it: with settings that no spec
// expresses, a long description and odd characters.
const adoptableDefinition = `<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>%s</name>
  <title>Büro &lt;CRM&gt; &amp; "Lager"</title>
  <description>%s</description>
  <memory unit='KiB'>131136</memory>
  <vcpu>1</vcpu>
  <sysinfo type='smbios'><bios><entry name='vendor'>Old &amp; Sons</entry></bios></sysinfo>
  <os><type arch='x86_64' machine='q35'>hvm</type><boot dev='network'/><boot dev='hd'/><smbios mode='sysinfo'/></os>
  <features><acpi/><apic/><hyperv><relaxed state='on'/></hyperv></features>
  <clock offset='localtime'><timer name='rtc' tickpolicy='catchup'/></clock>
  <on_crash>preserve</on_crash>
  <devices>
    %s
    <disk type='file' device='cdrom'><driver name='qemu' type='raw'/><target dev='sda' bus='sata'/><readonly/></disk>
    <interface type='user'><mac address='52:54:00:aa:bb:cc'/><model type='rtl8139'/></interface>
    %s
    <serial type='pty'/>
    <serial type='pty'/>
    <sound model='ich9'/>
    <graphics type='vnc'><listen type='socket'/></graphics>
    <tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>
  </devices>
  <qemu:commandline><qemu:arg value='-name'/><qemu:arg value='process=odd'/></qemu:commandline>
</domain>`

// defineAdoptableVM defines and starts a domain as virsh does.
func defineAdoptableVM(t *testing.T, name, disk, network string) fleet.VMID {
	t.Helper()
	disks, nics := "", ""
	if disk != "" {
		disks = "<disk type='file'><driver name='qemu' type='qcow2' cache='writeback'/><source file='" + disk + "'/><target dev='vda' bus='virtio'/><serial>OLD1</serial></disk>"
	}
	if network != "" {
		nics = "<interface type='network'><mac address='" + conformanceMAC(name) + "'/><source network='" + network + "'/><model type='virtio'/></interface>"
	}
	xml := filepath.Join(t.TempDir(), "domain.xml")
	text := fmt.Sprintf(adoptableDefinition, name, strings.Repeat("Aufträge. ", 1000), disks, nics)
	if network == "" { // the twin of a test is only defined: it would take the disk's lock
		text = strings.Replace(text, "52:54:00:aa:bb:cc", "52:54:00:aa:bb:cd", 1)
	}
	if err := os.WriteFile(xml, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, "define", xml)
	id := fleet.VMID(virsh(t, "domuuid", name))
	t.Cleanup(func() { virsh(t, "undefine", string(id), "--nvram") })
	if network != "" {
		virsh(t, "start", name)
		t.Cleanup(func() {
			if powerOf(t, id) != fleet.Stopped {
				virsh(t, "destroy", string(id))
			}
		})
	}
	return id
}

// conformanceMAC returns a MAC address that depends on the name only.
func conformanceMAC(name string) string {
	sum := 0
	for _, b := range []byte(name) {
		sum = (sum*31 + int(b)) & 0xffffff
	}
	return fmt.Sprintf("52:54:01:%02x:%02x:%02x", sum>>16, sum>>8&0xff, sum&0xff)
}

var (
	quantixMetadata = regexp.MustCompile(`(?s) *<quantix:vm .*?</quantix:vm>\n`)
	emptyMetadata   = regexp.MustCompile(`  <metadata>\s*</metadata>\n|  <metadata/>\n`)
)

// definitionsOf returns the persistent and the running definition, without Quantix metadata and without the metadata
// element that libvirt keeps around it.
func definitionsOf(t *testing.T, id fleet.VMID) []string {
	t.Helper()
	out := []string{virsh(t, "dumpxml", string(id), "--inactive", "--security-info")}
	if powerOf(t, id) == fleet.Running {
		out = append(out, virsh(t, "dumpxml", string(id)))
	}
	for i, text := range out {
		out[i] = emptyMetadata.ReplaceAllString(quantixMetadata.ReplaceAllString(text, ""), "")
	}
	return out
}
