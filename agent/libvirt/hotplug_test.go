//go:build linux && ordeal

package libvirt_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// The test needs a Linux guest, because a machine without an operating system ignores hot-plug and hot-unplug.
func TestNICsAreHotPluggedAndUnplugged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	f.requireNoError(err)
	run(t, "cp", guest.ISO, filepath.Join(f.pool.Spec.Path, "guest.iso"))
	vm := f.newVM()
	id := string(vm.ID)
	vm.Spec.ISO = &fleet.Volref{PoolID: f.pool.ID, Volume: "guest.iso"}
	first, second := fleet.NIC{Network: "default", MAC: "52:54:00:0a:00:01"}, fleet.NIC{Network: "default", MAC: "52:54:00:0a:00:02"}
	vm.Spec.NICs = []fleet.NIC{first}
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	edit := func(nics ...fleet.NIC) fleet.VMStatus {
		t.Helper()
		vm.Generation++
		vm.Spec.NICs = nics
		f.apply(vm)
		s, _, err := f.VM(t.Context(), vm.ID)
		f.requireNoError(err)
		return s
	}
	// A guest whose firmware still runs accepts a NIC, but does not release one. The unplug is pending until the guest
	// releases the NIC.
	if s := edit(first, second); len(s.NICs) != 2 || len(s.NextBoot) != 0 {
		t.Fatalf("with a second NIC: %+v", s)
	}
	links := func() string {
		out, _ := tryVirsh("qemu-agent-command", id, `{"execute":"guest-network-get-interfaces"}`)
		return out
	}
	waitFor(t, "the guest sees both NICs", func() bool { return strings.Contains(links(), first.MAC) && strings.Contains(links(), second.MAC) })
	xml := virsh(t, "dumpxml", id)
	if virsh(t, "domif-getlink", id, second.MAC); strings.Count(virsh(t, "domiflist", id, "--inactive"), "52:54:00:0a") != 2 {
		t.Errorf("the definition lost the NICs:\n%s", xml)
	}
	virsh(t, "attach-interface", id, "network", "default", "--mac", "52:54:00:0a:00:09", "--model", "virtio", "--live", "--config")
	s := edit(second)
	if len(s.NICs) != 2 || len(s.NextBoot) != 0 || s.NICs[0].MAC != second.MAC || s.NICs[1].MAC != "52:54:00:0a:00:09" {
		t.Fatalf("without the first NIC, and with one that an administrator added: %+v", s)
	}
	if got := links(); strings.Contains(got, first.MAC) || !strings.Contains(got, second.MAC) {
		t.Errorf("the guest sees %s", got)
	}
	if s := edit(); len(s.NICs) != 1 || s.NICs[0].MAC != "52:54:00:0a:00:09" || len(s.NextBoot) != 0 {
		t.Errorf("without the spec's NICs: %+v", s)
	}
	// If no PCI port is free, a NIC is added at the next start.
	var many []fleet.NIC
	for i := range 8 {
		many = append(many, fleet.NIC{Network: "default", MAC: fmt.Sprintf("52:54:00:0a:01:%02d", i)})
	}
	if s := edit(many...); len(s.NICs) < 4 || len(s.NICs) > 8 || !slices.Equal(s.NextBoot, []string{"nics"}) {
		t.Errorf("with more NICs than free ports: %+v", s)
	}
	f.requireNoError(f.StopVM(t.Context(), vm.ID))
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	if s, _, err := f.VM(t.Context(), vm.ID); err != nil || len(s.NICs) != 9 || len(s.NextBoot) != 0 {
		t.Errorf("after the next start: %+v %v", s, err)
	}
}

// An emulated guest with secure boot would hang after vCPU hot-plug. The vCPU waits for the next start, and the host
// reports the limit in advance.
func TestVCPUHotPlugDeferredForEmulatedSecureBootGuest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.Firmware, vm.Spec.Security.SecureBoot, vm.Spec.CPU.Max, vm.Spec.Memory.MaxMiB = fleet.UEFI, true, 2, 512
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	vm.Generation, vm.Spec.CPUs, vm.Spec.MemoryMiB = 2, 2, 256
	f.apply(vm)
	s, _, err := f.VM(t.Context(), vm.ID)
	f.requireNoError(err)
	if s.CPUs != 1 || s.MaxCPUs != 0 || s.MemoryMiB != 256 || s.MaxMemory != 512 || !slices.Equal(s.NextBoot, []string{"cpus"}) || len(s.Drift) != 0 {
		t.Errorf("with a vCPU that waits for the next start: %+v", s)
	}
}
