package libvirt

import (
	"errors"

	"quantix/agent/image"
	"quantix/internal/fleet"
)

// cachedImage caches the soundness of an image with the identity of the file that it was read from.
type cachedImage struct {
	file    volumeID
	unsound string
}

// markUnsound marks the pool's volumes that are not sound images. It reads each file once, until the file changes. It
// skips VM disks, because guests may be writing to them and nothing is created from them. It skips raw files, because
// they have no header.
func markUnsound(volumes []fleet.Volume, known map[string]cachedImage) map[string]cachedImage {
	now := map[string]cachedImage{}
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
				continue // the next pool check tries again
			}
			s = cachedImage{file, h.Unsound()}
		}
		now[v.Name], v.Unsound = s, s.unsound
	}
	return now
}
