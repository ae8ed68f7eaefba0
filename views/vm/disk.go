package vm

import (
	"net/url"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// DiskPage asks about a disk that is not there.
type DiskPage struct {
	VM     fleet.VMView
	Disk   fleet.Disk
	Pool   string
	Text   string // the fault's words
	In     NewDiskForm
	Errors kit.Errors
}

// NewDiskForm is what a person typed for the new disk.
type NewDiskForm struct {
	Volume, Size, Content string
}

func (p DiskPage) action(act string) string {
	return kit.Link{Path: views.VMPath(p.VM.ID, "disks", act), Query: url.Values{"disk": {Volume(p.Disk.PoolID, p.Disk.Volume)}}}.String()
}

func sizeHint(d fleet.Disk) string {
	if d.Image != nil {
		return "Leave it empty for a copy of the image's size."
	}
	return ""
}
