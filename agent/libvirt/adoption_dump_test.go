//go:build linux

package libvirt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// virsh dumpxml prints the same before an adoption, after it without the metadata, and after the release. The guest's
// process stays the same.
func TestDumpXMLEqualAfterAdoptionAndRelease(t *testing.T) {
	requireLabHost(t)
	b := openBackend(t)
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: "adopted-" + strconv.Itoa(os.Getpid()), Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: filepath.Join(t.TempDir(), "pool")}}
	if err := b.ApplyPool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { virsh(t, "pool-destroy", p.Name); virsh(t, "pool-undefine", p.Name) })
	for name, metadata := range map[string]bool{"without metadata": false, "with metadata of another program": true} {
		domain := fmt.Sprintf("odd_Name-%t", metadata)
		disk := filepath.Join(p.Spec.Path, domain+".qcow2")
		run(t, "qemu-img", "create", "-f", "qcow2", disk, "4M")
		id := defineAdoptableVM(t, domain, disk, "default")
		if metadata {
			virsh(t, "metadata", domain, "--uri", "http://example.org/app", "--key", "app", "--set", "<x>kept</x>", "--live", "--config")
		}
		pid := guestPID(t, domain)
		dump := func() (out []string) {
			return []string{virsh(t, "dumpxml", domain, "--inactive", "--security-info"), virsh(t, "dumpxml", domain)}
		}
		before := dump()
		read, err := b.ReadUnmanagedVM(t.Context(), id, []fleet.Pool{p})
		if err != nil || len(read.Refusals) > 0 {
			t.Fatalf("%s: %q %v", name, read.Refusals, err)
		}
		if metadata {
			wantVerbatimParts(t, read)
		}
		vm := fleet.VM{Meta: fleet.Meta{ID: id, Name: "odd-name", Generation: 1}, Spec: read.Spec}
		work := hypervisor.ApplyWork{
			VM: vm, Adopted: true, Pools: []fleet.Pool{p}, CreatedDisks: []fleet.Volref{vm.Spec.Disks[0].Ref()}, OwnershipMark: strings.Repeat("m", 32),
			RecordDisk: func(fleet.Volref) error { return nil }, Progress: func(int, string) {},
		}
		for range 2 {
			if err := b.ApplyVM(t.Context(), work); err != nil {
				t.Fatal(err)
			}
		}
		if status, generation, err := b.VM(t.Context(), id); err != nil || generation != 1 || len(status.Drift)+len(status.NextBoot)+len(status.Faults) > 0 {
			t.Errorf("%s: the adopted VM is %+v %v, want no drift, no pending changes and no faults", name, status, err)
		}
		for i, text := range dump() {
			if !strings.Contains(text, "<quantix:vm ") {
				t.Errorf("%s: definition %d has no metadata of Quantix", name, i)
			}
			text = quantixMetadata.ReplaceAllString(text, "")
			if !metadata {
				text = emptyMetadata.ReplaceAllString(text, "")
			}
			wantSameText(t, name+", adopted", text, before[i])
		}
		if err := b.ReleaseVM(t.Context(), vm); err != nil {
			t.Fatal(err)
		}
		after := dump()
		wantSameText(t, name+", released, persistent", after[0], before[0])
		if !metadata { // libvirt keeps an empty element in the definition of the running guest
			after[1] = strings.Replace(after[1], "  <metadata/>\n", "", 1)
		}
		wantSameText(t, name+", released, running", after[1], before[1])
		if now := guestPID(t, domain); now != pid {
			t.Errorf("%s: QEMU is process %s, before the adoption it was %s", name, now, pid)
		}
		virsh(t, "destroy", domain)
	}
}

func wantSameText(t *testing.T, when, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	was, is := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			t.Errorf("%s: line %d is %q, before it was %q", when, i+1, is[i], was[i])
			return
		}
	}
	t.Errorf("%s: %d lines, before there were %d", when, len(is), len(was))
}

