package conformance

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// firstBootSource are the portal's first-boot files, and the number of times that the backend fetched them.
type firstBootSource struct {
	files   map[string][]byte
	err     error
	fetches int
}

func (s *firstBootSource) fetch(context.Context) (map[string][]byte, error) {
	s.fetches++
	return s.files, s.err
}

// fileTexts returns the content of the files as text, by name.
func fileTexts(files map[string][]byte) map[string]string {
	out := map[string]string{}
	for name, data := range files {
		out[name] = string(data)
	}
	return out
}

// First-boot data is written once for each version, is removed with the VM, and is never a drive of another VM.
func testFirstBoot(t *testing.T, h *testHost) {
	for _, kind := range []fleet.FirstBootKind{fleet.CloudInit, fleet.Ignition, fleet.Sysprep} {
		from := &firstBootSource{files: map[string][]byte{"meta-data": []byte("instance-id: x\n"), "user-data": []byte("#cloud-config\n"), "network-config": []byte("version: 2\n")}}
		switch kind {
		case fleet.Ignition:
			from.files = map[string][]byte{"config.ign": []byte(`{"ignition": {"version": "3.4.0"}}`)}
		case fleet.Sysprep:
			from.files = map[string][]byte{"Autounattend.xml": []byte("<unattend/>"), "unattend.xml": []byte("<unattend/>")}
		}
		h.testFirstBootKind(kind, from)
	}
}

func (h *testHost) testFirstBootKind(kind fleet.FirstBootKind, from *firstBootSource) {
	t := h.t
	vm := h.newVM()
	vm.Spec.FirstBoot = fleet.VMFirstBoot{Kind: kind, Number: 1}
	give := func(vm fleet.VM, putBack bool) error {
		return h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(a *hypervisor.ApplyWork) { a.FirstBoot, a.Reapply = from.fetch, putBack }))
	}
	reads := func(when string, want ...map[string]string) {
		t.Helper()
		got := h.harness.FirstBootData(t, vm.ID)
		slices.SortFunc(got, func(a, b map[string]string) int { return len(a["user-data"]) - len(b["user-data"]) })
		if !cmp.Equal(got, want) && len(got)+len(want) > 0 {
			t.Errorf("%s, %s: the guest's first-boot data differs (-want +got): %v", kind, when, cmp.Diff(want, got))
		}
	}
	asked := func(when string, want int) {
		t.Helper()
		if from.fetches != want {
			t.Errorf("%s, %s: the portal was queried %d times, want %d", kind, when, from.fetches, want)
		}
	}

	from.err = errors.New("no portal")
	if err := give(vm, false); err == nil || h.harness.PowerOf(t, vm.ID) != fleet.Absent {
		t.Errorf("%s: the VM was created without first-boot data: %v", kind, err)
	}
	from.err, from.fetches = nil, 0
	h.requireNoError("apply", give(vm, false))
	h.wantNoPendingChanges(vm, "created with first-boot data")
	reads("made", fileTexts(from.files))
	h.requireNoError("apply again", give(vm, false))
	asked("applied twice", 1)

	h.harness.DeleteFirstBootData(t, vm.ID)
	h.requireNoError("apply", give(vm, false))
	reads("after somebody removed the files", fileTexts(from.files))
	asked("created again", 2)

	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
	h.wantNoPendingChanges(vm, "started")
	first := fileTexts(from.files)
	vm.Spec.FirstBoot.Number++
	vm.Generation++
	next := map[string][]byte{}
	for name, data := range from.files {
		next[name] = append(slices.Clone(data), ' ')
	}
	from.files = next
	h.requireNoError("apply new first-boot data", give(vm, false))
	if s := h.wantStatus(vm.ID, vm.Generation); !slices.Equal(s.NextBoot, []string{"firstBoot"}) || len(s.Drift) != 0 {
		t.Errorf("%s: pending fields %q, want firstBoot; drift %+v", kind, s.NextBoot, s.Drift)
	}
	reads("applied while the guest runs", first, fileTexts(next))
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Stopped)
	h.requireNoError("apply", give(vm, false))
	h.wantNoPendingChanges(vm, "stopped with new first-boot data")
	reads("stopped with new first-boot data", fileTexts(next))

	h.harness.EditVM(t, vm.ID, VMEdit{RemoveFirstBoot: true})
	s := h.wantStatus(vm.ID, vm.Generation)
	if len(s.Drift) != 1 || s.Drift[0].Field != "firstBoot" || s.Drift[0].Actual != "none" {
		t.Fatalf("%s: after a removal on the host, the drift is %+v", kind, s.Drift)
	}
	h.requireNoError("apply", give(vm, false))
	if s := h.wantStatus(vm.ID, vm.Generation); len(s.Drift) != 1 {
		t.Errorf("%s: an apply restored the removed first-boot drive; the drift is %+v", kind, s.Drift)
	}
	h.requireNoError("reapply", give(vm, true))
	h.wantNoPendingChanges(vm, "reapplied")
	reads("reapplied", fileTexts(next))

	vm.Spec.FirstBoot = fleet.VMFirstBoot{}
	vm.Generation++
	h.requireNoError("remove the first-boot data", give(vm, false))
	h.wantNoPendingChanges(vm, "without first-boot data")
	reads("without first-boot data")

	vm.Spec.FirstBoot = fleet.VMFirstBoot{Kind: kind, Number: 3}
	vm.Generation++
	h.requireNoError("apply first-boot data again", give(vm, false))
	h.requireNoError("delete", h.DeleteVM(h.ctx, vm, nil, true))
	reads("deleted")
}
