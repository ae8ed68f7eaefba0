package conformance

import (
	"context"
	"fmt"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// agentKilledPanic is the panic that interrupts a job at a step. It simulates the end of the job's agent.
type agentKilledPanic struct{}

// stepCounter counts the steps of a job and interrupts the job at step interruptAt, counted from 1. Each call of
// progress is a step, and so are the start and the end of each call of record. The zero value interrupts nothing.
type stepCounter struct{ interruptAt, seen int }

func (s *stepCounter) next() {
	if s.seen++; s.seen == s.interruptAt {
		panic(agentKilledPanic{})
	}
}

func (s *stepCounter) progress(int, string) { s.next() }

// record calls write, which simulates the agent's write to disk, between two steps.
func (s *stepCounter) record(write func()) error {
	s.next()
	write()
	s.next()
	return nil
}

// runUntilStep runs the job until step n. reached is false if the job has fewer steps.
func runUntilStep(n int, order func(*stepCounter) error) (reached bool, err error) {
	s := &stepCounter{interruptAt: n}
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(agentKilledPanic); !ok {
				panic(p)
			}
			reached = true
		}
	}()
	err = order(s)
	return false, err
}

// testInterruptions interrupts a job at each of its steps, and last when the job is done but its result is lost. Each
// time it repeats the job, which must then complete, and checks the result. begin creates a new initial state for each
// step.
func (h *testHost) testInterruptions(act string, begin func() (order func(*stepCounter) error, check func(when string))) {
	h.t.Helper()
	for n := 1; ; n++ {
		order, check := begin()
		reached, err := runUntilStep(n, order)
		when := fmt.Sprintf("%s, ended at step %d", act, n)
		if !reached {
			h.requireNoError(act, err)
			when = act + ", ended before its result was sent"
		}
		h.requireNoError(when+": the repeated job", order(&stepCounter{}))
		check(when)
		if !reached {
			if n == 1 {
				h.t.Errorf("%s reported no step, so no interruption was tested", act)
			}
			return
		}
	}
}

func testCreateInterrupted(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddImage(t, p, Image{Name: "golden.qcow2", Kind: Qcow2, SizeBytes: 4 << 20})
	golden := fleet.Volref{PoolID: p.ID, Volume: "golden.qcow2"}
	h.testInterruptions("create a VM", func() (func(*stepCounter) error, func(string)) {
		blank, copied, overlay := newDisk(p), newDisk(p), newDisk(p)
		copied.Image = &golden
		overlay.SizeBytes, overlay.Image, overlay.Overlay = 0, &golden, true
		overlay.ImageID, overlay.VersionID = fleet.NewID[fleet.ImageID](), fleet.NewID[fleet.ImageVersionID]()
		vm := h.newVM(overlay, copied, blank)
		vm.Spec.FirstBoot = fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 1}
		in := h.applyJob(vm)
		order := func(s *stepCounter) error {
			in.Progress = s.progress
			in.FirstBoot = func(context.Context) (map[string][]byte, error) {
				s.next()
				return map[string][]byte{"user-data": []byte("#cloud-config\n"), "meta-data": []byte("instance-id: one\n")}, nil
			}
			in.RecordDisk = func(ref fleet.Volref) error {
				return s.record(func() { in.CreatedDisks = append(in.CreatedDisks, ref) })
			}
			return h.ApplyVM(h.ctx, in)
		}
		return order, func(when string) {
			s := h.wantStatus(vm.ID, 1)
			if len(s.Disks) != 3 || len(s.Faults)+len(s.Drift)+len(s.NextBoot) > 0 {
				t.Fatalf("%s: %+v", when, s)
			}
			h.wantVolumeCount(p, 4)
			if n := len(h.harness.FirstBootData(t, vm.ID)); n != 1 {
				t.Fatalf("%s: the host has %d files for its first boot", when, n)
			}
			h.requireNoError("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
			h.wantVolumeCount(p, 1)
		}
	})
}

