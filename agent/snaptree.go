package agent

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// SnapTree is what a host keeps of a VM's snapshots: which files each is made of, which of them the VM uses now, and what is being done to them.
// It is written before anything is done, and after, so that whoever finds it half-done can tell.
//
// A disk is a chain of files, each of which holds what was written since the one below was left alone. A snapshot is the file that the disk had; from
// then on nobody writes to that, but to a new one on top. A file is named by its path. The first of a chain is the disk's own volume.
type SnapTree struct {
	VM      fleet.VMID       `json:"vm"`
	Nodes   []SnapNode       `json:"nodes,omitempty"` // parents first
	Current fleet.SnapshotID `json:"current,omitempty"`
	Active  []SnapLayer      `json:"active,omitempty"`  // the files that the VM writes to, of disks that have snapshots
	Work    *SnapNote        `json:"work,omitempty"`    // what is being done
	Trash   []string         `json:"trash,omitempty"`   // files that nothing needs any more, and which are still to be removed
	Doomed  []string         `json:"doomed,omitempty"`  // files of others that go with the VM once its definition is gone
	Deleted fleet.JobID      `json:"deleted,omitempty"` // the newest order that deleted snapshots: given again, it does not miss them
	Done    []fleet.JobID    `json:"done,omitempty"`    // orders that have ended well: they are not done again
}

// SnapNode is one snapshot.
type SnapNode struct {
	fleet.Snapshot
	Spec    fleet.VMSpec `json:"spec"` // that was applied then
	Layers  []SnapLayer  `json:"layers"`
	Memory  string       `json:"memoryFile,omitempty"`
	Domain  string       `json:"domain,omitempty"` // its name then
	Paused  bool         `json:"paused,omitempty"` // the guest was paused then
	Running bool         `json:"running,omitempty"`
	State   string       `json:"state,omitempty"` // directory with copies of the firmware's variables and the TPM's state
	MemSize int64        `json:"memoryBytes,omitempty"`
	Seed    string       `json:"seed,omitempty"` // what the guest that ran had read when it first started: its memory goes back to no guest without that drive
}

// SnapLayer is a file of a disk's chain.
type SnapLayer struct {
	Disk  fleet.Volref `json:"disk"`
	File  string       `json:"file"`
	Base  string       `json:"base,omitempty"` // the file that it stands on; empty: it is the disk's own volume
	Bytes int64        `json:"bytes,omitempty"`
}

// SnapNote says what is being done, and how far it is.
type SnapNote struct {
	Job    fleet.JobID `json:"job"`
	Kind   SnapKind    `json:"kind"`
	Step   string      `json:"step,omitempty"`
	Node   *SnapNode   `json:"node,omitempty"`   // take: the snapshot that comes
	To     string      `json:"to,omitempty"`     // revert: which
	New    []SnapLayer `json:"new,omitempty"`    // take and revert: the files that the VM is to write to
	Resume bool        `json:"resume,omitempty"` // take: the guest was paused for it
	Frozen bool        `json:"frozen,omitempty"` // take: its file systems were brought to rest for it
	Merge  *SnapMerge  `json:"merge,omitempty"`
}

// SnapKind is a kind of work on snapshots.
type SnapKind string

const (
	SnapTake   SnapKind = "take"
	SnapRevert SnapKind = "revert"
	SnapMerges SnapKind = "merge"
)

// Steps from which there is no way back.
const (
	SnapOff         = "off"           // revert: what the guest has now is given up
	SnapChangesOver = "changing over" // merge: a guest that runs is told to leave the top for the base; whether it has, its QEMU alone knows for certain
	SnapCommitted   = "committed"     // merge: the base has all that the top had
)

// SnapMerge is what is in Top going into Base, on which it stands alone.
type SnapMerge struct {
	Disk fleet.Volref `json:"disk"`
	Top  string       `json:"top"`
	Base string       `json:"base"`
}

// mostDone is how many orders are remembered as done.
const mostDone = 32

