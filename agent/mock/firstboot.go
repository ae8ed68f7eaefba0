package mock

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// storeSeed fetches and stores the first-boot data if the definition will use the data and the host does not have it.
func (h *Host) storeSeed(ctx context.Context, in hypervisor.ApplyWork) error {
	want := in.VM.Spec.FirstBoot
	h.mu.Lock()
	plan := h.planEdit(in)
	needed := plan.SetsField("firstBoot")
	if g, ok := h.guests[in.VM.ID]; ok {
		needed = needed || g.persistent.spec.FirstBoot == want
	}
	_, have := h.seeds[in.VM.ID][want]
	h.mu.Unlock()
	if want.Kind == "" || !needed || have {
		return nil
	}
	if in.FirstBoot == nil {
		return fleet.Errorf(fleet.Conflict, "The VM's first-boot data is not on this host.")
	}
	files, err := in.FirstBoot(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seeds == nil {
		h.seeds = map[fleet.VMID]map[fleet.VMFirstBoot]map[string][]byte{}
	}
	if h.seeds[in.VM.ID] == nil {
		h.seeds[in.VM.ID] = map[fleet.VMFirstBoot]map[string][]byte{}
	}
	h.seeds[in.VM.ID][want] = maps.Clone(files)
	return nil
}

// deleteUnusedSeeds deletes first-boot data that neither the definition nor the running guest uses. The caller holds
// h.mu.
func (h *Host) deleteUnusedSeeds(g *guest) {
	maps.DeleteFunc(h.seeds[g.id], func(of fleet.VMFirstBoot, _ map[string][]byte) bool {
		has := of == g.persistent.spec.FirstBoot || g.isRunning() && of == g.live.spec.FirstBoot
		return !has
	})
	if len(h.seeds[g.id]) == 0 {
		delete(h.seeds, g.id)
	}
}

// Seeds returns the guest's first-boot data, as files by name for each version.
func (h *Host) Seeds(id fleet.VMID) []map[string][]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []map[string][]byte
	for _, first := range slices.SortedFunc(maps.Keys(h.seeds[id]), func(a, b fleet.VMFirstBoot) int { return cmp.Compare(a.Number, b.Number) }) {
		out = append(out, maps.Clone(h.seeds[id][first]))
	}
	return out
}
