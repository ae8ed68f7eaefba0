package vm

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// DiskImagePage is the dialog that creates an image from a disk.
type DiskImagePage struct {
	VM     fleet.VMView
	Disk   fleet.Disk
	Number int    // index in the VM's disks
	Why    string // why no image can be created now
	In     DiskImageForm
	Errors kit.Errors
}

// DiskImageForm holds the values that a person typed in an DiskImagePage.
type DiskImageForm struct{ Name, Description, Family, System, Release, Arch string }

func (p DiskImagePage) dialog() kit.Dialog {
	return kit.Dialog{
		Title: "Create an image from disk " + strconv.Itoa(p.Number) + " of " + p.VM.Name, Button: "Create image", Back: views.VMPath(p.VM.ID),
		Action: diskActionPath(p.VM.ID, "image", p.Disk.Ref()), Why: p.Why,
	}
}

func imageFamilies() []kit.Option {
	out := []kit.Option{{Text: "Unspecified"}}
	for _, f := range fleet.OSFamilies {
		out = append(out, kit.Option{Value: f, Text: f})
	}
	return out
}

// createImageAction is the action that creates an image from a disk.
func (p Page) createImageAction(d fleet.Disk) kit.ActionButton {
	_, why := p.VM.AllowsImage(d.Ref())
	act := kit.ActionButton{Icon: "disc", Word: "Create image…", Href: diskActionPath(p.VM.ID, "image", d.Ref()), Dialog: true}
	return act.RequirePermissionIn(p.Actor, policy.VMChange, p.VM.ProjectID).DisableFor(why)
}
