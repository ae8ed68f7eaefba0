package libvirt

import (
	"errors"

	"quantix/agent/image"
	"quantix/internal/fleet"
)

// seenImage is what a file was when it was last read.
type seenImage struct {
	file    volumeID
	unsound string
}

// tellUnsound adds to the volumes of a pool which of them are no sound images. A file is read once, until it changes. VMs' own disks are left out: their
// guests may be writing to them, and nothing is made from them. Raw files have no header to be judged by.
func tellUnsound(volumes []fleet.Volume, known map[string]seenImage) map[string]seenImage {
	now := map[string]seenImage{}
	for i := range volumes {
		v := &volumes[i]
		if v.Path == "" || v.Unfinished || v.Appliance != nil || v.Fault != "" || fleet.IsRawName(v.Name) || fleet.IsOwnDisk(v.Name) {
			continue
		}
		file := identifyVolume(v.Path)
		s, ok := known[v.Name]
		if !ok || s.file != file {
			h, err := inspectImage(v.Path)
			switch {
			case errors.Is(err, image.ErrCutOff):
				h.Fault = image.ErrCutOff.Error()
			case err != nil:
				continue // the next look tries again
			}
			s = seenImage{file, h.Unsound()}
		}
		now[v.Name], v.Unsound = s, s.unsound
	}
	return now
}
