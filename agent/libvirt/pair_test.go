//go:build linux && ordeal

package libvirt_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/hypervisor/conformance"
	"quantix/agent/libvirt"
	"quantix/agent/libvirt/firmware"
	"quantix/agent/state"
	"quantix/internal/fleet"
)

// coldAdoptableDefinition is a definition that another host can have, with settings that no spec expresses, UEFI and a TPM.
const coldAdoptableDefinition = `<domain type='qemu'>
  <name>%s</name>
  <title>Büro &lt;CRM&gt;</title>
  <metadata><app:x xmlns:app="http://example.org/app">kept</app:x></metadata>
  <memory unit='KiB'>131136</memory>
  <vcpu>1</vcpu>
  <sysinfo type='smbios'><bios><entry name='vendor'>Old &amp; Sons</entry></bios></sysinfo>
  <os><type arch='x86_64' machine='q35'>hvm</type><boot dev='network'/><boot dev='hd'/><smbios mode='sysinfo'/></os>
  <features><acpi/><apic/><hyperv><relaxed state='on'/></hyperv></features>
  <clock offset='localtime'><timer name='rtc' tickpolicy='catchup'/></clock>
  <on_crash>preserve</on_crash>
  <devices>
    <disk type='file'><driver name='qemu' type='qcow2' cache='writeback'/><source file='%s'/><target dev='vda' bus='virtio'/><serial>OLD1</serial></disk>
    <disk type='file' device='cdrom'><driver name='qemu' type='raw'/><target dev='sda' bus='sata'/><readonly/></disk>
    <serial type='pty'/>
    <serial type='pty'/>
    <sound model='ich9'/>
    <graphics type='vnc' passwd='secret'><listen type='socket'/></graphics>
    <tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>
  </devices>
  %s
</domain>`