func testVolumeJobsInterrupted(t *testing.T, h *testHost) {
	p := h.newPool()
	h.createVolume(p, "source.qcow2", fleet.VolumeParams{Format: "qcow2", SizeBytes: 8 << 20})
	for act, do := range map[string]struct {
		call  func(context.Context, hypervisor.VolumeWork) error
		order fleet.VolumeParams
	}{
		"create a volume": {h.CreateVolume, fleet.VolumeParams{Format: "qcow2", SizeBytes: 8 << 20}},
		"copy a volume":   {h.CopyVolume, fleet.VolumeParams{Source: "source.qcow2"}},
	} {
		h.testInterruptions(act, func() (func(*stepCounter) error, func(string)) {
			in := h.newVolumeJob(p, "made.qcow2", do.order)
			in.RecordChecksums = func(...hypervisor.VolumeChecksum) error { return nil }
			order := func(s *stepCounter) error {
				in.Progress = s.progress
				in.RecordFile = func(file string) error { return s.record(func() { in.RecordedFile = file }) }
				return do.call(h.ctx, in)
			}
			return order, func(string) {
				h.wantVolume(p, "made.qcow2", "qcow2", 8<<20)
				h.wantVolumeCount(p, 2)
				h.requireNoError("delete", h.DeleteVolume(h.ctx, h.newVolumeJob(p, "made.qcow2", fleet.VolumeParams{})))
			}
		})
	}
	h.testInterruptions("wipe a volume", func() (func(*stepCounter) error, func(string)) {
		h.createVolume(p, "wiped.qcow2", fleet.VolumeParams{Format: "qcow2", SizeBytes: 8 << 20})
		h.harness.WriteDisk(t, p.Spec.Path+"/wiped.qcow2", 'a')
		in := h.newVolumeJob(p, "wiped.qcow2", fleet.VolumeParams{})
		order := func(s *stepCounter) error {
			in.Progress = s.progress
			return h.WipeVolume(h.ctx, in)
		}
		return order, func(when string) {
			if h.harness.ReadDisk(t, p.Spec.Path+"/wiped.qcow2") == 'a' {
				t.Errorf("%s: the volume still has its data", when)
			}
			h.wantVolumeCount(p, 2)
			h.requireNoError("delete", h.DeleteVolume(h.ctx, h.newVolumeJob(p, "wiped.qcow2", fleet.VolumeParams{})))
		}
	})
}

