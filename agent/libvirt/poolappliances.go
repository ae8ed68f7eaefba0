package libvirt

import (
	"quantix/agent/image"
	"quantix/internal/fleet"
)

// mostAppliances is how many appliances of a pool are read: each may have a descriptor of some MiB.
const mostAppliances = 64

// seenAppliance is what a file was when it was last read.
type seenAppliance struct {
	file volumeID
	is   fleet.Appliance
}

// tellAppliances adds to the volumes of a pool what machines they are. A file is read once, until it changes.
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
				continue // the next look tries again
			}
			s = seenAppliance{file, *a}
		}
		now[v.Name] = s
		is := s.is
		v.Appliance, v.Format = &is, kind // libvirt takes what it does not know for raw
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
