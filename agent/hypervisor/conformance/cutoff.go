package conformance

import (
	"context"
	"fmt"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// agentKilled is the panic that interrupts a job at a step, as the end of its agent would.
type agentKilled struct{}

// steps counts the steps of a job and interrupts the job at the step with the number at. Each call of a job's functions
// is a step: a call of Progress, and the start and the end of each record. The zero value interrupts nothing.
type steps struct{ at, seen int }

func (s *steps) step() {
	if s.seen++; s.seen == s.at {
		panic(agentKilled{})
	}
}

func (s *steps) progress(int, string) { s.step() }

// record calls keep, which simulates the agent's write to disk, between two steps.
func (s *steps) record(keep func()) error {
	s.step()
	keep()
	s.step()
	return nil
}

// endAt runs the job until step n. reached is false if the job has fewer steps.
func endAt(n int, order func(*steps) error) (reached bool, err error) {
	s := &steps{at: n}
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(agentKilled); !ok {
				panic(p)
			}
			reached = true
		}
	}()
	err = order(s)
	return false, err
}

// cutOff interrupts a job at each of its steps, and last when the job is done but its result is lost. Each time
// it repeats the job, which must then complete, and checks the result. begin creates a new initial state for each step.
func (h *host) cutOff(act string, begin func() (order func(*steps) error, check func(when string))) {
	h.t.Helper()
	for n := 1; ; n++ {
		order, check := begin()
		reached, err := endAt(n, order)
		when := fmt.Sprintf("%s, ended at step %d", act, n)
		if !reached {
			h.must(act, err)
			when = act + ", ended before its result was sent"
		}
		h.must(when+": the repeated job", order(&steps{}))
		check(when)
		if !reached {
			if n == 1 {
				h.t.Errorf("%s has no steps", act)
			}
			return
		}
	}
}

func testCreateCutOff(t *testing.T, h *host) {
	p := h.pool()
	h.h.AddImage(t, p, Image{Name: "golden.qcow2", Kind: Qcow2, SizeBytes: 4 << 20})
	golden := fleet.Volref{PoolID: p.ID, Volume: "golden.qcow2"}
	h.cutOff("create a VM", func() (func(*steps) error, func(string)) {
		blank, copied, overlay := disk(p), disk(p), disk(p)
		copied.Image = &golden
		overlay.SizeBytes, overlay.Image, overlay.Overlay = 0, &golden, true
		overlay.ImageID, overlay.VersionID = fleet.NewID[fleet.ImageID](), fleet.NewID[fleet.ImageVersionID]()
		vm := h.newVM(overlay, copied, blank)
		vm.Spec.FirstBoot = fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 1}
		in := h.applyJob(vm)
		order := func(s *steps) error {
			in.Progress = s.progress
			in.FirstBoot = func(context.Context) (map[string][]byte, error) {
				s.step()
				return map[string][]byte{"user-data": []byte("#cloud-config\n"), "meta-data": []byte("instance-id: one\n")}, nil
			}
			in.RecordDisk = func(ref fleet.Volref) error {
				return s.record(func() { in.CreatedDisks = append(in.CreatedDisks, ref) })
			}
			return h.ApplyVM(h.ctx, in)
		}
		return order, func(when string) {
			s := h.status(vm.ID, 1)
			if len(s.Disks) != 3 || len(s.Faults)+len(s.Drift)+len(s.NextBoot) > 0 {
				t.Fatalf("%s: %+v", when, s)
			}
			h.wantVolumes(p, 4)
			if n := len(h.h.Seeds(t, vm.ID)); n != 1 {
				t.Fatalf("%s: the host has %d files for its first boot", when, n)
			}
			h.must("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
			h.wantVolumes(p, 1)
		}
	})
}

