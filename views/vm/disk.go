package vm

import (
	"net/url"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// DiskPage is the dialog about a missing disk.
type DiskPage struct {
	VM     fleet.VMView
	Disk   fleet.Disk
	Pool   string
	Text   string // text of the missing disk's fault
	In     ReplacementDiskForm
	Errors kit.Errors
}

// ReplacementDiskForm holds the values that a person typed for the replacement disk.
type ReplacementDiskForm struct {
	Volume, Size, Content string
}

func (p DiskPage) actionPath(act string) string {
	return kit.Link{Path: views.VMPath(p.VM.ID, "disks", act), Query: url.Values{"disk": {VolumeValue(p.Disk.PoolID, p.Disk.Volume)}}}.String()
}

func replacementSizeHint(d fleet.Disk) string {
	if d.Image != nil {
		return "Empty: the size of the image."
	}
	return ""
}
