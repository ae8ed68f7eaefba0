//go:build linux && ordeal

package libvirt_test

import (
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
		}
	}
	conformance.RunTwoHosts(t, p)
}
