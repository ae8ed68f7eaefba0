package hypervisor

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// SnapTree is the host's record of a VM's snapshots: the files of each snapshot, the files that the VM currently uses,
// and the operation in progress. The backend writes the record before and after each operation, so that it can
// recognize an interrupted operation.
//
// A disk is a chain of files. Each file has the blocks written since its backing file became read-only. A snapshot is
// the top file of the disk at the time of the snapshot; later writes go to a new overlay. Files are identified by path.
// The base of a chain is the disk's own volume.
type SnapTree struct {
	VM      fleet.VMID       `json:"vm"`
	Nodes   []SnapNode       `json:"nodes,omitempty"` // parents first
	Current fleet.SnapshotID `json:"current,omitempty"`
	Active  []SnapLayer      `json:"active,omitempty"` // the top files of disks that have snapshots
	Work    *SnapOperation   `json:"work,omitempty"`   // the operation in progress
	// files that nothing uses any more and that the backend must still remove
	Trash []string `json:"trash,omitempty"`
	// files outside the tree that are removed after the VM's definition
	RemoveWithVM []string `json:"doomed,omitempty"`
	// the newest job that deleted snapshots: if this job is repeated, a missing snapshot is not an error
	Deleted fleet.JobID   `json:"deleted,omitempty"`
	Done    []fleet.JobID `json:"done,omitempty"` // jobs that succeeded and are not executed again
}

// SnapNode is one snapshot.
type SnapNode struct {
	fleet.Snapshot
	Spec    fleet.VMSpec `json:"spec"` // the spec at the time of the snapshot
	Layers  []SnapLayer  `json:"layers"`
	Memory  string       `json:"memoryFile,omitempty"`
	Domain  string       `json:"domain,omitempty"` // the domain's name at the time of the snapshot
	Paused  bool         `json:"paused,omitempty"` // the guest was paused at the time of the snapshot
	Running bool         `json:"running,omitempty"`
	// directory with copies of the firmware's variables and the TPM state
	State   string `json:"state,omitempty"`
	MemSize int64  `json:"memoryBytes,omitempty"`
	// file of the guest's first-boot drive at the time of the snapshot; the snapshot's memory can be restored only with
	// this file
	Seed string `json:"seed,omitempty"`
}

// SnapLayer is one file of a disk's backing chain.
type SnapLayer struct {
	Disk  fleet.Volref `json:"disk"`
	File  string       `json:"file"`
	Base  string       `json:"base,omitempty"` // the backing file; empty: File is the disk's own volume
	Bytes int64        `json:"bytes,omitempty"`
}

// SnapOperation records the operation in progress and its last step.
type SnapOperation struct {
	Job    fleet.JobID       `json:"job"`
	Kind   SnapOperationKind `json:"kind"`
	Step   string            `json:"step,omitempty"`
	Node   *SnapNode         `json:"node,omitempty"`   // take: the new snapshot
	To     string            `json:"to,omitempty"`     // revert: the target snapshot
	New    []SnapLayer       `json:"new,omitempty"`    // take and revert: the new top files of the VM
	Resume bool              `json:"resume,omitempty"` // take: the job paused the guest, which must be resumed
	Frozen bool              `json:"frozen,omitempty"` // take: the job froze the guest's file systems
	Merge  *SnapMerge        `json:"merge,omitempty"`
}

// SnapOperationKind is a kind of snapshot operation.
type SnapOperationKind string

const (
	SnapTake      SnapOperationKind = "take"
	SnapRevert    SnapOperationKind = "revert"
	SnapMergeKind SnapOperationKind = "merge"
)

// After these steps, an operation can only be completed and not undone.
const (
	SnapStepGuestOff = "off" // revert: the guest's current state is discarded
	// merge: QEMU switches a running guest from the overlay to the base; only QEMU knows whether the switch has
	// happened
	SnapStepPivoting  = "changing over"
	SnapStepCommitted = "committed" // merge: the base contains all data of the overlay
)

