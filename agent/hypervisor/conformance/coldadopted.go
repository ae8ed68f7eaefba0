package conformance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// newAdoptedVM returns an adopted VM that is off on the first host.
func (p *twoHosts) newAdoptedVM(d AdoptableDomain) fleet.VM {
	p.first.t.Helper()
	pool := p.newSharedPool()
	disk := uniqueName("crm") + ".qcow2"
	p.first.createVolume(pool, disk, fleet.VolumeParams{Format: "qcow2", SizeBytes: 4 << 20})
	vm := p.first.newVM()
	name := cmp.Or(d.Name, uniqueName("Old_crm"))
	d.Name, d.Disk = name, filepath.Join(pool.Spec.Path, disk)
	vm.ID = p.DefineAdoptable(p.first.t, d)
	read, err := p.first.ReadUnmanagedVM(p.first.ctx, vm.ID, []fleet.Pool{pool})
	p.first.requireNoError("read the domain", err)
	if len(read.Refusals) > 0 {
		p.first.t.Fatalf("the adoption is refused: %q", read.Refusals)
	}
	vm.Name, vm.Generation, vm.Spec = "crm", 1, read.Spec
	p.first.requireNoError("adopt", p.first.ApplyVM(p.first.ctx, p.first.adoptionJob(vm)))
	for _, h := range []*testHost{p.first, p.second} {
		h.cleanup("delete "+name, func(ctx context.Context) error { return h.DeleteVM(ctx, vm, h.pools, false) })
	}
	return vm
}

// newColdAdoptedRun returns the jobs of the cold migration of an adopted VM.
func (p *twoHosts) newColdAdoptedRun(vm fleet.VM) *coldRun {
	r := p.newColdRun(vm)
	job := p.second.adoptionJob(vm)
	r.source.Params.Definition, r.target.Apply = true, &job
	return r
}

func testColdMigrationOfAdoptedVM(t *testing.T, p *twoHosts) {
	vm := p.newAdoptedVM(AdoptableDomain{})
	before := p.PersistentDefinition(t, vm.ID, 0)
	r := p.newColdAdoptedRun(vm)
	p.first.requireNoError("migrate", p.first.MigrateVM(p.first.ctx, r.source))
	p.first.wantAbsent(vm.ID)
	p.second.wantAbsent(vm.ID)
	p.first.requireNoError("repeat the source's job", p.first.MigrateVM(p.first.ctx, r.source))
	vm.Generation = 7 // a migration raises the generation
	for range 2 {
		p.second.requireNoError("apply", p.second.ApplyVM(p.second.ctx, p.second.adoptionJob(vm)))
		if is := p.PersistentDefinition(t, vm.ID, 1); is != before {
			t.Fatalf("the definition on the second host is\n%s\nand was\n%s", is, before)
		}
	}
	p.wantReceived("with the definition", vm.ID, false)
	p.second.wantDrift(vm.ID, "after the migration")
	p.second.wantStatus(vm.ID, 7)
	p.wantRunsOnSecond(vm)
	p.second.requireNoError("stop", p.second.StopVM(p.second.ctx, vm.ID))
	p.second.requireNoError("release", p.second.ReleaseVM(p.second.ctx, vm))
	if is := p.PersistentDefinition(t, vm.ID, 1); is != before {
		t.Errorf("the released definition is\n%s\nand was\n%s", is, before)
	}
	p.second.requireNoError("adopt again", p.second.ApplyVM(p.second.ctx, p.second.adoptionJob(vm)))

	back := p.newColdAdoptedRun(vm)
	back.source.Pools = p.second.pools
	job := p.first.adoptionJob(vm)
	back.target.Apply = &job
	back.source.Send = func(ctx context.Context, _ fleet.TransferID, pieces transfer.Pieces, size int64) error {
		if err := back.sent.send(ctx, pieces, size); err != nil {
			return err
		}
		return p.first.ReceiveFirmware(p.first.ctx, back.target)
	}
	p.second.requireNoError("migrate back", p.second.MigrateVM(p.second.ctx, back.source))
	vm.Generation, vm.Spec.MemoryMiB = 9, vm.Spec.MemoryMiB+32 // an edit that came between
	p.first.requireNoError("apply", p.first.ApplyVM(p.first.ctx, p.first.adoptionJob(vm)))
	p.first.wantDrift(vm.ID, "after the edit")
	if s := p.first.wantStatus(vm.ID, 9); s.MemoryMiB != vm.Spec.MemoryMiB {
		t.Errorf("after the edit, the VM has %d MiB", s.MemoryMiB)
	}
}

