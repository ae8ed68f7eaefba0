package fleet

import (
	"cmp"
	"strconv"
)

// VMDeviceClass is a number of host devices of one device class. Placement chooses the devices, which only the VM's host
// and operators see.
type VMDeviceClass struct {
	ClassID DeviceClassID `json:"classId"`
	Count   int           `json:"count,omitempty" doc:"Number of devices; left out: 1"`
	// ClassName is set by the portal when a user may see the class, and never stored.
	ClassName string `json:"className,omitempty" doc:"Name of the class if you may see it; ignored in requests"`
}

// Number returns the number of devices.
func (d VMDeviceClass) Number() int { return max(d.Count, 1) }

// Text returns the class's name with the number of devices: "2 × gpu-a100".
func (d VMDeviceClass) Text() string {
	name := cmp.Or(d.ClassName, "device of an unpublished class")
	if d.Number() == 1 {
		return name
	}
	return strconv.Itoa(d.Number()) + " × " + name
}

// deviceClassField is the list of device classes. Agents get the allocated devices as VMSpec.HostDevices, so only the
// portal uses the field.
func deviceClassField() VMField {
	f := vmListField("deviceClasses", "device", func(s *VMSpec) *[]VMDeviceClass { return &s.DeviceClasses }, element[VMDeviceClass]{
		key: func(d VMDeviceClass) string { return string(d.ClassID) }, definition: func(d VMDeviceClass) string { return string(d.ClassID) },
		words: VMDeviceClass.Text, takesEffect: func(VMDeviceClass) EffectTime { return WhenNow },
		live: func(old, to VMDeviceClass) string { return old.Text() + " → " + to.Text() },
		check: func(c *Checks, at string, d VMDeviceClass) {
			switch {
			case !IsID(string(d.ClassID)):
				c.Add(at+".classId", "Choose a device class.")
			case d.Count < 0 || d.Count > MaxHostDevices:
				c.Add(at+".count", "Enter a whole number from 1 to %d.", MaxHostDevices)
			}
		},
	}, MaxHostDevices, FormInput{
		Section: SectionDevices, Label: "Device classes", Help: "Devices of the host, such as GPUs, passed through to this guest only. The VM cannot migrate while it runs.",
		Rows: []InputRow{
			{"classId", FormInput{Kind: InputDeviceClass, Label: "Device class"}},
			{"count", FormInput{Kind: InputNumber, Label: "Number", CountUnit: "device", Default: 1, Example: "1"}},
		},
	})
	f.Type, f.PortalOnly, f.TakesEffect = "device classes", true, WhenNow
	check := f.check
	f.check = func(c *Checks, field string, s VMSpec) {
		check(c, field, s)
		if n := s.NumberOfHostDevices(); len(s.DeviceClasses) > 0 && n > MaxHostDevices {
			c.Add(field, "A VM has at most %s.", CountWithUnit(MaxHostDevices, "host device"))
		}
	}
	return f
}

// NumberOfHostDevices returns the number of passed-through devices, chosen by operators and by placement.
func (s VMSpec) NumberOfHostDevices() int {
	n := len(s.HostDevices)
	for _, d := range s.DeviceClasses {
		n += d.Number()
	}
	return n
}

// WithoutClassNames returns the spec without the names of device classes, as the database stores it.
func (s VMSpec) WithoutClassNames() VMSpec {
	var out []VMDeviceClass
	for _, d := range s.DeviceClasses {
		d.ClassName = ""
		out = append(out, d)
	}
	s.DeviceClasses = out
	return s
}