func testVolumesCutOff(t *testing.T, h *host) {
	p := h.pool()
	h.newVolume(p, "source.qcow2", fleet.VolumeParams{Format: "qcow2", SizeBytes: 8 << 20})
	for act, do := range map[string]struct {
		call  func(context.Context, hypervisor.VolumeWork) error
		order fleet.VolumeParams
	}{
		"create a volume": {h.CreateVolume, fleet.VolumeParams{Format: "qcow2", SizeBytes: 8 << 20}},
		"copy a volume":   {h.CopyVolume, fleet.VolumeParams{Source: "source.qcow2"}},
	} {
		h.cutOff(act, func() (func(*steps) error, func(string)) {
			in := h.volumeJob(p, "made.qcow2", do.order)
			in.RecordChecksums = func(...hypervisor.VolumeChecksum) error { return nil }
			order := func(s *steps) error {
				in.Progress = s.progress
				in.RecordFile = func(file string) error { return s.record(func() { in.RecordedFile = file }) }
				return do.call(h.ctx, in)
			}
			return order, func(string) {
				h.wantVolume(p, "made.qcow2", "qcow2", 8<<20)
				h.wantVolumes(p, 2)
				h.must("delete", h.DeleteVolume(h.ctx, h.volumeJob(p, "made.qcow2", fleet.VolumeParams{})))
			}
		})
	}
	h.cutOff("wipe a volume", func() (func(*steps) error, func(string)) {
		h.newVolume(p, "wiped.qcow2", fleet.VolumeParams{Format: "qcow2", SizeBytes: 8 << 20})
		h.h.WriteDisk(t, p.Spec.Path+"/wiped.qcow2", 'a')
		in := h.volumeJob(p, "wiped.qcow2", fleet.VolumeParams{})
		order := func(s *steps) error {
			in.Progress = s.progress
			return h.WipeVolume(h.ctx, in)
		}
		return order, func(when string) {
			if h.h.ReadDisk(t, p.Spec.Path+"/wiped.qcow2") == 'a' {
				t.Errorf("%s: the volume still has its data", when)
			}
			h.wantVolumes(p, 2)
			h.must("delete", h.DeleteVolume(h.ctx, h.volumeJob(p, "wiped.qcow2", fleet.VolumeParams{})))
		}
	})
}

