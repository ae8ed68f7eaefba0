package conformance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// conditionTimeout is the suite's longest wait for a condition.
const conditionTimeout = 30 * time.Second

// testTimeout is the time limit of one case. QEMU needs seconds of CPU time to open an encrypted disk, and parallel
// cases share the CPUs with all emulated guests. A case that takes half a minute alone may then take minutes.
const testTimeout = 10 * time.Minute

// testHost is an open backend with the test's own pools and VMs. The test's cleanup removes the pools and VMs.
type testHost struct {
	hypervisor.Hypervisor
	harness Harness
	t       *testing.T
	ctx     context.Context // ends before the test's limit, so that a hang fails at a known line
	pools   []fleet.Pool
}

func openTestHost(t *testing.T, h Harness) *testHost {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	hv := h.Open(t)
	t.Cleanup(func() {
		if err := hv.Close(); err != nil {
			t.Errorf("close the backend: %v", err)
		}
	})
	return &testHost{Hypervisor: hv, harness: h, t: t, ctx: ctx}
}

// uniqueName returns a name that no other test uses.
func uniqueName(prefix string) string {
	id := string(fleet.NewID[fleet.VMID]())
	return prefix + "-" + id[len(id)-12:]
}

// uniqueMAC returns a MAC address that no other test uses.
func uniqueMAC() string {
	id := string(fleet.NewID[fleet.VMID]())
	id = id[len(id)-6:]
	return "52:54:00:" + id[0:2] + ":" + id[2:4] + ":" + id[4:6]
}

// newVM returns a small VM that is not on the host yet. The test's cleanup deletes the VM with its disks.
func (h *testHost) newVM(disks ...fleet.Disk) fleet.VM {
	h.t.Helper()
	vm := fleet.VM{
		Meta: fleet.Meta{ID: fleet.NewID[fleet.VMID](), Name: uniqueName("vm"), Generation: 1},
		Spec: fleet.VMSpec{Power: fleet.Stopped, CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS, Disks: disks},
	}
	h.cleanup("delete "+vm.Name, func(ctx context.Context) error { return h.DeleteVM(ctx, vm, h.pools, true) })
	return vm
}

// definedVM returns a VM that is defined on the host.
func (h *testHost) definedVM(disks ...fleet.Disk) fleet.VM {
	h.t.Helper()
	vm := h.newVM(disks...)
	h.apply(vm)
	return vm
}

// runningVM returns a running VM.
func (h *testHost) runningVM(disks ...fleet.Disk) fleet.VM {
	h.t.Helper()
	vm := h.definedVM(disks...)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	return vm
}

// newPool returns a directory pool on the host. The test's cleanup releases the pool.
func (h *testHost) newPool() fleet.Pool {
	h.t.Helper()
	p := fleet.Pool{
		ID: fleet.NewID[fleet.PoolID](), Name: uniqueName("pool"), Generation: 1,
		Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: h.harness.PoolPath(h.t)},
	}
	h.pools = append(h.pools, p)
	h.cleanup("release "+p.Name, func(ctx context.Context) error { return h.ReleasePool(ctx, p) })
	h.requireNoError("apply pool", h.ApplyPool(h.ctx, p))
	return p
}

// newDisk returns an empty disk of 8 MiB in the pool.
func newDisk(p fleet.Pool) fleet.Disk {
	return fleet.Disk{PoolID: p.ID, Volume: uniqueName("disk") + ".qcow2", SizeBytes: 8 << 20}
}

func (h *testHost) cleanup(act string, f func(context.Context) error) {
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), conditionTimeout)
		defer cancel()
		if err := f(ctx); err != nil {
			h.t.Errorf("cleanup: %s: %v", act, err)
		}
	})
}

func (h *testHost) requireNoError(act string, err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("%s: %v", act, err)
	}
}

// requireRefusal fails the test unless err contains word.
func (h *testHost) requireRefusal(act string, err error, word string) {
	h.t.Helper()
	switch {
	case err == nil:
		h.t.Fatalf("%s: was not refused", act)
	case !strings.Contains(err.Error(), word):
		h.t.Fatalf("%s: the refusal does not mention %q: %v", act, word, err)
	}
}

// requireNoNameOf fails the test if the text of err contains the name of another VM.
func (h *testHost) requireNoNameOf(act string, err error, other fleet.VM) {
	h.t.Helper()
	if err != nil && (strings.Contains(err.Error(), other.Name) || strings.Contains(err.Error(), string(other.ID))) {
		h.t.Errorf("%s: the error names another VM: %v", act, err)
	}
}

func (h *testHost) apply(vm fleet.VM) {
	h.t.Helper()
	h.requireNoError("apply "+vm.Name, h.ApplyVM(h.ctx, h.applyJob(vm)))
}

// applyJob returns the job to apply a VM without created disks.
func (h *testHost) applyJob(vm fleet.VM) hypervisor.ApplyWork {
	return hypervisor.ApplyWork{
		VM: vm, Project: "tests", Pools: h.pools, Progress: func(int, string) {}, RecordDisk: func(fleet.Volref) error { return nil },
	}
}

// changedJob returns a changed copy of the job.
func changedJob(in hypervisor.ApplyWork, f func(*hypervisor.ApplyWork)) hypervisor.ApplyWork {
	f(&in)
	return in
}

// wantStatus returns the VM's status from the backend. It fails the test unless the definition has the wanted
// generation.
func (h *testHost) wantStatus(id fleet.VMID, wanted int64) fleet.VMStatus {
	h.t.Helper()
	s, generation, err := h.VM(h.ctx, id)
	h.requireNoError("read the VM", err)
	if generation != wanted {
		h.t.Fatalf("generation is %d, want %d", generation, wanted)
	}
	return s
}

func (h *testHost) wantPower(id fleet.VMID, want fleet.Power) fleet.VMStatus {
	h.t.Helper()
	s, _, err := h.VM(h.ctx, id)
	h.requireNoError("read the VM", err)
	if s.Power != want {
		h.t.Fatalf("power is %q (%s), want %q", s.Power, s.Reason, want)
	}
	return s
}

func (h *testHost) hostState(pools ...fleet.Pool) wire.State {
	h.t.Helper()
	s, err := h.HostState(h.ctx, hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: pools}})
	h.requireNoError("snapshot", err)
	return s
}

// reportedVM returns the VM's entry in the host state.
func (h *testHost) reportedVM(id fleet.VMID) (wire.VMReport, bool) {
	h.t.Helper()
	return find(h.hostState(h.pools...).VMs, func(r wire.VMReport) bool { return r.ID == id })
}

// poolStatus returns the assigned pool's entry in the host state.
func (h *testHost) poolStatus(p fleet.Pool) fleet.PoolStatus {
	h.t.Helper()
	r, ok := find(h.hostState(p).Pools, func(r wire.PoolReport) bool { return r.Name == p.Name })
	if !ok {
		h.t.Fatalf("the assigned pool %s is missing in the host state", p.Name)
	}
	return r.Status
}

func (h *testHost) reportedVolume(p fleet.Pool, name string) (fleet.Volume, bool) {
	h.t.Helper()
	return find(h.poolStatus(p).Volumes, func(v fleet.Volume) bool { return v.Name == name })
}

// waitUntil polls every 50 ms until ok returns true.
func (h *testHost) waitUntil(what string, ok func() bool) {
	h.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-h.ctx.Done():
			h.t.Fatalf("%s: did not happen in time", what)
		case <-tick.C:
		}
	}
}

func find[T any](all []T, is func(T) bool) (T, bool) {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	var none T
	return none, false
}
