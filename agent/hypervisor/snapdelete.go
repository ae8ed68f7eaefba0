package hypervisor

import (
	"slices"

	"quantix/internal/fleet"
)

// MarkDeleted marks the snapshot as deleted, with all its descendants if subtree is set. The snapshot's data stays
// until its files are merged.
func (t *SnapTree) MarkDeleted(id fleet.SnapshotID, subtree bool) {
	gone := map[fleet.SnapshotID]bool{id: true}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if !gone[n.ID] && (!subtree || !gone[n.Parent]) {
			continue
		}
		gone[n.ID] = true
		n.Deleted = true
		if n.Memory != "" {
			t.Trash = append(t.Trash, n.Memory)
		}
		if n.State != "" {
			t.Trash = append(t.Trash, n.State)
		}
		n.Memory, n.State, n.MemSize, n.Snapshot.Memory = "", "", 0, false
	}
	t.pruneDeleted()
}

// pruneDeleted moves files of deleted snapshots to Trash if they back no other file, and removes deleted snapshots
// without files.
func (t *SnapTree) pruneDeleted() {
	for changed := true; changed; {
		changed = false
		for i := range t.Nodes {
			n := &t.Nodes[i]
			for k := 0; n.Deleted && k < len(n.Layers); k++ {
				if len(t.LayersBackedBy(n.Layers[k].File)) > 0 {
					continue
				}
				if n.Layers[k].Base != "" { // the disk's own volume does not belong to the tree
					t.Trash = append(t.Trash, n.Layers[k].File)
				}
				n.Layers = slices.Delete(n.Layers, k, k+1)
				k--
				changed = true
			}
		}
	}
	for i := 0; i < len(t.Nodes); i++ {
		n := t.Nodes[i]
		if !n.Deleted || len(n.Layers) > 0 {
			continue
		}
		t.Nodes = slices.Delete(t.Nodes, i, i+1)
		for k := range t.Nodes {
			if t.Nodes[k].Parent == n.ID {
				t.Nodes[k].Parent = n.Parent
			}
		}
		if t.Current == n.ID {
			t.Current = n.Parent
		}
		i--
	}
	t.Active = slices.DeleteFunc(t.Active, func(l SnapLayer) bool { return l.Base == "" })
}

// PendingMerges lists the pending merges: each file of a deleted snapshot that backs exactly one file will be merged
// with that file.
func (t *SnapTree) PendingMerges() (out []SnapMerge) {
	for _, n := range t.Nodes {
		for _, l := range n.Layers {
			if on := t.LayersBackedBy(l.File); n.Deleted && len(on) == 1 {
				out = append(out, SnapMerge{Disk: l.Disk, Top: on[0].File, Base: l.File})
			}
		}
	}
	return out
}

// FinishMerge removes the merged overlay. The base replaces the overlay and backs the files that the overlay backed.
func (t *SnapTree) FinishMerge(m SnapMerge) {
	var under string
	for i := range t.Nodes {
		if k := slices.IndexFunc(t.Nodes[i].Layers, func(l SnapLayer) bool { return l.File == m.Base }); k >= 0 {
			under = t.Nodes[i].Layers[k].Base
			t.Nodes[i].Layers = slices.Delete(t.Nodes[i].Layers, k, k+1)
		}
	}
	for _, l := range t.layers() {
		switch {
		case l.File == m.Top:
			l.File, l.Base = m.Base, under
		case l.Base == m.Top:
			l.Base = m.Base
		}
	}
	t.Trash = append(t.Trash, m.Top)
	t.pruneDeleted()
}
