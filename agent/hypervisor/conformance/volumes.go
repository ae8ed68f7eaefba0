package conformance

import (
	"errors"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// newVolumeJob returns a new job for a volume.
func (h *testHost) newVolumeJob(p fleet.Pool, name string, o fleet.VolumeParams) hypervisor.VolumeWork {
	return hypervisor.VolumeWork{Pool: p, Name: name, Params: o, RecordFile: func(string) error { return nil }, Progress: func(int, string) {}}
}

// createVolume creates a volume. The test's cleanup deletes the volume.
func (h *testHost) createVolume(p fleet.Pool, name string, o fleet.VolumeParams) {
	h.t.Helper()
	h.requireNoError("create "+name, h.CreateVolume(h.ctx, h.newVolumeJob(p, name, o)))
}

func (h *testHost) wantVolume(p fleet.Pool, name, format string, size int64) fleet.Volume {
	h.t.Helper()
	v, ok := h.reportedVolume(p, name)
	if !ok || v.Format != format || v.CapacityBytes != size || v.Backing != "" || v.Unfinished {
		h.t.Errorf("%s is %+v, want %s with %d bytes", name, v, format, size)
	}
	return v
}

func (h *testHost) wantNoVolume(p fleet.Pool, name string) {
	h.t.Helper()
	for _, v := range h.poolStatus(p).Volumes {
		if strings.HasPrefix(v.Name, name) {
			h.t.Errorf("the volume %+v exists, want no volume of this name", v)
		}
	}
}

func testVolumeLifecycle(t *testing.T, h *testHost) {
	p := h.newPool()
	for name, o := range map[string]fleet.VolumeParams{
		"sparse.raw": {Format: "raw", SizeBytes: 8 << 20}, "full.raw": {Format: "raw", SizeBytes: 8 << 20, Full: true},
		"sparse.qcow2": {Format: "qcow2", SizeBytes: 8 << 20}, "full.qcow2": {Format: "qcow2", SizeBytes: 8 << 20, Full: true},
	} {
		h.createVolume(p, name, o)
		v := h.wantVolume(p, name, o.Format, o.SizeBytes)
		if full := v.AllocBytes >= o.SizeBytes; full != o.Full || v.ModifiedAt == nil {
			t.Errorf("the volume %s has %d allocated bytes and the modification time %v", name, v.AllocBytes, v.ModifiedAt)
		}
		grow := h.newVolumeJob(p, name, fleet.VolumeParams{SizeBytes: 16 << 20})
		for range 2 {
			h.requireNoError("grow "+name, h.GrowVolume(h.ctx, grow))
		}
		h.wantVolume(p, name, o.Format, 16<<20)
		h.requireRefusal("shrink "+name, h.GrowVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{SizeBytes: 8 << 20})), "can only grow")

		var told progressRecorder
		clone := h.newVolumeJob(p, "copy-of-"+name, fleet.VolumeParams{Source: name})
		clone.Progress = told.report
		h.requireNoError("clone "+name, h.CloneVolume(h.ctx, clone))
		h.wantVolume(p, clone.Name, o.Format, 16<<20)
		h.requireNoError("wipe "+name, h.WipeVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{})))
		h.wantVolume(p, name, o.Format, 16<<20)
		for range 2 {
			h.requireNoError("delete "+name, h.DeleteVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{})))
			h.requireNoError("delete the clone", h.DeleteVolume(h.ctx, h.newVolumeJob(p, clone.Name, fleet.VolumeParams{})))
		}
	}
	if all := h.poolStatus(p).Volumes; len(all) != 0 {
		t.Errorf("after the deletions, the pool still has the volumes %+v", all)
	}
}

// The result of the job was lost, and the job is repeated. A different job with the same volume name is refused.
func testRepeatedCreateVolume(t *testing.T, h *testHost) {
	p := h.newPool()
	var made string
	first := h.newVolumeJob(p, "data.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 4 << 20})
	first.RecordFile = func(file string) error { made = file; return nil }
	h.requireNoError("create", h.CreateVolume(h.ctx, first))
	again := h.newVolumeJob(p, "data.raw", first.Params)
	h.requireRefusal("create another volume with the name", h.CreateVolume(h.ctx, again), "data.raw")
	h.requireRefusal("clone to the name", h.CloneVolume(h.ctx, h.newVolumeJob(p, "data.raw", fleet.VolumeParams{Source: "data.raw"})), "data.raw")
	again.RecordedFile = made
	h.requireNoError("repeat the job", h.CreateVolume(h.ctx, again))

	forgetful := h.newVolumeJob(p, "lost.raw", first.Params)
	forgetful.RecordFile = func(string) error { return errors.New("state file not written") }
	h.requireRefusal("create without a record", h.CreateVolume(h.ctx, forgetful), "state file not written")
	h.wantNoVolume(p, "lost.raw")
	h.requireNoError("delete", h.DeleteVolume(h.ctx, again))
}

func testVolumeNames(t *testing.T, h *testHost) {
	p := h.newPool()
	for _, bad := range []string{"", ".", "..", "../up", "a/b", ".hidden", pooldir.MarkerFile, strings.Repeat("x", 300), "a\nb"} {
		in := h.newVolumeJob(p, bad, fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20})
		for act, do := range map[string]func() error{
			"create": func() error { return h.CreateVolume(h.ctx, in) }, "grow": func() error { return h.GrowVolume(h.ctx, in) },
			"wipe": func() error { return h.WipeVolume(h.ctx, in) }, "delete": func() error { return h.DeleteVolume(h.ctx, in) },
		} {
			if err := do(); fleet.CodeOf(err) != fleet.Invalid {
				t.Errorf("%s the volume %q: the error is %v, want fleet.Invalid", act, bad, err)
			}
		}
	}
	for act, err := range map[string]error{
		"grow":  h.GrowVolume(h.ctx, h.newVolumeJob(p, "none", fleet.VolumeParams{SizeBytes: 1})),
		"wipe":  h.WipeVolume(h.ctx, h.newVolumeJob(p, "none", fleet.VolumeParams{})),
		"clone": h.CloneVolume(h.ctx, h.newVolumeJob(p, "copy", fleet.VolumeParams{Source: "none"})),
	} {
		h.requireRefusal(act+" a missing volume", err, "none")
	}
	other := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: p.Name, Spec: p.Spec}
	in := h.newVolumeJob(other, "data.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20})
	h.requireRefusal("create in an unassigned pool", h.CreateVolume(h.ctx, in), "not set up")
	h.harness.StopPool(t, p)
	h.requireRefusal("create in a pool that is not active", h.CreateVolume(h.ctx, h.newVolumeJob(p, "data.raw", in.Params)), "not active")
}

