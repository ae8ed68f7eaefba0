//go:build linux && ordeal

package libvirt_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// The file of an encrypted disk does not contain the guest's plain data. Only libvirt has the passphrase, which is
// deleted with the volume.
func TestEncryptedDiskHidesContentAndPassphrase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	plain := fleet.Disk{PoolID: f.pool.ID, Volume: "plain-" + vm.Name + ".qcow2", SizeBytes: 8 << 20}
	secret := fleet.Disk{PoolID: f.pool.ID, Volume: "secret-" + vm.Name + ".qcow2", SizeBytes: 8 << 20, Encryption: "luks"}
	vm.Spec.Disks = []fleet.Disk{plain, secret}
	before := virsh(t, "secret-list")
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	xml := virsh(t, "dumpxml", string(vm.ID))
	_, at, ok := strings.Cut(xml, `<secret type='passphrase' uuid='`)
	uuid, _, _ := strings.Cut(at, "'")
	if !ok || !strings.Contains(virsh(t, "secret-list"), uuid) || strings.Contains(before, uuid) {
		t.Fatalf("the disk refers to no secret of the host: %s", xml)
	}
	if text := virsh(t, "secret-dumpxml", uuid); !strings.Contains(text, "ephemeral='no'") || !strings.Contains(text, "private='yes'") {
		t.Errorf("the secret is %s", text)
	}
	if output := virsh(t, "qemu-monitor-command", string(vm.ID), "--pretty", `{"execute":"query-block"}`); !strings.Contains(output, `"format": "luks"`) {
		t.Errorf("QEMU reports %s", output)
	}
	pattern := bytes.Repeat([]byte{0xab}, 512)
	for _, d := range vm.Spec.Disks {
		file := filepath.Join(f.pool.Spec.Path, d.Volume)
		alias := aliasOf(xml, d.Volume)
		output := virsh(t, "qemu-monitor-command", string(vm.ID), "--hmp", "qemu-io -d /machine/peripheral/"+alias+"/virtio-backend \"write -P 0xab 0 1M\"")
		virsh(t, "qemu-monitor-command", string(vm.ID), "--hmp", "qemu-io -d /machine/peripheral/"+alias+"/virtio-backend \"flush\"")
		if strings.Contains(output, "rror") {
			t.Fatal(output)
		}
		data, err := os.ReadFile(file)
		f.requireNoError(err)
		if has := bytes.Contains(data, pattern); has != (d.Encryption == "") {
			t.Errorf("%s: the plain text (%s) is in the file: %t", d.Volume, output, has)
		}
	}
	if info := runOutput(t, "qemu-img", "info", "-U", filepath.Join(f.pool.Spec.Path, secret.Volume)); !strings.Contains(info, "encrypted: yes") {
		t.Errorf("qemu-img reports %s", info)
	}
	f.requireNoError(f.DeleteVM(t.Context(), vm, []fleet.Pool{f.pool}, true))
	if left := virsh(t, "secret-list"); strings.Contains(left, uuid) {
		t.Errorf("the passphrase is left over: %s", left)
	}
}

// aliasOf returns the alias of the definition's disk with that file.
func aliasOf(xml, volume string) string {
	for _, d := range strings.Split(xml, "<disk ")[1:] {
		if strings.Contains(d, volume) {
			_, rest, _ := strings.Cut(d, `<alias name='`)
			alias, _, _ := strings.Cut(rest, "'")
			return alias
		}
	}
	return ""
}
