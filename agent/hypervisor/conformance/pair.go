package conformance

import (
	"context"
	"reflect"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// HostPair gives the suite two hosts with the same storage, and a function to migrate guests between them.
type HostPair struct {
	// Hosts are two hosts with the same storage. The suite uses only Open, PowerOf, PoolPath, WriteDisk and ReadDisk of
	// each Harness. A PoolPath of the first host must be the same directory on both hosts.
	Hosts [2]Harness

	// Migrate moves a running guest with its definition to the other host, like virsh migrate, and returns after the
	// migration. If keepDefinition is set, the first host also keeps the definition.
	Migrate func(t *testing.T, id fleet.VMID, from, to int, keepDefinition bool)

	// KillGuest forces off the guest of the VM on a host, also an incoming one. Optional.
	KillGuest func(t *testing.T, id fleet.VMID, host int)

	// Firmware returns the content of the VM's UEFI variables and TPM state on a host; empty: it has neither.
	// ChangeFirmware changes both a little. HasReceivedFirmware reports whether the host stores state that another host has
	// sent and that is not in place yet.
	Firmware       func(t *testing.T, id fleet.VMID, host int) string
	ChangeFirmware func(t *testing.T, id fleet.VMID, host int)

	HasReceivedFirmware func(id fleet.VMID, host int) bool

	// AddForeignMedium adds a drive, whose medium is in none of the VM's pools, to the VM's definition for the next start.
	// Optional.
	AddForeignMedium func(t *testing.T, id fleet.VMID, host int)

	// UndefineKeepingFirmware removes the VM's definition, but not its UEFI variables and TPM state. Optional.
	UndefineKeepingFirmware func(t *testing.T, id fleet.VMID, host int)

	// DefineAdoptable creates a domain that is off on the first host, without Quantix metadata, and with parts that no spec
	// expresses. PersistentDefinition returns a VM's definition on a host, without Quantix's metadata.
	DefineAdoptable      func(t *testing.T, d AdoptableDomain) fleet.VMID
	PersistentDefinition func(t *testing.T, id fleet.VMID, host int) string

	// AddToSentDefinition adds XML, below the element devices, to the definition in a state that a host sends. Optional.
	AddToSentDefinition func(state []byte, more string) []byte
	// AddMarkToSentDefinition sets the ownership mark of the definition in a state that a host sends. Optional.
	AddMarkToSentDefinition func(state []byte, mark string) []byte

	// FirmwareFiles returns the paths of the files on a host with the VM's UEFI variables and TPM state. Optional.
	FirmwareFiles func(t *testing.T, id fleet.VMID, host int) (variables, tpm string)
}

// AdoptableDomain is a domain of HostPair.DefineAdoptable.
type AdoptableDomain struct {
	Name, Disk string
	UEFI       bool   // the file of its variables is named after the domain
	More       string // XML of further parts, below the element domain
}

// RunTwoHosts tests the guarantees of hypervisor.Hypervisor for one VM on two hosts.
func RunTwoHosts(t *testing.T, p HostPair) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *twoHosts)
	}{
		{"a VM is reported only by the host that has it", testVMOnOneHost},
		{"a guest migrated outside Quantix is unchanged on the other host", testMigratedOutsideQuantix},
		{"applying a migrated guest changes nothing", testApplyAfterMigration},
		{"a guest that runs on the other host is not started", testStartOnSecondHost},
		{"deleting a leftover definition leaves the guest running", testDeleteLeftoverDefinition},
		{"a leftover definition reports its missing disk", testDeleteOnSecondHost},
		{"a live migration moves the guest with its definition", testLiveMigration},
		{"a cancelled live migration leaves the guest on its host", testCancelledLiveMigration},
		{"a refused live migration leaves the guest on its host", testLiveMigrationRefusals},
		{"a live migration without a connection leaves the guest on its host", testUnreachableTarget},
		{"a live migration whose connection is cut leaves the guest on its host", testCutLiveMigration},
		{"an interrupted live migration names the state of the guest on its host", testInterruptedLiveMigration},
		{"a live migration cut at any message leaves the guest on one host", testLiveMigrationCutAtEachMessage},
		{"a live migration cut at any write leaves the guest on one host", testLiveMigrationCutAtEachWrite},
		{"a host that lies during a live migration is refused", testLyingHosts},
		{"a guest killed during a live migration is not replaced", testKilledGuest},
		{"a live migration to an unrelated program leaves the guest on its host", testUnrelatedPeer},
		{"a live migration has options", testLiveMigrationOptions},
		{"a live migration with post-copy moves the guest or is refused", testPostCopy},
		{"a live migration with a refused definition for the next start leaves the guest on its host", testLiveMigrationOfRefusedDefinition},
		{"a live migration that exceeds its time limit is cancelled or pauses the guest", testLiveMigrationTimeLimit},
		{"invalid options of a live migration are refused", testLiveMigrationOptionsRefused},
		{"a live migration moves UEFI variables and TPM state", testLiveMigrationOfFirmwareState},
		{"a cold migration moves UEFI variables and TPM state", testColdMigrationOfFirmwareState},
		{"a cold migration of a VM that never ran creates its firmware state on the other host", testColdMigrationWithoutFirmwareState},
		{"a cold migration of changed firmware state leaves the VM on its host", testColdMigrationOfChangedFirmwareState},
		{"a cold migration interrupted without its definition removes only sent firmware state", testColdMigrationResumedWithoutDefinition},
		{"a refused cold migration leaves the firmware state on its host", testColdMigrationOfFirmwareStateRefused},
		{"a cold migration moves the definition of an adopted VM", testColdMigrationOfAdoptedVM},
		{"a cold migration moves the disks and UEFI variables of an adopted VM", testColdMigrationOfAdoptedDisks},
		{"a cold migration moves an adopted VM with a new definition and without its ownership mark", testColdMigrationOfRecreatedVM},
		{"a refused cold migration leaves an adopted VM on its host", testColdMigrationOfAdoptedVMRefused},
		{"a live migration copies the disks of local pools", testLiveMigrationOfLocalDisks},
		{"a failed live migration removes the copies of local disks", testFailedLiveMigrationOfLocalDisks},
		{"a live migration never overwrites a file", testLiveMigrationToTakenName},
		{"disks that cannot be copied are refused before a live migration", testLiveMigrationDiskRefusals},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, &twoHosts{HostPair: p, first: openTestHost(t, p.Hosts[0]), second: openTestHost(t, p.Hosts[1])})
		})
	}
}

