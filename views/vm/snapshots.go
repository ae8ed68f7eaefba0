package vm

import (
	"fmt"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// snapshotChain is a chain of snapshots in the drawn tree. Branches hang beside their parent snapshot.
type snapshotChain []snapshotNode

// snapshotNode is one snapshot of a chain, or the marker of the VM's current state.
type snapshotNode struct {
	fleet.Snapshot
	Here     bool
	Branches []snapshotChain // branches that start at this snapshot
}

// snapshotChains returns the chains that start at the root snapshots. The snapshots up to the VM's current position
// form one chain, which is drawn as a straight line.
func snapshotChains(t *fleet.SnapshotTree) (out []snapshotChain) {
	if t == nil {
		return nil
	}
	toHere := map[fleet.SnapshotID]bool{}
	parent := map[fleet.SnapshotID]fleet.SnapshotID{}
	for _, s := range t.Snapshots {
		parent[s.ID] = s.Parent
	}
	for id, n := t.Current, 0; id != "" && n <= len(t.Snapshots); id, n = parent[id], n+1 {
		toHere[id] = true
	}
	var below func(id fleet.SnapshotID, left int) []snapshotChain
	below = func(id fleet.SnapshotID, left int) (lines []snapshotChain) {
		if left == 0 {
			return nil
		}
		if id == t.Current {
			lines = append(lines, snapshotChain{{Here: true}})
		}
		for _, s := range t.Snapshots {
			if s.Parent != id {
				continue
			}
			line := snapshotChain{{Snapshot: s}}
			rest := below(s.ID, left-1)
			if len(rest) > 0 {
				main := len(rest) - 1
				for i, r := range rest {
					if r[0].Here || toHere[r[0].ID] {
						main = i
					}
				}
				for i, r := range rest {
					if i != main {
						line[0].Branches = append(line[0].Branches, r)
					}
				}
				line = append(line, rest[main]...)
			}
			lines = append(lines, line)
		}
		return lines
	}
	return below("", len(t.Snapshots)+1)
}

func (p Page) snapshotTree() *fleet.SnapshotTree {
	if p.VM.Status == nil {
		return nil
	}
	return p.VM.Status.Snapshots
}

func (p Page) takeSnapshotAction() kit.ActionButton {
	_, why := p.VM.AllowsNewSnapshot(p.UnfinishedSnapshotJobs)
	return kit.ActionButton{Icon: "camera", Word: "Take snapshot…", Href: p.path("snapshots", "take"), Dialog: true, Why: why}.DisableFrom(p.Actions, fleet.ActEdit)
}

func (p Page) consolidateAction() kit.ActionButton {
	_, why := p.VM.AllowsSnapshotMerge(p.UnfinishedSnapshotJobs)
	return kit.ActionButton{Icon: "layers", Word: "Consolidate disks", Post: p.path("snapshots", "consolidate"), Back: p.tabPath(), Why: why}.DisableFrom(p.Actions, fleet.ActEdit)
}

// snapshotActions are the actions on one snapshot.
func (p Page) snapshotActions(s fleet.Snapshot) []kit.ActionButton {
	_, back := p.VM.AllowsRevert(s, p.UnfinishedSnapshotJobs)
	_, gone := p.VM.AllowsSnapshots(p.UnfinishedSnapshotJobs)
	at := func(what string) string { return p.path("snapshots", string(s.ID), what) }
	_, made := p.VM.AllowsVMFromSnapshot(s, p.UnfinishedSnapshotJobs)
	acts := []kit.ActionButton{
		kit.ActionButton{Icon: "copy", Word: "New VM from this snapshot…", Href: kit.Link{Path: "/vms/new"}.With("clone", string(p.VM.ID)).With("snapshot", string(s.ID)).String()}.DisableFrom(p.Actions, fleet.ActEdit).DisableFor(made),
		kit.ActionButton{Icon: "history", Word: "Revert to it…", Href: at("revert"), Dialog: true}.DisableFrom(p.Actions, fleet.ActEdit).DisableFor(back),
		kit.ActionButton{Icon: "trash-2", Word: "Delete…", Href: at("delete"), Dialog: true, Danger: true}.DisableFrom(p.Actions, fleet.ActEdit).DisableFor(gone),
	}
	if len(p.snapshotTree().Descendants(s.ID)) > 0 {
		acts = append(acts, kit.ActionButton{Icon: "trash-2", Word: "Delete with its descendants…", Href: at("delete") + "?subtree=1", Dialog: true, Danger: true}.DisableFrom(p.Actions, fleet.ActEdit).DisableFor(gone))
	}
	return acts
}

// snapshotTotalText describes the number of snapshots and their total size.
func snapshotTotalText(t *fleet.SnapshotTree) string {
	n := 0
	for _, s := range t.Snapshots {
		if !s.Deleted {
			n++
		}
	}
	return fmt.Sprintf("%s, %s, disks of %s", kit.CountText(n, "snapshot"), kit.Bytes(t.Bytes()), kit.CountText(t.Depth, "file"))
}

// snapshotCount is the number of the VM's snapshots.
func snapshotCount(vm fleet.VMView) int {
	if vm.Status == nil || vm.Status.Snapshots == nil {
		return 0
	}
	return len(vm.Status.Snapshots.Snapshots)
}

// snapshotsExceedDisks reports whether the snapshots use more space than the size of the VM's disks.
func (p Page) snapshotsExceedDisks() bool {
	var disks int64
	for _, d := range p.VM.Spec.Disks {
		disks += p.VM.DiskBytes(d)
	}
	return disks > 0 && p.snapshotTree().Bytes() > disks
}

func deletionEffectText(t *fleet.SnapshotTree, s fleet.Snapshot) string {
	n := 0
	for _, o := range t.Snapshots {
		if o.Parent == s.ID {
			n++
		}
	}
	if t.Current == s.ID {
		n++
	}
	if n < 2 {
		return "Deleted; its data is not merged yet"
	}
	return fmt.Sprintf("Deleted; its data is kept for %d later snapshots", n)
}

// SnapshotPage is a dialog about a VM's snapshot.
type SnapshotPage struct {
	VM       fleet.VMView
	Why      string         // why the action is not possible now
	Snapshot fleet.Snapshot // snapshot to revert to, or to delete
	Subtree  bool           // also delete all snapshots below Snapshot
	Below    []fleet.Snapshot
	In       SnapshotForm
	Errors   kit.Errors
}

// SnapshotForm holds the values that a person typed in a snapshot's dialog.
type SnapshotForm struct {
	Name, Description      string
	Memory, Quiesce, Start bool
}

func (p SnapshotPage) backPath() string { return views.TabPath(views.VMPath(p.VM.ID), "snapshots") }

func (p SnapshotPage) dialog(title, button string, danger bool, below ...string) kit.Dialog {
	return kit.Dialog{Title: title, Button: button, Danger: danger, Help: kit.HelpSnapshots, Back: p.backPath(), Action: views.VMPath(p.VM.ID, append([]string{"snapshots"}, below...)...), Why: p.Why}
}

func (p SnapshotPage) takeDialog() kit.Dialog {
	return p.dialog("Take a snapshot of "+p.VM.Name, "Take snapshot", false, "take")
}

func (p SnapshotPage) revertDialog() kit.Dialog {
	return p.dialog("Revert "+p.VM.Name+" to “"+p.Snapshot.Name+"”?", "Revert", true, string(p.Snapshot.ID), "revert")
}

func (p SnapshotPage) deleteDialog() kit.Dialog {
	title := "Delete the snapshot “" + p.Snapshot.Name + "”?"
	if p.Subtree {
		title = "Delete “" + p.Snapshot.Name + "” and its descendants?"
	}
	d := p.dialog(title, "Delete", true, string(p.Snapshot.ID), "delete")
	if p.Subtree {
		d.Action += "?subtree=1"
	}
	return d
}

// currentSnapshotText names the snapshot after which the VM's writes are in no snapshot.
func (p SnapshotPage) currentSnapshotText() string {
	if p.VM.Status != nil && p.VM.Status.Snapshots != nil {
		if s := p.VM.Status.Snapshots.SnapshotByID(p.VM.Status.Snapshots.Current); s != nil {
			return "the snapshot “" + s.Name + "”"
		}
	}
	return "the last snapshot"
}

// deletedSnapshotNames names the first of the snapshots that are deleted together with the chosen one.
func (p SnapshotPage) deletedSnapshotNames() string {
	var names []string
	for _, s := range p.Below {
		names = append(names, "“"+s.Name+"”")
	}
	if more := len(names) - 5; more > 0 {
		names = append(names[:5], kit.CountText(more, "more"))
	}
	return strings.Join(names, ", ")
}

// memoryField is the checkbox that includes the guest's memory in the snapshot. It is disabled with a reason if no host
// can save the memory of this VM.
func memoryField(p SnapshotPage) kit.Field {
	out := kit.Field{
		Name: "memory", Label: "Include the guest's memory", Error: p.Errors.At("memory"),
		Hint: "After a revert the guest continues from this moment. Takes up to " + kit.MiB(p.VM.Status.MemoryMiB) + ", and the guest is paused meanwhile.",
	}
	if why := p.VM.Spec.WhyNoMemorySnapshot(); why != "" {
		out.Hint, out.Attrs = why, templ.Attributes{"disabled": true}
	}
	return out
}
