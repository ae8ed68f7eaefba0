package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// SnapshotID names a snapshot of a VM. The portal makes it when one is asked for.
type SnapshotID string

const (
	// MaxSnapshots is how many a VM may have, those that are deleted and still stood on among them.
	MaxSnapshots = 32
	// DeepChain is from how many files below a disk on each read may have to look through so many that people are warned.
	DeepChain = 8

	maxSnapshotName        = 80   // bytes
	maxSnapshotDescription = 1024 // bytes
)

// Snapshot is a VM as it was at one moment. Its host keeps it and tells of it: the portal keeps none.
type Snapshot struct {
	ID          SnapshotID `json:"id"`
	Parent      SnapshotID `json:"parent,omitempty"` // that which the VM stood on when it was taken; empty: none
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	By          string     `json:"by,omitempty"`       // who asked for it
	At          time.Time  `json:"at"`                 // by the host's clock
	Memory      bool       `json:"memory,omitempty"`   // the guest's memory is in it: it runs on from there
	Quiesced    bool       `json:"quiesced,omitempty"` // the guest's agent had brought its file systems to rest
	Note        string     `json:"note,omitempty"`     // what was asked for and could not be, in a sentence
	Disks       []Volref   `json:"disks,omitempty"`    // of the spec at that time
	Bytes       int64      `json:"bytes,omitempty"`    // that it takes on its storage beside the disk itself
	Changed     []string   `json:"changed,omitempty"`  // what of the VM's settings is else since, in words
	// Deleted: people deleted it, and only its data is kept, because several that came after stand on it.
	Deleted bool `json:"deleted,omitempty"`
}

// SnapshotTree is all snapshots of a VM, as its host has them.
type SnapshotTree struct {
	Snapshots  []Snapshot `json:"snapshots,omitempty"`  // parents before what came after them
	Current    SnapshotID `json:"current,omitempty"`    // on which the VM stands as it is now
	Depth      int        `json:"depth,omitempty"`      // files that the deepest disk is made of
	Merges     int        `json:"merges,omitempty"`     // files of deleted snapshots that can be merged, and are not yet
	Unfinished string     `json:"unfinished,omitempty"` // what was begun and not ended, in a sentence
	Others     []string   `json:"others,omitempty"`     // names of those that somebody made with virsh: at most MaxSnapshots
	Overlays   []Overlay  `json:"overlays,omitempty"`   // files that somebody put on top of disks, as virsh does for a snapshot
}

// Overlay is a file that the VM writes to in the place of its disk's own.
type Overlay struct {
	Disk Volref `json:"disk"`
	File string `json:"file"` // its name
}

// Of is the snapshot with the id; nil: the tree has none, or only its data.
func (t *SnapshotTree) Of(id SnapshotID) *Snapshot {
	if t == nil {
		return nil
	}
	i := slices.IndexFunc(t.Snapshots, func(s Snapshot) bool { return s.ID == id && !s.Deleted })
	if i < 0 {
		return nil
	}
	return &t.Snapshots[i]
}

// Named reports whether a snapshot that is not deleted has the name.
func (t *SnapshotTree) Named(name string) bool {
	return t != nil && slices.ContainsFunc(t.Snapshots, func(s Snapshot) bool { return s.Name == name && !s.Deleted })
}

// Below are the snapshots that came after it, and those that came after them, but for deleted ones.
func (t *SnapshotTree) Below(id SnapshotID) (out []Snapshot) {
	if t == nil {
		return nil
	}
	under := map[SnapshotID]bool{id: true}
	for _, s := range t.Snapshots {
		if s.ID != id && under[s.Parent] {
			if under[s.ID] = true; !s.Deleted {
				out = append(out, s)
			}
		}
	}
	return out
}

// Bytes is what all of them take.
func (t *SnapshotTree) Bytes() (sum int64) {
	if t != nil {
		for _, s := range t.Snapshots {
			sum += s.Bytes
		}
	}
	return sum
}

// Has reports whether files of snapshots stand between the VM and its disks.
func (t *SnapshotTree) Has() bool { return t != nil && len(t.Snapshots) > 0 }

// SnapshotOrder is what a host is to do about a VM's snapshots.
type SnapshotOrder struct {
	ID          SnapshotID `json:"id,omitempty"` // the new one, or which; empty: none, only merge what can be
	Name        string     `json:"name,omitempty"`
	Description string     `json:"description,omitempty"`
	By          string     `json:"by,omitempty"`
	Memory      bool       `json:"memory,omitempty"`  // take: with the memory of a guest that runs
	Quiesce     bool       `json:"quiesce,omitempty"` // take: let the guest's agent bring its file systems to rest, where it answers
	Start       bool       `json:"start,omitempty"`   // revert: start the guest where the snapshot has no memory
	Subtree     bool       `json:"subtree,omitempty"` // delete: with all that came after it
}

// SnapshotOf names a snapshot of a VM.
type SnapshotOf struct {
	VMID VMID       `json:"vmId"`
	ID   SnapshotID `json:"id"`
}

// CheckSnapshot notes what of a new snapshot's name and description cannot be.
func CheckSnapshot(c *Checks, name, description string) {
	odd := func(text string) bool {
		return !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
	}
	switch {
	case strings.TrimSpace(name) == "":
		c.Add("name", "Give the snapshot a name.")
	case len(name) > maxSnapshotName || odd(name):
		c.Add("name", "A name has at most %d bytes, in one line, without control characters.", maxSnapshotName)
	}
	if len(description) > maxSnapshotDescription || odd(description) {
		c.Add("description", "A description has at most %d bytes, in one line, without control characters.", maxSnapshotDescription)
	}
}

