//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// A guest NUMA node gets its memory from the requested host node, and hot-plugged memory belongs to the requested guest
// node.
func TestRunningGuestHasRequestedNUMANodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.CPUs, vm.Spec.MemoryMiB, vm.Spec.Memory.MaxMiB = 4, 256, 1024
	vm.Spec.NUMA = []fleet.VMNUMANode{{CPUs: "0,2", MemoryMiB: 64, Nodes: "0"}, {CPUs: "1,3", MemoryMiB: 192}}
	f.apply(vm)
	requireValidDefinition(t, vm.ID)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	vm.Generation++
	vm.Spec.MemoryMiB, vm.Spec.NUMA = 384, []fleet.VMNUMANode{{CPUs: "0,2", MemoryMiB: 64, Nodes: "0"}, {CPUs: "1,3", MemoryMiB: 320}}
	f.apply(vm)
	for _, c := range []struct{ how, ask, want string }{
		{"--hmp", "info numa", `(?s)2 nodes.*node 0 cpus: 0 2\s.*node 0 size: 64 MB.*node 1 cpus: 1 3\s.*node 1 size: 320 MB.*node 1 plugged: 128 MB`},
		{"--pretty", `{"execute":"query-memdev"}`, `(?s)"host-nodes":\s*\[\s*0\s*\],[^}]*"id":\s*"ram-node0"`},
		{"--pretty", `{"execute":"query-memdev"}`, `(?s)"host-nodes":\s*\[\s*\],[^}]*"id":\s*"ram-node1"`},
		{"--pretty", `{"execute":"query-memory-devices"}`, `"node":\s*1`},
	} {
		if out := virsh(t, "qemu-monitor-command", string(vm.ID), c.how, c.ask); !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("%s: want %q in QEMU's output: %s", c.ask, c.want, out)
		}
	}
}

// requireValidDefinition checks the VM's definition against libvirt's schema.
func requireValidDefinition(t *testing.T, id fleet.VMID) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "vm.xml")
	if err := os.WriteFile(file, []byte(virsh(t, "dumpxml", "--inactive", "--security-info", string(id))), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, "define", "--validate", file)
}

// A host without memory encryption reports a gap in its inventory, and an apply with encryption fails.
func TestConfidentialVMRefusedWithoutHostSupport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, kind := range fleet.ConfidentialKinds[1:] {
		vm := f.newVM()
		vm.Spec.Firmware, vm.Spec.Security.Confidential = fleet.UEFI, kind.Value
		state, err := f.HostState(t.Context(), hypervisor.Assignment{})
		f.requireNoError(err)
		gap := slices.IndexFunc(state.Host.Inventory.VMGaps, func(g fleet.VMGap) bool { return g.Field == "security.confidential" && g.Value == kind.Value })
		err = f.ApplyVM(t.Context(), hypervisor.ApplyWork{VM: vm, Pools: []fleet.Pool{f.pool}, Progress: func(int, string) {}})
		if gap < 0 || err == nil {
			t.Errorf("%s: index %d in the host's gaps, apply: %v", kind.Value, gap, err)
		}
		if s, _, err := f.VM(t.Context(), vm.ID); err != nil || s.Power != fleet.Absent {
			t.Errorf("%s: the refused VM left %+v, %v", kind.Value, s, err)
		}
		t.Log(kind.Value, err)
	}
}
