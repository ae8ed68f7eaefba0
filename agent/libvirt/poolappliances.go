package libvirt

import (
	"quantix/agent/image"
	"quantix/internal/fleet"
)

// mostAppliances limits the appliances read in a pool, as each may have a descriptor of several MiB.
const mostAppliances = 64

// seenAppliance caches an appliance with the identity of the file that it was read from.
type seenAppliance struct {
	file volumeID
	is   fleet.Appliance
}

// tellAppliances adds the machine description to appliance volumes. It reads each file once, until the file changes.
func tellAppliances(volumes []fleet.Volume, known map[string]seenAppliance) map[string]seenAppliance {
	now := map[string]seenAppliance{}
	for i := range volumes {
		v := &volumes[i]
		kind := fleet.ApplianceKind(v.Name)
		if kind == "" || v.Unfinished || v.Fault != "" || v.Path == "" || len(now) >= mostAppliances {
			continue
		}
		file := identifyVolume(v.Path)
		s, ok := known[v.Name]
		if !ok || s.file != file {
			a, err := readAppliance(v.Path, v.Name)
			if err != nil {
				continue // the next pool check tries again
			}
			s = seenAppliance{file, *a}
		}
		now[v.Name] = s
		is := s.is
		v.Appliance, v.Format = &is, kind // libvirt reports unknown formats as raw
		if kind != fleet.FormatOVA && len(is.Disks) == 1 && is.Disks[0].SizeBytes > 0 {
			v.CapacityBytes = is.Disks[0].SizeBytes
		}
	}
	return now
}

func readAppliance(path, name string) (*fleet.Appliance, error) {
	f, err := openImage(path, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return image.ReadAppliance(f, info.Size(), name)
}
