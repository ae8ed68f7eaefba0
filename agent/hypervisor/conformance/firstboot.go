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

// seeds are the portal's first-boot files, and the number of times that the backend fetched them.
type seeds struct {
	files map[string][]byte
	err   error
	asked int
}

func (s *seeds) fetch(context.Context) (map[string][]byte, error) {
	s.asked++
	return s.files, s.err
}

// textsOf returns the content of the files as text, by name.
func textsOf(files map[string][]byte) map[string]string {
	out := map[string]string{}
	for name, data := range files {
		out[name] = string(data)
	}
	return out
}

// First-boot data is written once for each version, is removed with the VM, and is never a drive of another VM.
func testFirstBoot(t *testing.T, h *host) {
	for _, kind := range []fleet.FirstBootKind{fleet.CloudInit, fleet.Ignition, fleet.Sysprep} {
		from := &seeds{files: map[string][]byte{"meta-data": []byte("instance-id: x\n"), "user-data": []byte("#cloud-config\n"), "network-config": []byte("version: 2\n")}}
		switch kind {
		case fleet.Ignition:
			from.files = map[string][]byte{"config.ign": []byte(`{"ignition": {"version": "3.4.0"}}`)}
		case fleet.Sysprep:
			from.files = map[string][]byte{"Autounattend.xml": []byte("<unattend/>"), "unattend.xml": []byte("<unattend/>")}
		}
		h.firstBoot(kind, from)
	}
}

func (h *host) firstBoot(kind fleet.FirstBootKind, from *seeds) {
	t := h.t
	vm := h.newVM()
	vm.Spec.FirstBoot = fleet.VMFirstBoot{Kind: kind, Number: 1}
	give := func(vm fleet.VM, putBack bool) error {
		return h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(a *hypervisor.Apply) { a.FirstBoot, a.Reapply = from.fetch, putBack }))
	}
	reads := func(when string, want ...map[string]string) {
		t.Helper()
		got := h.h.Seeds(t, vm.ID)
		slices.SortFunc(got, func(a, b map[string]string) int { return len(a["user-data"]) - len(b["user-data"]) })
		if !cmp.Equal(got, want) && len(got)+len(want) > 0 {
			t.Errorf("%s, %s: the guest reads %v", kind, when, cmp.Diff(want, got))
		}
	}
	asked := func(when string, want int) {
		t.Helper()
		if from.asked != want {
			t.Errorf("%s, %s: the portal was queried %d times, want %d", kind, when, from.asked, want)
		}
	}

	from.err = errors.New("no portal")
	if err := give(vm, false); err == nil || h.h.Power(t, vm.ID) != fleet.Absent {
		t.Errorf("%s: created without first-boot data: %v", kind, err)
	}
	from.err, from.asked = nil, 0
	h.must("apply", give(vm, false))
	h.wantSettled(vm, "created with first-boot data")
	reads("made", textsOf(from.files))
	h.must("apply again", give(vm, false))
	asked("applied twice", 1)

	h.h.DropSeeds(t, vm.ID)
	h.must("apply", give(vm, false))
	reads("after somebody removed the files", textsOf(from.files))
	asked("created again", 2)

	h.must("start", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
	h.wantSettled(vm, "started")
	first := textsOf(from.files)
	vm.Spec.FirstBoot.Number++
	vm.Generation++
	next := map[string][]byte{}
	for name, data := range from.files {
		next[name] = append(slices.Clone(data), ' ')
	}
	from.files = next
	h.must("apply new first-boot data", give(vm, false))
	if s := h.status(vm.ID, vm.Generation); !slices.Equal(s.NextBoot, []string{"firstBoot"}) || len(s.Drift) != 0 {
		t.Errorf("%s: next boot %q, drift %+v", kind, s.NextBoot, s.Drift)
	}
	reads("applied while the guest runs", first, textsOf(next))
	h.must("stop", h.StopVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Stopped)
	h.must("apply", give(vm, false))
	h.wantSettled(vm, "stopped with new first-boot data")
	reads("stopped with new first-boot data", textsOf(next))

	h.h.Change(t, vm.ID, Change{FirstBoot: true})
	s := h.status(vm.ID, vm.Generation)
	if len(s.Drift) != 1 || s.Drift[0].Field != "firstBoot" || s.Drift[0].Actual != "none" {
		t.Fatalf("%s: after a removal on the host, the drift is %+v", kind, s.Drift)
	}
	h.must("apply", give(vm, false))
	if s := h.status(vm.ID, vm.Generation); len(s.Drift) != 1 {
		t.Errorf("%s: another edit restored the removed drive: %+v", kind, s.Drift)
	}
	h.must("reapply", give(vm, true))
	h.wantSettled(vm, "reapplied")
	reads("reapplied", textsOf(next))

	vm.Spec.FirstBoot = fleet.VMFirstBoot{}
	vm.Generation++
	h.must("remove the first-boot data", give(vm, false))
	h.wantSettled(vm, "without first-boot data")
	reads("without first-boot data")

	vm.Spec.FirstBoot = fleet.VMFirstBoot{Kind: kind, Number: 3}
	vm.Generation++
	h.must("apply first-boot data again", give(vm, false))
	h.must("delete", h.DeleteVM(h.ctx, vm, nil, true))
	reads("deleted")
}
