package storage

import (
	"quantix/agent/image"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// maxAppliancesPerPool limits the appliances read in a pool, as each may have a descriptor of several MiB.
const maxAppliancesPerPool = 64

// cachedAppliance is an appliance with the identity of the source file.
type cachedAppliance struct {
	file      hostfile.Version
	appliance fleet.Appliance
}

// addAppliances adds the machine description to appliance volumes. It reads a file again only if the file has changed.
func addAppliances(volumes []fleet.Volume, known map[string]cachedAppliance) map[string]cachedAppliance {
	now := map[string]cachedAppliance{}
	for i := range volumes {
		v := &volumes[i]
		kind := fleet.ApplianceFormatByName(v.Name)
		if kind == "" || v.Unfinished || v.Fault != "" || v.Path == "" || len(now) >= maxAppliancesPerPool {
			continue
		}
		file := hostfile.VersionAt(v.Path)
		s, ok := known[v.Name]
		if !ok || s.file != file {
			a, err := readAppliance(v.Path, v.Name)
			if err != nil {
				continue // the next pool check tries again
			}
			s = cachedAppliance{file, *a}
		}
		now[v.Name] = s
		is := s.appliance
		v.Appliance, v.Format = &is, kind // libvirt reports unknown formats as raw
		if kind != fleet.FormatOVA && len(is.Disks) == 1 && is.Disks[0].SizeBytes > 0 {
			v.CapacityBytes = is.Disks[0].SizeBytes
		}
	}
	return now
}

// readAppliance reads the machine description of an appliance file.
func readAppliance(path, name string) (*fleet.Appliance, error) {
	f, err := hostfile.OpenImage(path, false)
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
