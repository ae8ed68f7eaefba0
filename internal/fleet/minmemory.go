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
		c.Add(at, "The memory minimum must not exceed the VM's %d MiB.", most)
	case s.Devices.Balloon == "none":
		c.Add(at, "A memory minimum needs a balloon. Choose a balloon, or remove the minimum.")
	case m.Locked, m.HugePageKiB > 0:
		c.Add(at, "The balloon cannot reclaim locked memory and huge pages. Remove them, or the memory minimum.")
	case slices.ContainsFunc(s.HostDevices, pins), len(s.DeviceClasses) > 0:
		c.Add(at, "The balloon cannot reclaim memory from a guest with a passed-through device. Remove the device, or the memory minimum.")
	case s.Security.Confidential != "":
		c.Add(at, "The balloon cannot reclaim encrypted memory. Remove the memory minimum, or disable the encryption.")
	}
}
