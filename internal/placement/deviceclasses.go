package placement

import (
	"cmp"
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// DeviceClass is the state of a device class on one host, for one VM.
type DeviceClass struct {
	Name     string // empty: the actor may not see the class
	Devices  int    // devices of the class that the host reports
	Used     int    // devices that other VMs have
	Unusable int    // devices that the host cannot pass through
}

// free returns the number of devices that the VM can have. The VM's own devices count as free.
func (c DeviceClass) free() int { return max(0, c.Devices-c.Used-c.Unusable) }

// checkDeviceClasses adds a fault for each device class with too few free devices on the host.
func (f *faultCheck) checkDeviceClasses(spec fleet.VMSpec) {
	if len(spec.DeviceClasses) == 0 {
		return
	}
	if len(spec.HostDevices) == 0 { // the agent gets the devices in this field
		f.checkFields([]fleet.UsedField{{Name: "hostDevices", At: "deviceClasses[0].classId", Type: "host devices"}})
	}
	for i, d := range spec.DeviceClasses {
		at := fmt.Sprintf("spec.deviceClasses[%d].classId", i)
		class := f.host.DeviceClasses[d.ClassID]
		name := cmp.Or(class.Name, d.ClassName, "the device class")
		switch free, needs := class.free(), d.Number(); {
		case class.Devices == 0:
			f.addFault(at, "no device of "+name, "%s has no device of %s.", f.host.Name, name)
		case free == 0:
			f.addFault(at, "no free device of "+name, "%s has no free device of %s: %s.", f.host.Name, name, class.useText())
		case free < needs:
			f.addFault(at, "too few free devices of "+name, "%s has %s of %s, and the VM needs %d: %s.", f.host.Name, fleet.CountWithUnit(free, "free device"), name, needs, class.useText())
		}
	}
}

// useText describes the devices that are not free: "2 of 2 are in use".
func (c DeviceClass) useText() string {
	var out []string
	for _, part := range []struct {
		n    int
		text string
	}{{c.Used, "in use"}, {c.Unusable, "without an IOMMU group"}} {
		if part.n > 0 {
			verb := "are"
			if part.n == 1 {
				verb = "is"
			}
			out = append(out, fmt.Sprintf("%d of %d %s %s", part.n, c.Devices, verb, part.text))
		}
	}
	return cmp.Or(strings.Join(out, ", "), "none is in use")
}