// IsDone reports whether the order has ended well before.
func (t *SnapTree) IsDone(job fleet.JobID) bool { return job != "" && slices.Contains(t.Done, job) }

// Finish remembers the order as done.
func (t *SnapTree) Finish(job fleet.JobID) {
	if t.Work = nil; job == "" || t.IsDone(job) {
		return
	}
	t.Done = append(t.Done, job)
	t.Done = t.Done[max(0, len(t.Done)-mostDone):]
}

// Node is the snapshot with the id, be it deleted; nil: there is none.
func (t *SnapTree) Node(id fleet.SnapshotID) *SnapNode {
	i := slices.IndexFunc(t.Nodes, func(n SnapNode) bool { return n.ID == id })
	if i < 0 {
		return nil
	}
	return &t.Nodes[i]
}

// FileOf is the file that the disk had when the snapshot was taken: with what that stands on, it is the disk as it was. Empty: there is no such
// snapshot, or it had no such disk.
func (t *SnapTree) FileOf(id fleet.SnapshotID, disk fleet.Volref) string {
	if t == nil {
		return ""
	}
	if n := t.Node(id); n != nil && !n.Deleted {
		if l := layerOf(n.Layers, disk); l != nil {
			return l.File
		}
	}
	return ""
}

// Uses is the file that the VM writes to for the disk; empty: its own volume.
func (t *SnapTree) Uses(disk fleet.Volref) string {
	if l := layerOf(t.Active, disk); l != nil {
		return l.File
	}
	return ""
}

