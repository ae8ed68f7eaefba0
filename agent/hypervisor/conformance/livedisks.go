package conformance

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// newLocalGuest returns a VM that runs on the first host with a shared disk, and with a qcow2 and a raw disk in a local
// pool. The beginning of the local disks has the bytes 'q' and 'r'.
func (p *twoHosts) newLocalGuest() fleet.VM {
	p.first.t.Helper()
	shared, from, to := p.newSharedPool(), p.first.newPool(), p.second.newPool()
	p.first.pools, p.second.pools = append(p.first.pools, to), append(p.second.pools, from)
	if p.local == nil {
		p.local = map[fleet.PoolID]fleet.Pool{}
	}
	p.local[from.ID] = to
	raw := newDisk(from)
	raw.Volume, raw.Format = strings.TrimSuffix(raw.Volume, ".qcow2")+".raw", fleet.Raw
	vm := p.first.newVM(newDisk(shared), newDisk(from), raw)
	p.second.cleanup("delete "+vm.Name, func(ctx context.Context) error {
		return p.second.DeleteVM(ctx, p.newLiveRun(vm).target.Apply.VM, p.second.pools, true)
	})
	p.first.requireNoError("apply", p.first.ApplyVM(p.first.ctx, changedJob(p.first.applyJob(vm), func(in *hypervisor.ApplyWork) { in.OwnershipMark = guestOwnershipMark })))
	for i, b := range []byte("qr") {
		p.first.harness.WriteDisk(p.first.t, filepath.Join(from.Spec.Path, vm.Spec.Disks[i+1].Volume), b)
	}
	p.first.requireNoError("start", p.first.StartVM(p.first.ctx, vm.ID))
	return vm
}

// wantNoCopies fails the test if the second host has a copy of the VM's local disks.
func (p *twoHosts) wantNoCopies(when string, vm fleet.VM) {
	p.first.t.Helper()
	if all := p.second.poolStatus(p.local[vm.Spec.Disks[1].PoolID]).Volumes; len(all) > 0 {
		p.first.t.Errorf("%s the target's pool has the volumes %+v, want none", when, all)
	}
}

func testLiveMigrationOfLocalDisks(t *testing.T, p *twoHosts) {
	vm := p.newLocalGuest()
	r := p.newLiveRun(vm)
	r.source.Params.RateBytes = 2 << 20
	var notes []string
	r.source.Progress = func(_ int, note string) { notes = append(notes, note) }
	if sent, received := p.migrate(r); sent != nil || received != nil {
		t.Fatalf("the migration failed: %v; %v", sent, received)
	}
	there := r.target.Apply.VM
	p.first.wantAbsent(vm.ID)
	status := p.second.wantPower(vm.ID, fleet.Running)
	if len(status.Disks) != 3 || len(status.Faults)+len(status.Drift)+len(status.NextBoot) > 0 {
		t.Errorf("the VM's status on the target is %+v, want three disks and no fault, drift or pending field", status)
	}
	for i, d := range there.Spec.Disks {
		if got := status.Disks[i].Volume; got == nil || *got != d.Ref() {
			t.Errorf("disk %d on the target is %v, want %v", i+1, got, d.Ref())
		}
	}
	p.second.wantOwnershipMark("on the target", vm.ID, guestOwnershipMark)
	for range 2 {
		p.second.apply(there)
		p.second.wantSameStatus("after an apply of the new disks,", vm.ID, status)
	}
	again := p.newLiveRun(vm)
	again.source.Begun, again.target.Begun, again.files = true, true, r.files
	if sent, received := p.migrate(again); sent != nil || received != nil {
		t.Errorf("the repeated jobs failed: %v; %v", sent, received)
	}
	p.second.wantPower(vm.ID, fleet.Running)
	p.second.requireNoError("stop", p.second.StopVM(p.second.ctx, vm.ID))
	for i, want := range []byte("qr") {
		to := there.Spec.Disks[i+1]
		file := filepath.Join(p.local[vm.Spec.Disks[i+1].PoolID].Spec.Path, to.Volume)
		if got := p.second.harness.ReadDisk(t, file); got != want {
			t.Errorf("the copied disk %d begins with %q, want %q", i+2, got, want)
		}
		v, ok := p.second.reportedVolume(p.local[vm.Spec.Disks[i+1].PoolID], to.Volume)
		if !ok || v.Format != to.FileFormat() || v.CapacityBytes != to.SizeBytes || v.AllocBytes >= to.SizeBytes {
			t.Errorf("the copied disk %d is %+v, %v, want a thin file of %d bytes", i+2, v, ok, to.SizeBytes)
		}
	}
	p.second.requireNoError("start", p.second.StartVM(p.second.ctx, vm.ID))
	for _, d := range vm.Spec.Disks[1:] {
		if v, ok := p.first.reportedVolume(p.first.pools[slices.IndexFunc(p.first.pools, func(o fleet.Pool) bool { return o.ID == d.PoolID })], d.Volume); !ok || len(v.UsedBy) > 0 {
			t.Errorf("the old disk on the source host is %+v, %v, want an unused volume", v, ok)
		}
	}
	if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "disks") }) {
		t.Errorf("no progress of the disks was reported: %q", notes)
	}
}

