package vm

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// GrowPage asks how large a disk is to be.
type GrowPage struct {
	VM     fleet.VMView
	Disk   fleet.Disk
	Number int    // among the VM's disks
	Pool   string // where it is
	Room   string // what the pool has left, in words
	Why    string // why it cannot grow now
	In     GrowForm
	Errors kit.Errors
}

// GrowForm is what a person typed.
type GrowForm struct {
	Size       string
	Overcommit bool
}

func (p GrowPage) dialog() kit.Dialog {
	return kit.Dialog{
		Title: "Grow disk " + strconv.Itoa(p.Number) + " of " + p.VM.Name, Button: "Grow disk", Back: views.VMPath(p.VM.ID),
		Action: diskLink(p.VM.ID, "grow", p.Disk.Ref()), Why: p.Why,
	}
}

func (p GrowPage) how() string {
	if p.VM.On() {
		return "The guest runs on and sees the new size at once. The partition and the file system in it are grown in the guest."
	}
	return "The guest sees the new size when it starts. The partition and the file system in it are grown in the guest."
}

// now is how large the disk is.
func (p GrowPage) now() string {
	if n := p.VM.DiskBytes(p.Disk); n > 0 {
		return kit.Bytes(n)
	}
	return "as large as its image"
}

// grow is the act at a disk.
func (p Page) grow(d fleet.Disk) kit.Act {
	_, why := p.VM.AllowsGrow(d, p.Moving)
	return kit.Act{Icon: "expand", Word: "Grow…", Href: diskLink(p.VM.ID, "grow", d.Ref()), Dialog: true}.As(p.Actions, fleet.ActEdit).When(why)
}

// diskActs is what can be asked of a disk: only who sees hosts is told of other pools.
func (p Page) diskActs(d fleet.Disk) []kit.Act {
	acts := []kit.Act{p.grow(d), p.image(d)}
	if p.Infra {
		acts = append(acts, p.move(d))
	}
	return acts
}

// asked is the size that the disk is to have, where its host has not made it that large; empty: it has it.
func asked(vm fleet.VMView, d fleet.Disk) string {
	if has := vm.DiskBytes(d); vm.Status != nil && d.SizeBytes > has && has > 0 {
		return kit.Bytes(d.SizeBytes)
	}
	return ""
}