func testVolumeInUse(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddImage(t, p, Image{Name: "tools.iso", Kind: ISO, SizeBytes: 1 << 20})
	vm := h.newVM(newDisk(p))
	vm.Spec.ISO = &fleet.Volref{PoolID: p.ID, Volume: "tools.iso"}
	h.apply(vm)
	own := vm.Spec.Disks[0].Volume
	if v, _ := h.reportedVolume(p, "tools.iso"); len(v.InDrive) != 1 || v.InDrive[0] != vm.ID || len(v.UsedBy) != 0 {
		t.Errorf("the volume of the inserted ISO image is %+v, want it in the VM's drive", v)
	}
	if v, _ := h.reportedVolume(p, own); v.ModifiedAt != nil {
		t.Errorf("the report of a VM's disk has the modification time %v, want none", v.ModifiedAt)
	}
	for _, state := range []string{"off", "on"} {
		for _, name := range []string{own, "tools.iso"} {
			for act, err := range map[string]error{
				"grow":   h.GrowVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{SizeBytes: 1 << 30})),
				"wipe":   h.WipeVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{})),
				"delete": h.DeleteVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{})),
			} {
				h.requireRefusal(act+" "+name+" of a guest that is "+state, err, vm.Name)
			}
		}
		copied := "copy-" + state
		switch err := h.CloneVolume(h.ctx, h.newVolumeJob(p, copied, fleet.VolumeParams{Source: own})); state {
		case "off":
			h.requireNoError("clone the disk of a stopped guest", err)
			h.wantVolume(p, copied, "qcow2", 8<<20)
			h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
		default:
			h.requireRefusal("clone the disk of a running guest", err, vm.Name)
			h.wantNoVolume(p, copied)
		}
	}
	h.requireNoError("delete the VM without its disks", h.DeleteVM(h.ctx, vm, h.pools, false))
	for _, name := range []string{own, "tools.iso", "copy-off"} {
		h.requireNoError("delete "+name, h.DeleteVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{})))
		h.wantNoVolume(p, name)
	}
	h.apply(h.newVM()) // the host still accepts jobs
}

func testVolumeWithBackingFile(t *testing.T, h *testHost) {
	p := h.newPool()
	for _, kind := range []ImageKind{Qcow2Backing, Qcow2Data} {
		name := "bad-" + string(kind)
		h.harness.AddImage(t, p, Image{Name: name, Kind: kind, SizeBytes: 4 << 20})
		for act, err := range map[string]error{
			"clone": h.CloneVolume(h.ctx, h.newVolumeJob(p, "copy", fleet.VolumeParams{Source: name})),
			"grow":  h.GrowVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{SizeBytes: 8 << 20})),
			"wipe":  h.WipeVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{})),
		} {
			h.requireRefusal(act+" "+name, err, name)
		}
		h.wantNoVolume(p, "copy")
		h.requireNoError("delete "+name, h.DeleteVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{})))
		h.wantNoVolume(p, name)
	}
}

// Files in a directory that replaces the pool's directory are not changed.
func testVolumesOfReplacedPoolDir(t *testing.T, h *testHost) {
	p := h.newPool()
	h.createVolume(p, "kept.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20})
	back := h.harness.ReplacePoolDir(t, p, PoolDirEmptied)
	for act, err := range map[string]error{
		"create": h.CreateVolume(h.ctx, h.newVolumeJob(p, "data.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20})),
		"delete": h.DeleteVolume(h.ctx, h.newVolumeJob(p, "kept.raw", fleet.VolumeParams{})),
	} {
		h.requireRefusal(act, err, "marker")
	}
	back()
	h.waitPool(p, "back", func(s fleet.PoolStatus) bool { return len(s.Volumes) == 1 })
	h.requireNoError("delete", h.DeleteVolume(h.ctx, h.newVolumeJob(p, "kept.raw", fleet.VolumeParams{})))
}