// testFailedLiveMigrationOfLocalDisks ends migrations at several points. Each time the VM keeps running on its host, and
// the target has neither VM nor copies.
func testFailedLiveMigrationOfLocalDisks(t *testing.T, p *twoHosts) {
	vm := p.newLocalGuest()
	before := p.first.wantPower(vm.ID, fleet.Running)
	stopped := errors.New("cancelled by a user")
	for _, c := range []struct {
		name string
		set  func(r *liveRun, cancel context.CancelCauseFunc)
	}{
		{"a cut before the transfer", func(r *liveRun, _ context.CancelCauseFunc) {
			record := r.target.RecordFile
			r.target.RecordFile = func(to fleet.Volref, file string) error {
				r.cut()
				return record(to, file)
			}
		}},
		{"a cut during the transfer", func(r *liveRun, _ context.CancelCauseFunc) {
			r.source.Progress = func(_ int, note string) {
				if strings.Contains(note, "disks") || strings.Contains(note, "memory") {
					r.cut()
				}
			}
		}},
		{"a cancellation during the transfer", func(r *liveRun, cancel context.CancelCauseFunc) {
			r.source.Progress = func(_ int, note string) {
				if strings.Contains(note, "disks") || strings.Contains(note, "memory") {
					cancel(stopped)
				}
			}
		}},
		{"a target whose agent cannot record its files", func(r *liveRun, _ context.CancelCauseFunc) {
			r.target.RecordFile = func(fleet.Volref, string) error { return errors.New("the disk of the agent is full") }
		}},
		{"a disk that is larger than ordered", func(r *liveRun, _ context.CancelCauseFunc) {
			r.target.Disks = slices.Clone(r.target.Disks)
			r.target.Disks[1].TakesBytes = 4 << 20
		}},
	} {
		r := p.newLiveRun(vm)
		r.source.Params.RateBytes = 1 << 20
		ctx, cancel := context.WithCancelCause(p.first.ctx)
		c.set(r, cancel)
		go func() {
			defer close(r.received)
			if r.failure = p.second.ReceiveVM(p.second.ctx, r.target); r.failure != nil {
				r.cut()
			}
		}()
		sent := p.first.MigrateRunningVM(ctx, r.source)
		r.cut()
		<-r.received
		if sent == nil || r.failure == nil {
			t.Errorf("after %s, the migration ended with %v; %v, want errors", c.name, sent, r.failure)
		}
		p.first.wantSameStatus("after "+c.name+",", vm.ID, before)
		p.second.wantAbsent(vm.ID)
		p.wantNoCopies("after "+c.name+",", vm)

		again := p.newLiveRun(vm) // both agents restart
		again.source.Begun, again.target.Begun, again.files = true, true, r.files
		if sent, received := p.migrate(again); sent == nil || received == nil {
			t.Errorf("after %s, the repeated jobs ended with %v; %v, want errors", c.name, sent, received)
		}
		p.first.wantPower(vm.ID, fleet.Running)
	}
	if sent, received := p.migrate(p.newLiveRun(vm)); sent != nil || received != nil {
		t.Errorf("the next migration failed: %v; %v", sent, received)
	}
	p.first.wantAbsent(vm.ID)
	p.second.wantPower(vm.ID, fleet.Running)
}

func testLiveMigrationToTakenName(t *testing.T, p *twoHosts) {
	vm := p.newLocalGuest()
	r := p.newLiveRun(vm)
	taken := r.target.Disks[1].To
	to := p.local[vm.Spec.Disks[1].PoolID]
	p.second.createVolume(to, taken.Volume, fleet.VolumeParams{Format: fleet.Raw, SizeBytes: 1 << 20})
	if sent, received := p.migrate(r); sent == nil || received == nil {
		t.Errorf("a migration to a taken name ended with %v; %v, want errors", sent, received)
	}
	p.first.wantPower(vm.ID, fleet.Running)
	p.second.wantAbsent(vm.ID)
	if all := p.second.poolStatus(to).Volumes; len(all) != 1 || all[0].Name != taken.Volume {
		t.Errorf("the target's pool has the volumes %+v, want only the one that existed before", all)
	}
	p.second.requireNoError("delete", p.second.DeleteVolume(p.second.ctx, p.second.newVolumeJob(to, taken.Volume, fleet.VolumeParams{})))
}

func testLiveMigrationDiskRefusals(t *testing.T, p *twoHosts) {
	vm := p.newLocalGuest()
	for name, set := range map[string]func(*liveRun){
		"a disk that the job does not list": func(r *liveRun) { r.source.Params.Disks = r.source.Params.Disks[:1] },
		"a raw disk as a qcow2 file": func(r *liveRun) {
			r.source.Params.Disks = slices.Clone(r.source.Params.Disks)
			r.source.Params.Disks[1].To.Volume = "copy.qcow2"
		},
		"a path as a name": func(r *liveRun) {
			r.source.Params.Disks = slices.Clone(r.source.Params.Disks)
			r.source.Params.Disks[0].To.Volume = "../copy.qcow2"
		},
	} {
		r := p.newLiveRun(vm)
		set(r)
		r.source.RecordBegin = func() error { t.Errorf("%s: the migration began", name); return nil }
		if err := p.first.MigrateRunningVM(p.first.ctx, r.source); fleet.CodeOf(err) != fleet.Conflict && fleet.CodeOf(err) != fleet.Invalid {
			t.Errorf("%s: the migration ended with %v, want a refusal", name, err)
		}
	}
	p.first.wantPower(vm.ID, fleet.Running)
	p.wantNoCopies("after refusals,", vm)
}
