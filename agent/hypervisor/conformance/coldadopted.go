package conformance

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// newAdoptedVM returns an adopted VM that is off on the first host. more is XML of further parts of its definition.
func (p *twoHosts) newAdoptedVM(more string) fleet.VM {
	p.first.t.Helper()
	pool := p.newSharedPool()
	disk := uniqueName("crm") + ".qcow2"
	p.first.createVolume(pool, disk, fleet.VolumeParams{Format: "qcow2", SizeBytes: 4 << 20})
	vm := p.first.newVM()
	name := uniqueName("Old_crm")
	vm.ID = p.DefineAdoptable(p.first.t, name, filepath.Join(pool.Spec.Path, disk), more)
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
	vm := p.newAdoptedVM("")
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

func testColdMigrationOfAdoptedVMRefused(t *testing.T, p *twoHosts) {
	vm := p.newAdoptedVM("")
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
	vm := p.newAdoptedVM("<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:arg value='-name'/><qemu:arg value='process=odd'/></qemu:commandline>")
	r := p.newColdAdoptedRun(vm)
	r.source.Send = func(context.Context, fleet.TransferID, transfer.Pieces, int64) error { return errors.New("sent") }
	p.first.requireRefusal("migrate a VM with options of QEMU", p.first.MigrateVM(p.first.ctx, r.source), "element commandline")
	if v, ok := p.first.reportedVM(vm.ID); !ok || !strings.Contains(v.Status.Unmigratable, "element commandline") {
		t.Errorf("the host reports %q as the reason against a migration", v.Status.Unmigratable)
	}
}