// SnapMerge describes the merge of Top into its backing file Base. Base backs no other file.
type SnapMerge struct {
	Disk fleet.Volref `json:"disk"`
	Top  string       `json:"top"`
	Base string       `json:"base"`
}

// maxDoneJobs is the number of succeeded jobs that the tree records.
const maxDoneJobs = 32

// IsJobDone reports whether the job has already succeeded.
func (t *SnapTree) IsJobDone(job fleet.JobID) bool { return job != "" && slices.Contains(t.Done, job) }

// FinishJob ends the operation in progress and records the job as done.
func (t *SnapTree) FinishJob(job fleet.JobID) {
	if t.Work = nil; job == "" || t.IsJobDone(job) {
		return
	}
	t.Done = append(t.Done, job)
	t.Done = t.Done[max(0, len(t.Done)-maxDoneJobs):]
}

// Node returns the snapshot with the ID, including a deleted one. It returns nil if there is none.
func (t *SnapTree) Node(id fleet.SnapshotID) *SnapNode {
	i := slices.IndexFunc(t.Nodes, func(n SnapNode) bool { return n.ID == id })
	if i < 0 {
		return nil
	}
	return &t.Nodes[i]
}

// SnapshotFile returns the disk's top file in the snapshot. With its backing chain, the file has the disk's content at
// the time of the snapshot. It is empty if the snapshot does not exist or does not have the disk.
func (t *SnapTree) SnapshotFile(id fleet.SnapshotID, disk fleet.Volref) string {
	if t == nil {
		return ""
	}
	if n := t.Node(id); n != nil && !n.Deleted {
		if l := layerOfDisk(n.Layers, disk); l != nil {
			return l.File
		}
	}
	return ""
}

// ActiveFile returns the file that the VM writes to for the disk. It is empty if that file is the disk's own volume.
func (t *SnapTree) ActiveFile(disk fleet.Volref) string {
	if l := layerOfDisk(t.Active, disk); l != nil {
		return l.File
	}
	return ""
}