// CutSnapshotName is the name within what a snapshot's name may have.
func CutSnapshotName(name string) string {
	return strings.TrimSpace(strings.ToValidUTF8(name[:min(len(name), maxSnapshotName)], ""))
}

// snapshotKinds are the kinds of work on snapshots, of which a VM has one at a time.
var snapshotKinds = KindsWhere(func(k Kind) bool { return k.Snapshots })

// SnapshotKinds lists them.
func SnapshotKinds() []JobKind { return slices.Clone(snapshotKinds) }

// AllowsSnapshots says whether anything can be done now about the VM's snapshots, and if not, why. busy: the work on them that has not ended.
func (v VMView) AllowsSnapshots(busy []JobKind) (bool, string) {
	ok, why := v.Allows(ActEdit)
	switch {
	case !ok:
		return false, why
	case v.Phase == PhaseUnknown:
		return false, "Its host is not heard, so nobody knows what the VM does now."
	case v.Phase == PhaseCreating || v.Status == nil || v.Status.Power == Absent:
		return false, "The VM is not on its host yet."
	case v.fault(FaultUndefined) != nil:
		return false, "The VM runs without a definition. Put it back first."
	case v.missingDisk() != nil:
		return false, v.missingDisk().Text
	case v.changedDisks():
		return false, "Somebody changed its disks on the host. Take that over, or put it back, first."
	case slices.Contains(busy, VolumeCopy):
		return false, "Disks of a new VM are being copied from its snapshots. Wait until that has ended."
	case len(busy) > 0:
		return false, fmt.Sprintf("%q is under way. Wait until it has ended.", busy[0].Is().Verb)
	case v.Status.Snapshots != nil && len(v.Status.Snapshots.Others) > 0:
		return false, fmt.Sprintf("Somebody made snapshots with virsh on the host (%s), which would be lost. Delete them there first.", strings.Join(v.Status.Snapshots.Others, ", "))
	case v.Status.Snapshots != nil && len(v.Status.Snapshots.Overlays) > 0:
		o := v.Status.Snapshots.Overlays[0]
		return false, fmt.Sprintf("Somebody had the disk %s go on in %s on the host. Merge that there first (virsh blockcommit).", o.Disk.Volume, o.File)
	}
	return true, ""
}

// AllowsTake says whether a snapshot can be taken now.
func (v VMView) AllowsTake(busy []JobKind) (bool, string) {
	ok, why := v.AllowsSnapshots(busy)
	switch {
	case !ok:
		return false, why
	case v.Status.Snapshots != nil && len(v.Status.Snapshots.Snapshots) >= MaxSnapshots:
		return false, fmt.Sprintf("The VM has %d snapshots, and none has more. Delete one first.", MaxSnapshots)
	}
	for i, d := range v.Spec.Disks {
		if d.Encryption != "" {
			return false, diskNumber(i) + " is encrypted, so it has no snapshots: their files would hold what it keeps secret."
		}
		if d.Shareable {
			return false, diskNumber(i) + " is shared with other VMs, so no snapshot holds what they write to it."
		}
		if d.Format == Raw {
			return false, diskNumber(i) + " is a raw file, which holds its newest data alone, so it has no snapshots."
		}
		if !d.IsQcow2() {
			return false, diskNumber(i) + " is no qcow2 file of a pool, so it has no snapshots."
		}
	}
	if d := v.Spec.physicalDisk(); d != "" {
		return false, "The VM has the physical disk " + d + ", of which there are no snapshots: the others would go back without it."
	}
	if len(v.Spec.Disks) == 0 {
		return false, "The VM has no disk."
	}
	return true, ""
}

// AllowsRevert says whether the VM can go back to the snapshot now.
func (v VMView) AllowsRevert(s Snapshot, busy []JobKind) (bool, string) {
	if ok, why := v.AllowsSnapshots(busy); !ok {
		return false, why
	}
	for _, d := range s.Disks {
		if !slices.ContainsFunc(v.Spec.Disks, func(o Disk) bool { return o.Ref() == d }) {
			return false, fmt.Sprintf("The VM has no disk %s any more, which it had then.", d.Volume)
		}
	}
	return true, ""
}

// DisksIn are the disks of the VM as it is now that the snapshot has, too.
func (v VMView) DisksIn(s Snapshot) (out []Disk) {
	for _, d := range v.Spec.Disks {
		if slices.Contains(s.Disks, d.Ref()) {
			out = append(out, d)
		}
	}
	return out
}

// AllowsNew says whether a VM can be made from the snapshot now. Others may be at it, too, and the VM may run: what the snapshot has does not change.
func (v VMView) AllowsNew(s Snapshot, busy []JobKind) (bool, string) {
	own := slices.DeleteFunc(slices.Clone(busy), func(k JobKind) bool { return k == VolumeCopy })
	if ok, why := v.AllowsRevert(s, own); !ok {
		return false, why
	}
	if v.Status.Snapshots.Unfinished != "" {
		return false, v.Status.Snapshots.Unfinished + " That has to be brought to an end first."
	}
	return true, ""
}

// AllowsMerge says whether what deleted snapshots left can be merged now.
func (v VMView) AllowsMerge(busy []JobKind) (bool, string) {
	ok, why := v.AllowsSnapshots(busy)
	if ok && (v.Status.Snapshots == nil || v.Status.Snapshots.Merges == 0) {
		return false, "Nothing is left of deleted snapshots that can be merged."
	}
	return ok, why
}

// HeldBySnapshots is why what is done to a VM's disks waits until it has no snapshots; empty: it has none.
func (v VMView) HeldBySnapshots() string {
	if v.Status != nil && v.Status.Snapshots.Has() {
		return "The VM has snapshots, of which its disks are a part. Delete them first."
	}
	return ""
}