func layerOf(all []SnapLayer, disk fleet.Volref) *SnapLayer {
	i := slices.IndexFunc(all, func(l SnapLayer) bool { return l.Disk == disk })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// layers are all files of all chains, those in use last.
func (t *SnapTree) layers() (out []*SnapLayer) {
	for i := range t.Nodes {
		for k := range t.Nodes[i].Layers {
			out = append(out, &t.Nodes[i].Layers[k])
		}
	}
	for i := range t.Active {
		out = append(out, &t.Active[i])
	}
	return out
}

// On are the files that stand on the file.
func (t *SnapTree) On(file string) (out []*SnapLayer) {
	for _, l := range t.layers() {
		if l.Base == file {
			out = append(out, l)
		}
	}
	return out
}

// Files are all files that the tree needs, or still has to remove, each once.
func (t *SnapTree) Files() (out []string) {
	if t == nil {
		return nil
	}
	for _, l := range t.layers() {
		out = append(out, l.File)
	}
	out = append(out, t.Doomed...)
	if t.Work != nil {
		for _, l := range t.Work.New {
			out = append(out, l.File)
		}
		if t.Work.Node != nil && t.Work.Node.Memory != "" {
			out = append(out, t.Work.Node.Memory)
		}
	}
	for _, n := range t.Nodes {
		if n.Memory != "" {
			out = append(out, n.Memory)
		}
	}
	out = append(out, t.Trash...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Plan is the snapshot that an order asks for, with the files that the VM is to write to from then on. at is the path of a disk's own volume.
func (t *SnapTree) Plan(w SnapshotWork, spec fleet.VMSpec, at func(fleet.Volref) string) (node SnapNode, next []SnapLayer) {
	o := w.Order
	node = SnapNode{Spec: spec, Snapshot: fleet.Snapshot{ID: o.ID, Parent: t.Current, Name: o.Name, Description: o.Description, By: o.By}}
	for _, d := range spec.Disks {
		now := SnapLayer{Disk: d.Ref(), File: at(d.Ref())}
		if l := layerOf(t.Active, d.Ref()); l != nil {
			now = *l
		}
		node.Layers = append(node.Layers, now)
		node.Disks = append(node.Disks, d.Ref())
		next = append(next, SnapLayer{Disk: d.Ref(), File: besides(at(d.Ref()), string(o.ID), ".qcow2"), Base: now.File})
	}
	if o.Memory && len(node.Layers) > 0 {
		node.Memory = besides(at(node.Layers[0].Disk), string(o.ID), ".mem")
	}
	return node, next
}

// longestStem keeps the names of a disk's files within what a volume's name may have.
const longestStem = 150

// besides is the path of a new file of a disk, in the pool of its volume. id makes it another each time.
func besides(volume, id, ending string) string {
	stem := strings.TrimSuffix(path.Base(volume), ".qcow2")
	id = strings.ReplaceAll(id, "-", "")
	return path.Join(path.Dir(volume), stem[:min(len(stem), longestStem)]+"."+id[max(0, len(id)-12):]+ending)
}

// Took puts the new snapshot into the tree.
func (t *SnapTree) Took(node SnapNode, next []SnapLayer) {
	t.Nodes = append(t.Nodes, node)
	t.Current = node.ID
	t.use(next)
}

func (t *SnapTree) use(next []SnapLayer) {
	for _, n := range next {
		if l := layerOf(t.Active, n.Disk); l != nil {
			*l = n
		} else {
			t.Active = append(t.Active, n)
		}
	}
}

// Back is the files that the VM writes to once it is back at the snapshot. id makes their names.
func (t *SnapTree) Back(to SnapNode, id string, at func(fleet.Volref) string) (next []SnapLayer) {
	for _, l := range to.Layers {
		next = append(next, SnapLayer{Disk: l.Disk, File: besides(at(l.Disk), id, ".qcow2"), Base: l.File})
	}
	return next
}

// Reverted has the VM use the files, and gives up those that it used.
func (t *SnapTree) Reverted(to fleet.SnapshotID, next []SnapLayer) {
	for _, n := range next {
		if l := layerOf(t.Active, n.Disk); l != nil && l.File != n.File {
			t.Trash = append(t.Trash, l.File)
		}
	}
	t.use(next)
	t.Current = to
	t.loosen()
}

// Depth is of how many files the deepest disk is made.
func (t *SnapTree) Depth() (deepest int) {
	all := t.layers()
	for _, a := range t.Active {
		n := 1
		for base := a.Base; base != "" && n <= 2*fleet.MaxSnapshots; n++ {
			i := slices.IndexFunc(all, func(l *SnapLayer) bool { return l.File == base })
			if i < 0 {
				break
			}
			base = all[i].Base
		}
		deepest = max(deepest, n)
	}
	return deepest
}

// mostChanges is how many changes are told of a snapshot.
const mostChanges = 8

// Reported is the tree as people see it. now is what is applied to the VM; nil: that is not known. others are what libvirt has of its own; over are the
// files that somebody put on top of disks.
func (t *SnapTree) Reported(now *fleet.VMSpec, others []string, over []fleet.Overlay) *fleet.SnapshotTree {
	out := &fleet.SnapshotTree{Others: others[:min(len(others), fleet.MaxSnapshots)], Overlays: over}
	if t != nil {
		out.Current, out.Depth, out.Merges = t.Current, t.Depth(), len(t.Merges())
		if t.Work != nil {
			out.Unfinished = unfinished[t.Work.Kind]
		}
		for _, n := range t.Nodes {
			s := n.Snapshot
			s.Bytes = n.MemSize
			for _, l := range n.Layers {
				if l.Base != "" {
					s.Bytes += l.Bytes
				}
			}
			if now != nil && !n.Deleted {
				for _, c := range n.Spec.Diff(*now, false) {
					s.Changed = append(s.Changed, c.Words)
				}
				if more := len(s.Changed) - mostChanges; more > 0 {
					s.Changed = append(s.Changed[:mostChanges:mostChanges], fmt.Sprintf("%d more", more))
				}
			}
			out.Snapshots = append(out.Snapshots, s)
		}
	}
	if len(out.Snapshots)+len(out.Others)+len(out.Overlays) == 0 && out.Unfinished == "" {
		return nil
	}
	return out
}

var unfinished = map[SnapKind]string{
	SnapTake:   "A snapshot was begun.",
	SnapRevert: "The VM was being brought back to a snapshot.",
	SnapMerges: "Files of a deleted snapshot were being merged.",
}