// variablesElement names the file of the UEFI variables in a definition.
var variablesElement = regexp.MustCompile(`(?m)^ *<nvram.*</nvram>\n`)

// The disk's pool is not that of the first host, and the file of the UEFI variables gets a name that no other VM can have.
func testColdMigrationOfAdoptedDisks(t *testing.T, p *twoHosts) {
	name, to := uniqueName("Old_uefi"), p.newSharedPool()
	vm := p.newAdoptedVM(AdoptableDomain{Name: name, UEFI: p.FirmwareFiles != nil})
	p.first.requireNoError("start", p.first.StartVM(p.first.ctx, vm.ID)) // the start creates the variables
	p.first.requireNoError("stop", p.first.StopVM(p.first.ctx, vm.ID))
	from := p.first.pools[1]
	moving := fleet.MigratingDisk{Disk: vm.Spec.Disks[0].Ref(), To: fleet.Volref{PoolID: to.ID, Volume: uniqueName("moved") + ".qcow2"}, Transfer: fleet.NewID[fleet.TransferID]()}
	p.second.createVolume(to, moving.To.Volume, fleet.VolumeParams{Format: "qcow2", SizeBytes: 4 << 20})
	before := strings.NewReplacer(
		filepath.Join(from.Spec.Path, moving.Disk.Volume), filepath.Join(to.Spec.Path, moving.To.Volume),
		from.Spec.Path, to.Spec.Path, string(from.ID), string(to.ID), moving.Disk.Volume, moving.To.Volume,
	).Replace(variablesElement.ReplaceAllString(p.PersistentDefinition(t, vm.ID, 0), ""))

	r := p.newColdAdoptedRun(vm)
	r.source.Params.Disks, r.source.Params.Stay = []fleet.MigratingDisk{moving}, nil
	vm.Spec = r.source.Params.SpecOnTarget(vm.Spec)
	job, sendState := p.second.adoptionJob(vm), r.source.Send
	r.target.Apply = &job
	r.source.Send = func(ctx context.Context, file fleet.TransferID, pieces transfer.Pieces, size int64) error {
		if file == moving.Transfer {
			return new(sentFile).send(ctx, pieces, size)
		}
		return sendState(ctx, file, pieces, size)
	}
	p.first.requireNoError("migrate", p.first.MigrateVM(p.first.ctx, r.source))
	p.second.requireNoError("apply", p.second.ApplyVM(p.second.ctx, p.second.adoptionJob(vm)))
	is := variablesElement.ReplaceAllString(p.PersistentDefinition(t, vm.ID, 1), "")
	if is != before {
		t.Errorf("the definition on the second host is\n%s\nwant\n%s", is, before)
	}
	p.second.wantDrift(vm.ID, "after the migration")
	if p.FirmwareFiles != nil {
		here, _ := p.FirmwareFiles(t, vm.ID, 0)
		there, _ := p.FirmwareFiles(t, vm.ID, 1)
		if _, err := os.Stat(filepath.Join(filepath.Dir(here), name+"_VARS.fd")); !os.IsNotExist(err) {
			t.Errorf("the first host still has the VM's UEFI variables: %v", err)
		}
		if info, err := os.Stat(there); err != nil || info.Size() < 64<<10 {
			t.Errorf("the UEFI variables on the second host: %v", err)
		}
	}
	p.wantRunsOnSecond(vm)
}

// An administrator removed the adopted definition, and the VM's next job created it from the spec.
func testColdMigrationOfRecreatedVM(t *testing.T, p *twoHosts) {
	vm := p.newAdoptedVM(AdoptableDomain{})
	p.first.harness.UndefineVM(t, vm.ID)
	again := p.first.adoptionJob(vm)
	again.AppliedGeneration, again.OwnershipMark = vm.Generation, guestOwnershipMark
	p.first.requireNoError("create the definition", p.first.ApplyVM(p.first.ctx, again))
	p.first.wantOwnershipMark("on its host", vm.ID, guestOwnershipMark)
	r := p.newColdAdoptedRun(vm)
	if p.AddMarkToSentDefinition != nil { // an older source host sends a mark
		receive := r.target.Receive
		r.target.Receive = func(ctx context.Context, maxBytes int64) ([]byte, error) {
			data, err := receive(ctx, maxBytes)
			return p.AddMarkToSentDefinition(data, guestOwnershipMark), err
		}
	}
	p.first.requireNoError("migrate", p.first.MigrateVM(p.first.ctx, r.source))
	p.first.wantAbsent(vm.ID)
	if bytes.Contains(r.sent.data, []byte(guestOwnershipMark)) {
		t.Error("the source host sent the VM's ownership mark")
	}
	job := p.second.adoptionJob(vm)
	p.second.requireNoError("apply without a mark", p.second.ApplyVM(p.second.ctx, job))
	p.second.wantOwnershipMark("of the received definition", vm.ID, "")
	job.OwnershipMark = guestOwnershipMark
	p.second.requireNoError("apply", p.second.ApplyVM(p.second.ctx, job))
	p.second.wantOwnershipMark("on the target", vm.ID, guestOwnershipMark)
	p.wantRunsOnSecond(vm)
}