// twoHosts has two open backends.
type twoHosts struct {
	HostPair
	first, second *testHost

	local map[fleet.PoolID]fleet.Pool // the second host's pool for the disks of each local pool of the first host
}

// guestOwnershipMark is the ownership mark of the suite's guests.
const guestOwnershipMark = "30112233445566778899aabbccddeeff"

// newRunningGuest returns a VM that runs on the first host, with an ownership mark and with a disk on the shared
// storage.
func (p *twoHosts) newRunningGuest() fleet.VM {
	p.first.t.Helper()
	vm := p.first.newVM(newDisk(p.newSharedPool()))
	p.second.cleanup("delete "+vm.Name, func(ctx context.Context) error { return p.second.DeleteVM(ctx, vm, p.second.pools, false) })
	p.first.requireNoError("apply", p.first.ApplyVM(p.first.ctx, changedJob(p.first.applyJob(vm), func(in *hypervisor.ApplyWork) { in.OwnershipMark = guestOwnershipMark })))
	p.first.requireNoError("start", p.first.StartVM(p.first.ctx, vm.ID))
	return vm
}

// newSharedPool returns a directory pool on both hosts with the same files.
func (p *twoHosts) newSharedPool() fleet.Pool {
	p.first.t.Helper()
	pool := fleet.Pool{
		ID: fleet.NewID[fleet.PoolID](), Name: uniqueName("pool"), Generation: 1,
		Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: p.first.harness.PoolPath(p.first.t), Shared: true},
	}
	for _, h := range []*testHost{p.first, p.second} {
		h.pools = append(h.pools, pool)
		h.cleanup("release "+pool.Name, h.releaseFunc(pool))
		h.requireNoError("apply pool", h.ApplyPool(h.ctx, pool))
	}
	return pool
}

// migratedGuest returns a guest that somebody migrated to the second host outside Quantix.
func (p *twoHosts) migratedGuest(leave bool) (fleet.VM, fleet.VMStatus) {
	p.first.t.Helper()
	vm := p.newRunningGuest()
	p.Migrate(p.first.t, vm.ID, 0, 1, leave)
	return vm, p.second.wantPower(vm.ID, fleet.Running)
}

// wantAbsent fails the test if the host knows the VM.
func (h *testHost) wantAbsent(id fleet.VMID) {
	h.t.Helper()
	h.wantPower(id, fleet.Absent)
	if r, ok := h.reportedVM(id); ok {
		h.t.Fatalf("the VM is reported as %+v", r)
	}
	if got := h.harness.PowerOf(h.t, id); got != fleet.Absent {
		h.t.Fatalf("the host itself reports %q", got)
	}
}

// wantSameStatus fails the test unless the guest's status is unchanged.
func (h *testHost) wantSameStatus(when string, id fleet.VMID, before fleet.VMStatus) {
	h.t.Helper()
	if after := h.wantPower(id, fleet.Running); !reflect.DeepEqual(before, after) {
		h.t.Errorf("%s, the guest's status changed from\n%+v to\n%+v", when, before, after)
	}
}

