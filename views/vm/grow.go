package vm

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// GrowDiskPage is the dialog that grows a disk.
type GrowDiskPage struct {
	VM     fleet.VMView
	Disk   fleet.Disk
	Number int    // index in the VM's disks
	Pool   string // pool of the disk
	Room   string // free space of the pool, in words
	Why    string // why the disk cannot grow now
	In     GrowDiskForm
	Errors kit.Errors
}

// GrowDiskForm holds the values that a person typed in a GrowDiskPage.
type GrowDiskForm struct {
	Size, Unit string
	Overcommit bool
}

func (p GrowDiskPage) dialog() kit.Dialog {
	return kit.Dialog{
		Title: "Grow disk " + strconv.Itoa(p.Number) + " of " + p.VM.Name, Button: "Grow disk", Back: views.VMPath(p.VM.ID),
		Action: diskActionPath(p.VM.ID, "grow", p.Disk.Ref()), Why: p.Why,
	}
}

func (p GrowDiskPage) effectText() string {
	if p.VM.HasGuest() {
		return "The running guest sees the new size immediately. Grow the partition and the file system in the guest."
	}
	return "The guest sees the new size at its next start. Grow the partition and the file system in the guest."
}

// currentSize is the disk's current size.
func (p GrowDiskPage) currentSize() string {
	if n := p.VM.DiskBytes(p.Disk); n > 0 {
		return kit.Bytes(n)
	}
	return "the size of its image"
}

// growDiskAction is the action that grows a disk.
func (p Page) growDiskAction(d fleet.Disk) kit.ActionButton {
	_, why := p.VM.AllowsDiskGrowth(d, p.DiskMigrations)
	return kit.ActionButton{Icon: "expand", Word: "Grow…", Href: diskActionPath(p.VM.ID, "grow", d.Ref()), Dialog: true}.WithReasonFrom(p.Actions, fleet.ActEdit).DisableFor(why)
}

// diskActions are the actions on a disk. Moving a disk is offered only to actors who may see hosts.
func (p Page) diskActions(d fleet.Disk) []kit.ActionButton {
	acts := []kit.ActionButton{p.growDiskAction(d), p.createImageAction(d)}
	if p.MaySeeHosts {
		acts = append(acts, p.moveDiskAction(d))
	}
	return acts
}

// pendingDiskSize is the requested size of a disk that the host has not grown yet. It is empty if the disk already has
// the requested size.
func pendingDiskSize(vm fleet.VMView, d fleet.Disk) string {
	if has := vm.DiskBytes(d); vm.Status != nil && d.SizeBytes > has && has > 0 {
		return kit.Bytes(d.SizeBytes)
	}
	return ""
}