func testDiskMovesInterrupted(t *testing.T, h *testHost) {
	from, to := h.newPool(), h.newPool()
	for _, on := range []bool{false, true} {
		h.testInterruptions(fmt.Sprintf("move a disk, running %v", on), func() (func(*stepCounter) error, func(string)) {
			vm := h.definedVM(newDisk(from))
			if on {
				h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
			}
			in := h.moveJob(vm, to)
			order := func(s *stepCounter) error {
				in.Progress = s.progress
				in.RecordFile = func(file string) error { return s.record(func() { in.RecordedFile = file }) }
				in.RecordDisk = func(fleet.Volref) error { return s.record(func() {}) }
				return h.MoveDisk(h.ctx, in)
			}
			return order, func(string) {
				h.wantDiskAt(vm, in.Params.To)
				if on {
					h.wantPower(vm.ID, fleet.Running)
				}
				h.wantVolumeCount(to, 1)
				h.requireNoError("delete the VM's old disk", h.DeleteVolume(h.ctx, h.newVolumeJob(from, vm.Spec.Disks[0].Volume, fleet.VolumeParams{})))
				vm.Spec.Disks[0].PoolID = to.ID
				h.requireNoError("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
				h.wantVolumeCount(to, 0)
			}
		})
	}
}

func testSnapshotsInterrupted(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	h.writeDisk(vm, 'a')
	begin := func(on bool) {
		if on {
			h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
		}
	}
	end := func(when string, on bool) {
		h.t.Helper()
		if on {
			h.wantPower(vm.ID, fleet.Running)
			h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
		}
		if tree := h.reportedSnapshots(vm); tree.Unfinished != "" || tree.Merges > 0 {
			t.Fatalf("%s: %+v", when, tree)
		}
		h.checkDiskChain(vm)
		h.wantDiskData(vm, 'a')
	}
	for _, on := range []bool{false, true} {
		h.testInterruptions(fmt.Sprintf("take a snapshot, running %v", on), func() (func(*stepCounter) error, func(string)) {
			begin(on)
			in := h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "cut", Memory: on})
			order := func(s *stepCounter) error { in.Progress = s.progress; return h.TakeSnapshot(h.ctx, in) }
			return order, func(when string) {
				if tree := h.reportedSnapshots(vm); len(tree.Snapshots) != 1 || tree.Current != in.Params.ID {
					t.Fatalf("%s: %+v", when, tree)
				}
				end(when, on)
				h.deleteSnapshot(vm, h.reportedSnapshots(vm).Snapshots[0], false)
				h.wantVolumeCount(p, 1)
			}
		})
		h.testInterruptions(fmt.Sprintf("revert to a snapshot, running %v", on), func() (func(*stepCounter) error, func(string)) {
			begin(on)
			one := h.takeSnapshot(vm, "one", on)
			if on {
				h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
			}
			h.writeDisk(vm, 'b')
			in := h.snapshotJob(vm, fleet.SnapshotParams{ID: one.ID})
			order := func(s *stepCounter) error { in.Progress = s.progress; return h.RevertSnapshot(h.ctx, in) }
			return order, func(when string) {
				end(when, on)
				h.deleteSnapshot(vm, one, false)
				h.wantVolumeCount(p, 1)
			}
		})
		h.testInterruptions(fmt.Sprintf("delete a snapshot, running %v", on), func() (func(*stepCounter) error, func(string)) {
			one := h.takeSnapshot(vm, "one", false)
			h.writeDisk(vm, 'b')
			two := h.takeSnapshot(vm, "two", false)
			h.writeDisk(vm, 'a')
			begin(on)
			in := h.snapshotJob(vm, fleet.SnapshotParams{ID: two.ID})
			order := func(s *stepCounter) error { in.Progress = s.progress; return h.DeleteSnapshot(h.ctx, in) }
			return order, func(when string) {
				if tree := h.reportedSnapshots(vm); len(tree.Snapshots) != 1 || tree.SnapshotByID(two.ID) != nil {
					t.Fatalf("%s: %+v", when, tree)
				}
				end(when, on)
				h.deleteSnapshot(vm, one, false)
				h.wantDiskData(vm, 'a')
				h.wantVolumeCount(p, 1)
			}
		})
	}
}

func testCloneOfRunningVMInterrupted(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	h.writeDisk(vm, 'a')
	h.testInterruptions("copy the disk of a running VM", func() (func(*stepCounter) error, func(string)) {
		h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
		in := h.newTemporarySnapshotCopy(vm, p, "made.qcow2")
		order := func(s *stepCounter) error {
			in.take.Progress, in.copy.Progress, in.drop.Progress = s.progress, s.progress, s.progress
			in.copy.RecordFile = func(file string) error { return s.record(func() { in.copy.RecordedFile = file }) }
			if in.copy.RecordedFile == "" { // once the copy is complete, the portal repeats neither of these jobs
				if err := h.TakeSnapshot(h.ctx, in.take); err != nil {
					return err
				}
			}
			if tree := h.reportedSnapshots(vm); tree.SnapshotByID(in.take.Params.ID) != nil {
				if err := h.CopyVolume(h.ctx, in.copy); err != nil {
					return err
				}
			}
			return h.DeleteSnapshot(h.ctx, in.drop)
		}
		return order, func(when string) {
			if tree := h.reportedSnapshots(vm); len(tree.Snapshots) > 0 || tree.Unfinished != "" || tree.Merges > 0 {
				t.Fatalf("%s: %+v", when, tree)
			}
			h.wantPower(vm.ID, fleet.Running)
			h.wantVolumeCount(p, 2)
			h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
			h.checkDiskChain(vm)
			h.wantDiskData(vm, 'a')
			h.requireNoError("delete", h.DeleteVolume(h.ctx, h.newVolumeJob(p, "made.qcow2", fleet.VolumeParams{})))
		}
	})
}