// TestTwoHostConformance runs the two-host suite. The lab hosts share all files except libvirt's own.
func TestTwoHostConformance(t *testing.T) {
	requireLabHost(t)
	sockets := strings.Fields(os.Getenv(insideLabHostEnv))
	uri := func(host int) string { return "qemu+unix:///system?socket=" + sockets[host] }
	p := conformance.HostPair{Migrate: func(t *testing.T, id fleet.VMID, from, to int, leave bool) {
		t.Helper()
		how := []string{"migrate", "--live", "--p2p", "--unsafe", "--persistent", string(id), uri(to)}
		if !leave {
			how = append(how, "--undefinesource")
		}
		if _, err := virshAt(uri(from), how...); err != nil {
			t.Fatal(err)
		}
	}}
	p.KillGuest = func(t *testing.T, id fleet.VMID, host int) {
		if _, err := virshAt(uri(host), "destroy", string(id)); err != nil {
			t.Error(err)
		}
	}
	p.FirmwareFiles = func(_ *testing.T, id fleet.VMID, host int) (variables, tpm string) {
		lib := []string{"/var/lib/libvirt", filepath.Join(sockets[1], "../../lib")}[host]
		return filepath.Join(lib, "qemu/nvram", string(id)+"_VARS.fd"), filepath.Join(lib, "swtpm", string(id), "tpm2/tpm2-00.permall")
	}
	p.UndefineKeepingFirmware = func(t *testing.T, id fleet.VMID, host int) {
		if _, err := virshAt(uri(host), "undefine", string(id), "--keep-nvram", "--keep-tpm"); err != nil {
			t.Fatal(err)
		}
	}
	p.AddForeignMedium = func(t *testing.T, id fleet.VMID, host int) {
		file := filepath.Join(t.TempDir(), "other.iso")
		if err := os.WriteFile(file, []byte("medium"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := virshAt(uri(host), "attach-disk", string(id), file, "sdz", "--type", "cdrom", "--targetbus", "sata", "--config"); err != nil {
			t.Fatal(err)
		}
	}
	p.Firmware = func(t *testing.T, id fleet.VMID, host int) string {
		t.Helper()
		var all []byte
		variables, tpm := p.FirmwareFiles(t, id, host)
		for _, file := range []string{variables, tpm} {
			text, err := os.ReadFile(file)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		return string(all)
	}
	p.HasReceivedFirmware = func(id fleet.VMID, host int) bool {
		lib := []string{"/var/lib/libvirt", filepath.Join(sockets[1], "../../lib")}[host]
		_, err := os.Stat(filepath.Join(lib, "quantix/firmware", string(id)+".json"))
		return err == nil
	}
	p.ChangeFirmware = func(t *testing.T, id fleet.VMID, host int) {
		t.Helper()
		variables, _ := p.FirmwareFiles(t, id, host)
		file := must(os.OpenFile(variables, os.O_RDWR, 0))
		defer file.Close()
		const unused = 0x40900 // no firmware uses this part
		var mark [1]byte
		must(file.ReadAt(mark[:], unused))
		mark[0]++
		must(file.WriteAt(mark[:], unused))
	}
	p.DefineAdoptable = func(t *testing.T, d conformance.AdoptableDomain) fleet.VMID {
		file := filepath.Join(t.TempDir(), "domain.xml")
		text := fmt.Sprintf(coldAdoptableDefinition, d.Name, d.Disk, d.More)
		if d.UEFI {
			text = strings.Replace(text, "<os>", "<os firmware='efi'><firmware><feature enabled='no' name='enrolled-keys'/><feature enabled='no' name='secure-boot'/></firmware>", 1)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		virsh(t, "define", file)
		return fleet.VMID(virsh(t, "domuuid", d.Name))
	}
	p.PersistentDefinition = func(t *testing.T, id fleet.VMID, host int) string {
		t.Helper()
		text := must(virshAt(uri(host), "dumpxml", string(id), "--inactive", "--security-info"))
		return emptyMetadata.ReplaceAllString(quantixMetadata.ReplaceAllString(text, ""), "")
	}
	changeSent := func(sent []byte, old, changed string) []byte {
		var state firmware.State
		if err := json.Unmarshal(sent, &state); err != nil {
			t.Fatal(err)
		}
		state.Definition = strings.Replace(state.Definition, old, changed, 1)
		return must(state.Encode())
	}
	p.AddToSentDefinition = func(sent []byte, more string) []byte { return changeSent(sent, "</devices>", more+"</devices>") }
	p.AddMarkToSentDefinition = func(sent []byte, mark string) []byte {
		return changeSent(sent, "</quantix:vm>", "<quantix:mark>"+mark+"</quantix:mark></quantix:vm>")
	}
	for i, socket := range []string{libvirt.DefaultSocket, sockets[1]} {
		known := must(state.OpenPoolRecords("")) // one PoolBook for each host's agent
		p.Hosts[i] = conformance.Harness{
			Open: func(t *testing.T) hypervisor.Hypervisor {
				lib := ""
				if i > 0 {
					lib = filepath.Join(socket, "../../lib")
				}
				return openBackendWith(t, libvirt.Options{Socket: socket, PoolBook: known, Firmware: firmware.Files{Lib: lib}})
			},
			PoolPath: func(t *testing.T) string { return filepath.Join(t.TempDir(), "pool") },
			PowerOf:  func(t *testing.T, id fleet.VMID) fleet.Power { return powerOfDomainAt(t, uri(i), id) },
			WriteDisk: func(t *testing.T, path string, b byte) { // takes seconds to copy at 1 MiB/s
				t.Helper()
				run(t, "qemu-io", "-f", diskFormat(path), "-c", fmt.Sprintf("write -P %d 0 4M", b), path)
			},
			ReadDisk: readDisk,
			UndefineVM: func(t *testing.T, id fleet.VMID) {
				t.Helper()
				must(virshAt(uri(i), "undefine", string(id)))
			},
		}
	}
	conformance.RunTwoHosts(t, p)
}
