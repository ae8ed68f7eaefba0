package storage

import (
	"errors"

	"quantix/agent/image"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// cachedImage is the result of an image check with the identity of the checked file.
type cachedImage struct {
	file          hostfile.Version
	invalidReason string
}

// markInvalidImages sets the fault of the pool's invalid images. It reads a file again only if the file has changed. It
// skips VM disks, because guests may be writing to them and no VM is created from them. It skips raw files, because raw
// files have no header.
func markInvalidImages(volumes []fleet.Volume, known map[string]cachedImage) map[string]cachedImage {
	now := map[string]cachedImage{}
	for i := range volumes {
		v := &volumes[i]
		if v.Path == "" || v.Unfinished || v.Appliance != nil || v.Fault != "" || fleet.IsRawName(v.Name) || fleet.IsVMDiskName(v.Name) {
			continue
		}
		file := hostfile.VersionAt(v.Path)
		s, ok := known[v.Name]
		if !ok || s.file != file {
			h, err := hostfile.InspectImage(v.Path)
			switch {
			case errors.Is(err, image.ErrHeaderTruncated):
				h.HeaderFault = image.ErrHeaderTruncated.Error()
			case err != nil:
				continue // the next pool check tries again
			}
			s = cachedImage{file, h.InvalidReason()}
		}
		now[v.Name], v.NotImageReason = s, s.invalidReason
	}
	return now
}