func testVMOnOneHost(t *testing.T, p *twoHosts) {
	vm := p.newRunningGuest()
	p.first.wantOwnershipMark("on its host", vm.ID, guestOwnershipMark)
	p.second.wantAbsent(vm.ID)
	for act, err := range map[string]error{"start": p.second.StartVM(p.second.ctx, vm.ID), "mark": p.second.SetOwnershipMark(p.second.ctx, vm.ID, guestOwnershipMark)} {
		if err == nil {
			t.Errorf("%s succeeded on a host without the VM", act)
		}
	}
	p.second.wantAbsent(vm.ID)
	if v, ok := p.second.reportedVolume(p.second.pools[0], vm.Spec.Disks[0].Volume); !ok || len(v.UsedBy) > 0 {
		t.Errorf("the second host reports the disk as %+v, %v, want a volume without users", v, ok)
	}
}

func testMigratedOutsideQuantix(t *testing.T, p *twoHosts) {
	vm, _ := p.migratedGuest(true)
	whole := func(h *testHost, power fleet.Power) {
		t.Helper()
		r, ok := h.reportedVM(vm.ID)
		if !ok || r.Name != vm.Name || r.Generation != vm.Generation || r.Proof != wire.OwnershipProof(vm.ID, guestOwnershipMark) || r.Status.Power != power {
			t.Fatalf("the VM is reported as %+v, %v; want it %s", r, ok, power)
		}
		s := r.Status
		if len(s.Disks) != 1 || s.Disks[0].Volume == nil || *s.Disks[0].Volume != vm.Spec.Disks[0].Ref() || len(s.Faults)+len(s.Drift)+len(s.NextBoot) > 0 {
			t.Errorf("the VM's status is %+v, want its disk and no fault, drift or pending field", s)
		}
	}
	whole(p.second, fleet.Running)
	whole(p.first, fleet.Stopped)
	p.Migrate(t, vm.ID, 1, 0, false)
	whole(p.first, fleet.Running)
	p.second.wantAbsent(vm.ID)
}

func testApplyAfterMigration(_ *testing.T, p *twoHosts) {
	vm, before := p.migratedGuest(false)
	p.first.wantAbsent(vm.ID)
	for _, vm.Generation = range []int64{1, 1, 2} {
		p.second.apply(vm)
		p.second.wantSameStatus("after an apply of the same spec,", vm.ID, before)
		p.second.wantOwnershipMark("after a job without a mark", vm.ID, guestOwnershipMark)
		p.second.wantStatus(vm.ID, vm.Generation)
	}
	p.second.requireNoError("stop", p.second.StopVM(p.second.ctx, vm.ID))
	p.second.wantOwnershipMark("of the migrated definition", vm.ID, guestOwnershipMark)
	p.second.requireNoError("start", p.second.StartVM(p.second.ctx, vm.ID))
	p.second.wantPower(vm.ID, fleet.Running)
}

func testStartOnSecondHost(_ *testing.T, p *twoHosts) {
	vm, before := p.migratedGuest(true)
	const words = `Failed to get "write" lock` // QEMU's error about the disk
	p.first.requireRefusal("start a guest that runs on the second host", p.first.StartVM(p.first.ctx, vm.ID), words)
	p.first.wantPower(vm.ID, fleet.Stopped)
	p.second.wantSameStatus("after the attempt", vm.ID, before)
	p.second.requireNoError("stop", p.second.StopVM(p.second.ctx, vm.ID))
	p.first.requireNoError("start", p.first.StartVM(p.first.ctx, vm.ID))
	p.second.requireRefusal("start a guest that runs on the first host", p.second.StartVM(p.second.ctx, vm.ID), words)
	p.first.wantPower(vm.ID, fleet.Running)
}

func testDeleteLeftoverDefinition(t *testing.T, p *twoHosts) {
	vm, before := p.migratedGuest(true)
	p.first.requireNoError("delete", p.first.DeleteVM(p.first.ctx, vm, p.first.pools, false))
	p.first.wantAbsent(vm.ID)
	p.second.wantSameStatus("after the deletion", vm.ID, before)
	if v, ok := p.second.reportedVolume(p.second.pools[0], vm.Spec.Disks[0].Volume); !ok || len(v.UsedBy) != 1 || v.UsedBy[0] != vm.ID {
		t.Errorf("the second host reports the disk as %+v, %v, want it used by the VM", v, ok)
	}
}

func testDeleteOnSecondHost(_ *testing.T, p *twoHosts) {
	vm, _ := p.migratedGuest(true)
	for range 2 {
		p.second.requireNoError("delete with disks", p.second.DeleteVM(p.second.ctx, vm, p.second.pools, true))
	}
	p.second.wantAbsent(vm.ID)
	p.first.waitUntil("the fault shows", func() bool { _, ok := p.first.findFault(vm.ID, fleet.FaultDisk); return ok })
	p.first.requireRefusal("start without its disk", p.first.StartVM(p.first.ctx, vm.ID), missingDiskText(p.first.pools[0], vm.Spec.Disks[0]))
	p.first.wantPower(vm.ID, fleet.Stopped)
	for range 2 {
		p.first.requireNoError("delete with disks", p.first.DeleteVM(p.first.ctx, vm, p.first.pools, true))
	}
	p.first.wantAbsent(vm.ID)
}