func testMovesCutOff(t *testing.T, h *host) {
	from, to := h.pool(), h.pool()
	for _, on := range []bool{false, true} {
		h.cutOff(fmt.Sprintf("move a disk, running %v", on), func() (func(*steps) error, func(string)) {
			vm := h.definedVM(disk(from))
			if on {
				h.must("start", h.StartVM(h.ctx, vm.ID))
			}
			in := h.moveJob(vm, to)
			order := func(s *steps) error {
				in.Progress = s.progress
				in.RecordFile = func(file string) error { return s.record(func() { in.RecordedFile = file }) }
				in.RecordDisk = func(fleet.Volref) error { return s.record(func() {}) }
				return h.MoveDisk(h.ctx, in)
			}
			return order, func(string) {
				h.wantDisk(vm, in.Order.To)
				if on {
					h.wantPower(vm.ID, fleet.Running)
				}
				h.wantVolumes(to, 1)
				h.must("delete the VM's old disk", h.DeleteVolume(h.ctx, h.volumeJob(from, vm.Spec.Disks[0].Volume, fleet.VolumeParams{})))
				vm.Spec.Disks[0].PoolID = to.ID
				h.must("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
				h.wantVolumes(to, 0)
			}
		})
	}
}

func testSnapshotsCutOff(t *testing.T, h *host) {
	p := h.pool()
	vm := h.definedVM(disk(p))
	h.write(vm, 'a')
	begin := func(on bool) {
		if on {
			h.must("start", h.StartVM(h.ctx, vm.ID))
		}
	}
	end := func(when string, on bool) {
		h.t.Helper()
		if on {
			h.wantPower(vm.ID, fleet.Running)
			h.must("force off", h.StopVM(h.ctx, vm.ID))
		}
		if tree := h.tree(vm); tree.Unfinished != "" || tree.Merges > 0 {
			t.Fatalf("%s: %+v", when, tree)
		}
		h.checkChains(vm)
		h.wantData(vm, 'a')
	}
	for _, on := range []bool{false, true} {
		h.cutOff(fmt.Sprintf("take a snapshot, running %v", on), func() (func(*steps) error, func(string)) {
			begin(on)
			in := h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "cut", Memory: on})
			order := func(s *steps) error { in.Progress = s.progress; return h.TakeSnapshot(h.ctx, in) }
			return order, func(when string) {
				if tree := h.tree(vm); len(tree.Snapshots) != 1 || tree.Current != in.Order.ID {
					t.Fatalf("%s: %+v", when, tree)
				}
				end(when, on)
				h.drop(vm, h.tree(vm).Snapshots[0], false)
				h.wantVolumes(p, 1)
			}
		})
		h.cutOff(fmt.Sprintf("revert to a snapshot, running %v", on), func() (func(*steps) error, func(string)) {
			begin(on)
			one := h.take(vm, "one", on)
			if on {
				h.must("force off", h.StopVM(h.ctx, vm.ID))
			}
			h.write(vm, 'b')
			in := h.snapshotJob(vm, fleet.SnapshotParams{ID: one.ID})
			order := func(s *steps) error { in.Progress = s.progress; return h.RevertSnapshot(h.ctx, in) }
			return order, func(when string) {
				end(when, on)
				h.drop(vm, one, false)
				h.wantVolumes(p, 1)
			}
		})
		h.cutOff(fmt.Sprintf("delete a snapshot, running %v", on), func() (func(*steps) error, func(string)) {
			one := h.take(vm, "one", false)
			h.write(vm, 'b')
			two := h.take(vm, "two", false)
			h.write(vm, 'a')
			begin(on)
			in := h.snapshotJob(vm, fleet.SnapshotParams{ID: two.ID})
			order := func(s *steps) error { in.Progress = s.progress; return h.DeleteSnapshot(h.ctx, in) }
			return order, func(when string) {
				if tree := h.tree(vm); len(tree.Snapshots) != 1 || tree.ByID(two.ID) != nil {
					t.Fatalf("%s: %+v", when, tree)
				}
				end(when, on)
				h.drop(vm, one, false)
				h.wantData(vm, 'a')
				h.wantVolumes(p, 1)
			}
		})
	}
}

func testCloneRunningCutOff(t *testing.T, h *host) {
	p := h.pool()
	vm := h.definedVM(disk(p))
	h.write(vm, 'a')
	h.cutOff("copy the disk of a running VM", func() (func(*steps) error, func(string)) {
		h.must("start", h.StartVM(h.ctx, vm.ID))
		in := h.newTemporaryCopy(vm, p, "made.qcow2")
		order := func(s *steps) error {
			in.take.Progress, in.copy.Progress, in.drop.Progress = s.progress, s.progress, s.progress
			in.copy.RecordFile = func(file string) error { return s.record(func() { in.copy.RecordedFile = file }) }
			if in.copy.RecordedFile == "" { // once the copy is complete, the portal repeats neither of these jobs
				if err := h.TakeSnapshot(h.ctx, in.take); err != nil {
					return err
				}
			}
			if tree := h.tree(vm); tree.ByID(in.take.Order.ID) != nil {
				if err := h.CopyVolume(h.ctx, in.copy); err != nil {
					return err
				}
			}
			return h.DeleteSnapshot(h.ctx, in.drop)
		}
		return order, func(when string) {
			if tree := h.tree(vm); len(tree.Snapshots) > 0 || tree.Unfinished != "" || tree.Merges > 0 {
				t.Fatalf("%s: %+v", when, tree)
			}
			h.wantPower(vm.ID, fleet.Running)
			h.wantVolumes(p, 2)
			h.must("force off", h.StopVM(h.ctx, vm.ID))
			h.checkChains(vm)
			h.wantData(vm, 'a')
			h.must("delete", h.DeleteVolume(h.ctx, h.volumeJob(p, "made.qcow2", fleet.VolumeParams{})))
		}
	})
}
