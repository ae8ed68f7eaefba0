package fleet

import (
	"cmp"
	"slices"
	"strings"
)

// checkMinMemory adds an error if the balloon cannot shrink the guest to its memory minimum.
func (s VMSpec) checkMinMemory(c *Checks, at string) {
	m := s.Memory
	most := cmp.Or(m.BalloonMiB, s.MemoryMiB)
	pins := func(d VMHostDevice) bool {
		return strings.HasPrefix(d.Device, "pci/") || strings.HasPrefix(d.Device, "mdev/")
	}
	switch {
	case m.MinMiB == 0:
	case m.MinMiB > most:
		c.Add(at, "The VM may use %d MiB. Give less, or nothing.", most)
	case s.Devices.Balloon == "none":
		c.Add(at, "Without a balloon the guest gives no memory back. Choose a balloon, or leave this.")
	case m.Locked, m.HugePageKiB > 0:
		c.Add(at, "Locked memory and huge pages are not given back. Leave those, or this.")
	case slices.ContainsFunc(s.HostDevices, pins):
		c.Add(at, "A device of the host reaches all of the guest's memory, which is not given back then. Leave the device, or this.")
	case s.Security.Confidential != "":
		c.Add(at, "Encrypted memory is not given back. Leave this, or the encryption.")
	}
}
