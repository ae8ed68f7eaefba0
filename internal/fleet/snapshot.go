package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// SnapshotID identifies a snapshot of a VM. The portal creates it with the request.
type SnapshotID string

const (
	// MaxSnapshots is the maximum number of snapshots of a VM. A deleted snapshot counts while other snapshots depend
	// on it.
	MaxSnapshots = 32
	// DeepChain is the lowest length of a disk's backing chain that pages warn about, because each read may search
	// all files of the chain.
	DeepChain = 8

	MaxSnapshotName        = 80   // bytes
	maxSnapshotDescription = 1024 // bytes
)

// Snapshot is the state of a VM at one moment. The VM's host stores and reports it; the portal does not store it.
type Snapshot struct {
	ID          SnapshotID `json:"id"`
	Parent      SnapshotID `json:"parent,omitempty"` // snapshot that the VM's state was based on when this one was taken; empty: none
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	By          string     `json:"by,omitempty"`       // user who requested the snapshot
	At          time.Time  `json:"at"`                 // time by the host's clock
	Memory      bool       `json:"memory,omitempty"`   // includes the guest's memory: a revert resumes the guest
	Quiesced    bool       `json:"quiesced,omitempty"` // the guest agent froze the file systems
	Note        string     `json:"note,omitempty"`     // requested options that the host does not support, in a sentence
	Disks       []Volref   `json:"disks,omitempty"`    // disks in the VM's spec at that time
	Bytes       int64      `json:"bytes,omitempty"`    // storage used in addition to the disk itself
	Changed     []string   `json:"changed,omitempty"`  // settings of the VM that have changed since the snapshot, as text
	// Deleted: a user deleted the snapshot, but its data remains because several later snapshots depend on it.
	Deleted bool `json:"deleted,omitempty"`
}

// SnapshotTree holds all snapshots of a VM, as its host reports them.
type SnapshotTree struct {
	Snapshots  []Snapshot `json:"snapshots,omitempty"`  // parents before their children
	Current    SnapshotID `json:"current,omitempty"`    // snapshot that the VM's current state is based on
	Depth      int        `json:"depth,omitempty"`      // length of the longest backing chain of a disk
	Merges     int        `json:"merges,omitempty"`     // number of deleted snapshots' files that can be merged
	Unfinished string     `json:"unfinished,omitempty"` // an interrupted operation, in a sentence
	Others     []string   `json:"others,omitempty"`     // names of snapshots made with virsh, at most MaxSnapshots
	// Overlays are disks' overlay files that were created outside Quantix, such as by virsh snapshot-create.
	Overlays []Overlay `json:"overlays,omitempty"`
}

// Overlay is a file that the VM writes to instead of its disk's own volume.
type Overlay struct {
	Disk Volref `json:"disk"`
	File string `json:"file"` // file name
}

// SnapshotByID returns the snapshot with the ID; nil if there is none or it is deleted.
func (t *SnapshotTree) SnapshotByID(id SnapshotID) *Snapshot {
	if t == nil {
		return nil
	}
	i := slices.IndexFunc(t.Snapshots, func(s Snapshot) bool { return s.ID == id && !s.Deleted })
	if i < 0 {
		return nil
	}
	return &t.Snapshots[i]
}

// HasName reports whether a snapshot that is not deleted has the name.
func (t *SnapshotTree) HasName(name string) bool {
	return t != nil && slices.ContainsFunc(t.Snapshots, func(s Snapshot) bool { return s.Name == name && !s.Deleted })
}