func layerOfDisk(all []SnapLayer, disk fleet.Volref) *SnapLayer {
	i := slices.IndexFunc(all, func(l SnapLayer) bool { return l.Disk == disk })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// layers returns all files of all chains, with the files in use last.
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

// LayersBackedBy returns the files with the given backing file.
func (t *SnapTree) LayersBackedBy(file string) (out []*SnapLayer) {
	for _, l := range t.layers() {
		if l.Base == file {
			out = append(out, l)
		}
	}
	return out
}

// AllFiles returns all files that the tree needs or must still remove, without duplicates.
func (t *SnapTree) AllFiles() (out []string) {
	if t == nil {
		return nil
	}
	for _, l := range t.layers() {
		out = append(out, l.File)
	}
	out = append(out, t.RemoveWithVM...)
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

// PlanSnapshot returns the snapshot that a job requests, and the new top files of the VM. volumePath returns the path
// of a disk's own volume.
func (t *SnapTree) PlanSnapshot(w SnapshotWork, spec fleet.VMSpec, volumePath func(fleet.Volref) string) (node SnapNode, next []SnapLayer) {
	o := w.Params
	node = SnapNode{Spec: spec, Snapshot: fleet.Snapshot{ID: o.ID, Parent: t.Current, Name: o.Name, Description: o.Description, By: o.By}}
	for _, d := range spec.Disks {
		now := SnapLayer{Disk: d.Ref(), File: volumePath(d.Ref())}
		if l := layerOfDisk(t.Active, d.Ref()); l != nil {
			now = *l
		}
		node.Layers = append(node.Layers, now)
		node.Disks = append(node.Disks, d.Ref())
		next = append(next, SnapLayer{Disk: d.Ref(), File: overlayPath(volumePath(d.Ref()), string(o.ID), ".qcow2"), Base: now.File})
	}
	if o.Memory && len(node.Layers) > 0 {
		node.Memory = overlayPath(volumePath(node.Layers[0].Disk), string(o.ID), ".mem")
	}
	return node, next
}

// maxOverlayNameBytes limits how many bytes of the volume's name are in an overlay's file name. The file name must fit
// the length limit of volume names.
const maxOverlayNameBytes = 150

// overlayPath returns the path of a new file next to a disk's volume. id makes the name unique.
func overlayPath(volume, id, ending string) string {
	stem := strings.TrimSuffix(path.Base(volume), ".qcow2")
	id = strings.ReplaceAll(id, "-", "")
	return path.Join(path.Dir(volume), stem[:min(len(stem), maxOverlayNameBytes)]+"."+id[max(0, len(id)-12):]+ending)
}

// AddSnapshot adds the new snapshot to the tree.
func (t *SnapTree) AddSnapshot(node SnapNode, next []SnapLayer) {
	t.Nodes = append(t.Nodes, node)
	t.Current = node.ID
	t.setActiveLayers(next)
}

func (t *SnapTree) setActiveLayers(next []SnapLayer) {
	for _, n := range next {
		if l := layerOfDisk(t.Active, n.Disk); l != nil {
			*l = n
		} else {
			t.Active = append(t.Active, n)
		}
	}
}

// PlanRevert returns the VM's new top files after a revert to the snapshot. id makes their names unique. volumePath
// returns the path of a disk's own volume.
func (t *SnapTree) PlanRevert(to SnapNode, id string, volumePath func(fleet.Volref) string) (next []SnapLayer) {
	for _, l := range to.Layers {
		next = append(next, SnapLayer{Disk: l.Disk, File: overlayPath(volumePath(l.Disk), id, ".qcow2"), Base: l.File})
	}
	return next
}

// FinishRevert makes the layers in next the top files of the VM, and moves the previous top files to Trash.
func (t *SnapTree) FinishRevert(to fleet.SnapshotID, next []SnapLayer) {
	for _, n := range next {
		if l := layerOfDisk(t.Active, n.Disk); l != nil && l.File != n.File {
			t.Trash = append(t.Trash, l.File)
		}
	}
	t.setActiveLayers(next)
	t.Current = to
	t.pruneDeleted()
}

// ChainDepth returns the number of files in the longest backing chain in use.
func (t *SnapTree) ChainDepth() (deepest int) {
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

// maxReportedChanges limits the changes that are reported for one snapshot.
const maxReportedChanges = 8

// ReportedTree returns the tree for the host's report. applied is the spec applied to the VM; nil: unknown. others are
// the names of libvirt's own snapshots. overlays are the unmanaged overlays on the VM's disks.
func (t *SnapTree) ReportedTree(applied *fleet.VMSpec, others []string, overlays []fleet.Overlay) *fleet.SnapshotTree {
	out := &fleet.SnapshotTree{Others: others[:min(len(others), fleet.MaxSnapshots)], Overlays: overlays}
	if t != nil {
		out.Current, out.Depth, out.Merges = t.Current, t.ChainDepth(), len(t.PendingMerges())
		if t.Work != nil {
			out.Unfinished = unfinishedTexts[t.Work.Kind]
		}
		for _, n := range t.Nodes {
			s := n.Snapshot
			s.Bytes = n.MemSize
			for _, l := range n.Layers {
				if l.Base != "" {
					s.Bytes += l.Bytes
				}
			}
			if applied != nil && !n.Deleted {
				for _, c := range n.Spec.Diff(*applied, false) {
					s.Changed = append(s.Changed, c.Words)
				}
				if more := len(s.Changed) - maxReportedChanges; more > 0 {
					s.Changed = append(s.Changed[:maxReportedChanges:maxReportedChanges], fmt.Sprintf("%d more", more))
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

var unfinishedTexts = map[SnapOperationKind]string{
	SnapTake:      "A snapshot was interrupted.",
	SnapRevert:    "A revert to a snapshot was interrupted.",
	SnapMergeKind: "The merge of a deleted snapshot was interrupted.",
}