// guestPID returns the process of the domain's QEMU.
func guestPID(t *testing.T, domain string) string {
	t.Helper()
	return strings.TrimSpace(string(must(os.ReadFile(filepath.Join("/run/libvirt/qemu", domain+".pid")))))
}

// An edit of the memory of an adopted VM changes the memory, and adds only the aliases of the adopted devices.
func TestEditOfAdoptedVMChangesOnlyItsField(t *testing.T) {
	requireLabHost(t)
	b := openBackend(t)
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: "edited-" + strconv.Itoa(os.Getpid()), Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: filepath.Join(t.TempDir(), "pool")}}
	if err := b.ApplyPool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { virsh(t, "pool-destroy", p.Name); virsh(t, "pool-undefine", p.Name) })
	disk := filepath.Join(p.Spec.Path, "old.qcow2")
	run(t, "qemu-img", "create", "-f", "qcow2", disk, "4M")
	id := defineAdoptableVM(t, "edited-crm", disk, "default")
	virsh(t, "destroy", "edited-crm")
	read, err := b.ReadUnmanagedVM(t.Context(), id, []fleet.Pool{p})
	if err != nil || len(read.Refusals) > 0 {
		t.Fatalf("%q %v", read.Refusals, err)
	}
	vm := fleet.VM{Meta: fleet.Meta{ID: id, Name: "edited-crm", Generation: 1}, Spec: read.Spec}
	apply := func() {
		t.Helper()
		work := hypervisor.ApplyWork{
			VM: vm, Adopted: true, Pools: []fleet.Pool{p}, CreatedDisks: []fleet.Volref{vm.Spec.Disks[0].Ref()},
			RecordDisk: func(fleet.Volref) error { return nil }, Progress: func(int, string) {},
		}
		if err := b.ApplyVM(t.Context(), work); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	before := strings.Split(definitionsOf(t, id)[0], "\n")
	vm.Generation, vm.Spec.MemoryMiB = 2, 160
	apply()
	after := strings.Split(definitionsOf(t, id)[0], "\n")
	var changed []string
	for _, line := range after {
		if !slices.Contains(before, line) {
			changed = append(changed, strings.TrimSpace(line))
		}
	}
	for _, line := range changed {
		if !strings.Contains(line, "163840</") && !strings.Contains(line, "<alias name='ua-quantix-") {
			t.Errorf("the edit of the memory added the line %s", line)
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) && !strings.Contains(line, "131136</") {
			t.Errorf("the edit of the memory removed the line %s", strings.TrimSpace(line))
		}
	}
	if status, _, err := b.VM(t.Context(), id); err != nil || len(status.Drift) > 0 || status.MemoryMiB != 160 {
		t.Errorf("after the edit, the VM is %+v %v", status, err)
	}
}

// wantVerbatimParts checks the list of the parts of adoptableDefinition that no spec expresses.
func wantVerbatimParts(t *testing.T, read fleet.AdoptableVM) {
	t.Helper()
	want := []string{
		"sysinfo: <sysinfo type='smbios'>", "os/smbios: <smbios mode='sysinfo'/>", "features/hyperv: <hyperv mode='custom'>", "clock: <clock offset='localtime'>",
		"on_crash: <on_crash>preserve</on_crash>", "devices/interface: <interface type='user'>", "devices/tpm: <tpm model='tpm-crb'>", "commandline: <qemu:commandline>",
		"cdrom drive sda", "serial ports: 1 port", "sound card: Intel HD Audio (ICH9)",
	}
	for _, part := range want {
		if !slices.Contains(read.Verbatim, part) {
			t.Errorf("the verbatim parts lack %q:\n%s", part, strings.Join(read.Verbatim, "\n"))
		}
	}
	if len(read.Verbatim) > len(want)+2 {
		t.Errorf("the verbatim parts are\n%s", strings.Join(read.Verbatim, "\n"))
	}
}