func testColdMigrationOfAdoptedVMRefused(t *testing.T, p *twoHosts) {
	vm := p.newAdoptedVM(AdoptableDomain{})
	unlisted := p.newColdAdoptedRun(vm)
	unlisted.source.Params.Definition = false
	p.first.requireRefusal("a job without the definition", p.first.MigrateVM(p.first.ctx, unlisted.source), "does not list the definition")
	unordered := p.newColdAdoptedRun(vm)
	unordered.target.Apply = nil
	p.first.requireRefusal("a definition that was not ordered", p.first.MigrateVM(p.first.ctx, unordered.source), "did not order")
	cut := p.newColdAdoptedRun(vm)
	cut.source.WaitArrived = func(context.Context) error { return errors.New("the portal does not answer") }
	p.first.requireRefusal("migrate without a result", p.first.MigrateVM(p.first.ctx, cut.source), "does not answer")
	p.wantReceived("after a failed migration", vm.ID, true)
	p.second.requireNoError("discard", p.second.DiscardFirmware(p.second.ctx, vm.ID, cut.target.Transfer))
	p.second.requireRefusal("apply without the definition", p.second.ApplyVM(p.second.ctx, p.second.adoptionJob(vm)), "no longer has the VM")
	p.second.wantAbsent(vm.ID)
	if p.AddToSentDefinition != nil {
		p.testLyingSource(vm, cut.sent.data)
		p.testPartsThatStay()
	}
	p.first.requireNoError("start", p.first.StartVM(p.first.ctx, vm.ID))
}

// testLyingSource sends definitions with parts that no source sends.
func (p *twoHosts) testLyingSource(vm fleet.VM, sent []byte) {
	t := p.first.t
	t.Helper()
	for more, words := range map[string]string{
		"": "",
		"<hostdev mode='subsystem' type='usb'><source><address bus='1' device='1'/></source></hostdev>": "element hostdev",
		"<emulator>/bin/sh</emulator>":                                                                   "element emulator",
		"<disk type='file'><source file='/etc/passwd'/><target dev='vdz'/></disk>":                       "/etc/passwd",
		"<disk type='file'><source file='etc/passwd'/><target dev='vdz'/></disk>":                        "relative path",
		"<interface type='bridge'><source bridge='br-mgmt'/></interface>":                                "br-mgmt",
		"</devices><qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'/><devices>": "element commandline",
		"</devices><os><nvram>/var/lib/libvirt/qemu/nvram/Other_VARS.fd</nvram></os><devices>":           "element nvram",
	} {
		r := p.newColdAdoptedRun(vm)
		data := p.AddToSentDefinition(bytes.Clone(sent), more)
		r.target.Receive = func(context.Context, int64) ([]byte, error) { return data, nil }
		err := p.second.ReceiveFirmware(p.second.ctx, r.target)
		if words == "" {
			p.second.requireNoError("receive the definition itself", err)
			p.second.requireNoError("discard", p.second.DiscardFirmware(p.second.ctx, vm.ID, r.target.Transfer))
			continue
		}
		p.second.requireRefusal("receive "+more, err, words)
		p.wantReceived("after a refused definition", vm.ID, false)
	}
}

// testPartsThatStay migrates a VM with a part that cannot go. The source refuses it before it sends anything, and the
// report names it.
func (p *twoHosts) testPartsThatStay() {
	t := p.first.t
	t.Helper()
	vm := p.newAdoptedVM(AdoptableDomain{More: "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:arg value='-name'/><qemu:arg value='process=odd'/></qemu:commandline>"})
	r := p.newColdAdoptedRun(vm)
	r.source.Send = func(context.Context, fleet.TransferID, transfer.Pieces, int64) error { return errors.New("sent") }
	p.first.requireRefusal("migrate a VM with options of QEMU", p.first.MigrateVM(p.first.ctx, r.source), "element commandline")
	if v, ok := p.first.reportedVM(vm.ID); !ok || !strings.HasPrefix(v.Status.Unmigratable, "The VM's definition has options of QEMU (element commandline)") {
		t.Errorf("the host reports %q as the reason against a migration", v.Status.Unmigratable)
	}
}