// Descendants returns all descendants of the snapshot that are not deleted.
func (t *SnapshotTree) Descendants(id SnapshotID) (out []Snapshot) {
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

// Bytes returns the total storage of all snapshots.
func (t *SnapshotTree) Bytes() (sum int64) {
	if t != nil {
		for _, s := range t.Snapshots {
			sum += s.Bytes
		}
	}
	return sum
}

// HasSnapshots reports whether the VM has snapshots, so that overlays are on top of its disks.
func (t *SnapshotTree) HasSnapshots() bool { return t != nil && len(t.Snapshots) > 0 }

// SnapshotParams holds the parameters of a snapshot job.
type SnapshotParams struct {
	ID          SnapshotID `json:"id,omitempty"` // the new or the affected snapshot; empty for a consolidation
	Name        string     `json:"name,omitempty"`
	Description string     `json:"description,omitempty"`
	By          string     `json:"by,omitempty"`
	Memory      bool       `json:"memory,omitempty"`  // only for a new snapshot: include the memory of a running guest
	Quiesce     bool       `json:"quiesce,omitempty"` // only for a new snapshot: freeze the guest's file systems if the guest agent answers
	Start       bool       `json:"start,omitempty"`   // only for a revert: start the guest if the snapshot has no memory
	Subtree     bool       `json:"subtree,omitempty"` // only for a deletion: include all descendants
}

// SnapshotRef identifies a snapshot together with its VM.
type SnapshotRef struct {
	VMID VMID       `json:"vmId"`
	ID   SnapshotID `json:"id"`
}

// CheckSnapshot adds an error for an invalid name or description of a new snapshot.
func CheckSnapshot(c *Checks, name, description string) {
	invalid := func(text string) bool {
		return !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
	}
	switch {
	case strings.TrimSpace(name) == "":
		c.Add("name", "Enter a name for the snapshot.")
	case len(name) > MaxSnapshotName || invalid(name):
		c.Add("name", "A name has at most %d bytes, in one line, without control characters.", MaxSnapshotName)
	}
	if len(description) > maxSnapshotDescription || invalid(description) {
		c.Add("description", "A description has at most %d bytes, in one line, without control characters.", maxSnapshotDescription)
	}
}

// CutSnapshotName cuts a name to the length limit of a snapshot's name.
func CutSnapshotName(name string) string {
	return strings.TrimSpace(strings.ToValidUTF8(name[:min(len(name), MaxSnapshotName)], ""))
}

// snapshotKinds are the job kinds on snapshots. A VM runs one of them at a time.
var snapshotKinds = JobKindsWhere(func(k JobKindInfo) bool { return k.OnSnapshots })

// SnapshotJobKinds returns the job kinds on snapshots.
func SnapshotJobKinds() []JobKind { return slices.Clone(snapshotKinds) }

// AllowsSnapshots reports whether the VM's snapshots can be changed now; the string is the reason if not. busy lists
// the kinds of the VM's unfinished snapshot jobs.
func (v VMView) AllowsSnapshots(busy []JobKind) (bool, string) {
	ok, why := v.Allows(ActEdit)
	switch {
	case !ok:
		return false, why
	case v.whyUnreachable() != "":
		return false, v.whyUnreachable()
	case v.Phase == PhaseCreating || v.Status == nil || v.Status.Power == Absent:
		return false, "The VM is not on its host yet."
	case v.faultByCode(FaultUndefined) != nil:
		return false, "The VM runs without a definition. Reapply the definition first."
	case v.missingDiskFault() != nil:
		return false, v.missingDiskFault().Text
	case v.disksDrifted():
		return false, "The VM's disks were changed on the host. Accept the drift or reapply first."
	case slices.Contains(busy, VolumeCopy):
		return false, "Disks of a new VM are being copied from the VM's snapshots. Wait until the copy has ended."
	case len(busy) > 0:
		return false, fmt.Sprintf("%q is under way. Wait until it has ended.", busy[0].Info().Verb)
	case v.Status.Snapshots != nil && len(v.Status.Snapshots.Others) > 0:
		return false, fmt.Sprintf("The VM has snapshots made with virsh on the host (%s), which would be lost. Delete them with virsh first.", strings.Join(v.Status.Snapshots.Others, ", "))
	case v.Status.Snapshots != nil && len(v.Status.Snapshots.Overlays) > 0:
		o := v.Status.Snapshots.Overlays[0]
		return false, fmt.Sprintf("The disk %s has an overlay %s, created on the host outside Quantix. Merge the overlay there first (virsh blockcommit).", o.Disk.Volume, o.File)
	}
	return true, ""
}

// AllowsNewSnapshot reports whether a snapshot can be taken now; the string is the reason if not.
func (v VMView) AllowsNewSnapshot(busy []JobKind) (bool, string) {
	ok, why := v.AllowsSnapshots(busy)
	switch {
	case !ok:
		return false, why
	case v.Status.Snapshots != nil && len(v.Status.Snapshots.Snapshots) >= MaxSnapshots:
		return false, fmt.Sprintf("The VM has %d snapshots, which is the maximum. Delete one first.", MaxSnapshots)
	}
	for i, d := range v.Spec.Disks {
		if d.Encryption != "" {
			return false, diskLabel(i) + " is encrypted, so it has no snapshots: their files would not be encrypted."
		}
		if d.Shareable {
			return false, diskLabel(i) + " is shared with other VMs, so it has no snapshots."
		}
		if d.Format == Raw {
			return false, diskLabel(i) + " is a raw file, so it has no snapshots."
		}
		if !d.IsQcow2() {
			return false, diskLabel(i) + " is not a qcow2 file of a pool, so it has no snapshots."
		}
	}
	if d := v.Spec.physicalDisk(); d != "" {
		return false, "The VM has the physical disk " + d + ", which has no snapshots: a revert would leave it unchanged."
	}
	if len(v.Spec.Disks) == 0 {
		return false, "The VM has no disk."
	}
	return true, ""
}

// AllowsRevert reports whether the VM can be reverted to the snapshot now; the string is the reason if not.
func (v VMView) AllowsRevert(s Snapshot, busy []JobKind) (bool, string) {
	if ok, why := v.AllowsSnapshots(busy); !ok {
		return false, why
	}
	for _, d := range s.Disks {
		if !slices.ContainsFunc(v.Spec.Disks, func(o Disk) bool { return o.Ref() == d }) {
			return false, fmt.Sprintf("The VM no longer has the disk %s of the snapshot.", d.Volume)
		}
	}
	return true, ""
}

// DisksInSnapshot returns the VM's current disks that the snapshot includes.
func (v VMView) DisksInSnapshot(s Snapshot) (out []Disk) {
	for _, d := range v.Spec.Disks {
		if slices.Contains(s.Disks, d.Ref()) {
			out = append(out, d)
		}
	}
	return out
}

// AllowsVMFromSnapshot reports whether a VM can be created from the snapshot now; the string is the reason if not.
// Several VMs may be created from it at the same time, and the VM itself may run, because the snapshot's data does not
// change.
func (v VMView) AllowsVMFromSnapshot(s Snapshot, busy []JobKind) (bool, string) {
	own := slices.DeleteFunc(slices.Clone(busy), func(k JobKind) bool { return k == VolumeCopy })
	if ok, why := v.AllowsRevert(s, own); !ok {
		return false, why
	}
	if v.Status.Snapshots.Unfinished != "" {
		return false, v.Status.Snapshots.Unfinished + " Complete that operation first."
	}
	return true, ""
}

// AllowsSnapshotMerge reports whether the data of deleted snapshots can be merged now; the string is the reason if not.
func (v VMView) AllowsSnapshotMerge(busy []JobKind) (bool, string) {
	ok, why := v.AllowsSnapshots(busy)
	if ok && (v.Status.Snapshots == nil || v.Status.Snapshots.Merges == 0) {
		return false, "There is no data of deleted snapshots to merge."
	}
	return ok, why
}

// WhySnapshotsBlockDiskJobs returns why an operation on the VM's disks must wait until the VM's snapshots are deleted;
// empty: the VM has no snapshots.
func (v VMView) WhySnapshotsBlockDiskJobs() string {
	if v.Status != nil && v.Status.Snapshots.HasSnapshots() {
		return "The VM has snapshots that depend on its disks. Delete them first."
	}
	return ""
}
