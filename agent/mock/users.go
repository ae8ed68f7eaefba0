package mock

import (
	"maps"
	"path"
	"slices"

	"quantix/internal/fleet"
)

// diskUsers maps disk files to domains. The caller holds h.mu.
func (h *Host) diskUsers() map[string][]fleet.VMID {
	out := map[string][]fleet.VMID{}
	for _, id := range slices.Sorted(maps.Keys(h.guests)) {
		g := h.guests[id]
		files := g.persistent.disks()
		if g.isRunning() {
			files = append(files, g.live.disks()...)
		}
		if g.snapshotTree != nil {
			files = append(files, g.snapshotTree.AllFiles()...)
		}
		for _, f := range files {
			if !slices.Contains(out[f], id) {
				out[f] = append(out[f], id)
			}
		}
	}
	return out
}

// driveUsers maps media in drives to domains. The caller holds h.mu.
func (h *Host) driveUsers() map[string][]fleet.VMID {
	out := map[string][]fleet.VMID{}
	for _, id := range slices.Sorted(maps.Keys(h.guests)) {
		g := h.guests[id]
		media := g.persistent.media()
		if g.isRunning() {
			media = append(media, g.live.media()...)
		}
		slices.Sort(media)
		for _, f := range slices.Compact(media) {
			out[f] = append(out[f], id)
		}
	}
	return out
}

// refuseUsedDisk refuses a disk that another domain uses.
func (h *Host) refuseUsedDisk(file string, owner fleet.VMID) error {
	return h.refuseUsedDiskUnlessShared(file, owner, false)
}

// refuseUsedDiskUnlessShared is refuseUsedDisk but, if shareable is set, ignores domains that share the disk.
func (h *Host) refuseUsedDiskUnlessShared(file string, owner fleet.VMID, shareable bool) error {
	for _, g := range h.guests {
		if g.id != owner && g.usesFile(file) && (!shareable || !g.sharesFile(file)) {
			return fleet.Errorf(fleet.Conflict, "The volume %s is in use by another VM of the host.", path.Base(file))
		}
	}
	return nil
}
