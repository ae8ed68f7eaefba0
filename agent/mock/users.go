package mock

import (
	"maps"
	"path"
	"slices"

	"quantix/internal/fleet"
)

// diskUsers are the domains by the files that they have as disks; h.mu is held.
func (h *Host) diskUsers() map[string][]fleet.VMID {
	out := map[string][]fleet.VMID{}
	for _, id := range slices.Sorted(maps.Keys(h.guests)) {
		g := h.guests[id]
		files := g.def.disks()
		if g.on() {
			files = append(files, g.live.disks()...)
		}
		if g.tree != nil {
			files = append(files, g.tree.Files()...)
		}
		for _, f := range files {
			if !slices.Contains(out[f], id) {
				out[f] = append(out[f], id)
			}
		}
	}
	return out
}

// driveUsers are the domains by the media that they have in their drives; h.mu is held.
func (h *Host) driveUsers() map[string][]fleet.VMID {
	out := map[string][]fleet.VMID{}
	for _, id := range slices.Sorted(maps.Keys(h.guests)) {
		g := h.guests[id]
		media := g.def.media()
		if g.on() {
			media = append(media, g.live.media()...)
		}
		slices.Sort(media)
		for _, f := range slices.Compact(media) {
			out[f] = append(out[f], id)
		}
	}
	return out
}

// free refuses a disk that another domain holds.
func (h *Host) free(file string, owner fleet.VMID) error { return h.freeFor(file, owner, false) }

// freeFor is free, but for domains that share the disk with one that is shareable.
func (h *Host) freeFor(file string, owner fleet.VMID, shareable bool) error {
	for _, g := range h.guests {
		if g.id != owner && g.uses(file) && (!shareable || !g.shares(file)) {
			return fleet.Errorf(fleet.Conflict, "The volume %s is in use by another VM of the host.", path.Base(file))
		}
	}
	return nil
}
