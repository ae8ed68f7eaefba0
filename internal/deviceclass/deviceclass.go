// Package deviceclass defines device classes: named sets of host devices that projects can use without knowing hosts.
package deviceclass

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// MaxMembers limits the members of a class.
const MaxMembers = 500

// ClassMember is a device of a host. A device is in at most one class.
type ClassMember struct {
	HostID fleet.HostID `json:"hostId"`
	Device string       `json:"device" doc:"Name of the device in the host's report: pci/0000:41:00.0"`
}

// ClassDefinition is what operators define of a class.
type ClassDefinition struct {
	Name        string        `json:"name"`
	Description string        `json:"description,omitempty"`
	Members     []ClassMember `json:"members"`
}

// Check adds an error for each invalid field.
func (d ClassDefinition) Check(c *fleet.Checks) {
	fleet.CheckName(c, "name", d.Name)
	fleet.CheckDescription(c, "description", d.Description)
	if len(d.Members) > MaxMembers {
		c.Add("members", "A device class has at most %d devices.", MaxMembers)
		return
	}
	for i, m := range d.Members {
		at := fmt.Sprintf("members[%d]", i)
		switch {
		case !fleet.IsID(string(m.HostID)):
			c.Add(at+".hostId", "There is no such host.")
		case WhyNoMember(m.Device) != "":
			c.Add(at+".device", "%s", WhyNoMember(m.Device))
		case slices.Index(d.Members, m) < i:
			c.Add(at, "%s of this host is listed twice.", m.Device)
		}
	}
}

// WhyNoMember returns why no device with the name can be in a class; empty: it can.
func WhyNoMember(device string) string {
	if strings.HasPrefix(device, fleet.PhysicalDevice) {
		return "A whole disk cannot be in a device class: the next VM could read what the last one wrote."
	}
	if _, ok := (fleet.VMHostDevice{Device: device}).Kind(); !ok {
		return "Enter a device as the host's page lists it: pci/0000:41:00.0, usb/046d:c52b, usb-port/1-2.3 or mdev/nvidia-63."
	}
	return ""
}

// DeviceClass is a device class as a user may see it. Members, hosts and VMs are only for operators.
type DeviceClass struct {
	ID          fleet.DeviceClassID  `json:"id"`
	Name        string               `json:"name"`
	Description string               `json:"description,omitempty"`
	GPU         bool                 `json:"gpu" doc:"Its devices are GPUs and count towards the quota of GPUs"`
	Total       int                  `json:"total" doc:"Devices that hosts report"`
	Free        int                  `json:"free" doc:"Devices that no VM uses"`
	Members     []ClassMemberStatus  `json:"members,omitempty" doc:"Devices of the class; only for those who may see hosts"`
	Generation  int64                `json:"generation"`
	CreatedAt   time.Time            `json:"createdAt"`
	Grants      []fleet.ProjectGrant `json:"grants"` // projects that may use the class, as far as the user may see them
}

// Definition returns what operators define of the class. It is complete only if the user may see hosts.
func (c DeviceClass) Definition() ClassDefinition {
	d := ClassDefinition{Name: c.Name, Description: c.Description, Members: []ClassMember{}}
	for _, m := range c.Members {
		d.Members = append(d.Members, m.ClassMember)
	}
	return d
}

// FreeText describes how many devices are free: "2 of 4 free".
func (c DeviceClass) FreeText() string {
	if c.Total == 0 {
		return "no devices"
	}
	return fmt.Sprintf("%d of %d free", c.Free, c.Total)
}

// PublishedToText returns the projects that the class is published to, as text.
func (c DeviceClass) PublishedToText() string {
	if len(c.Grants) == 0 {
		return "Nobody"
	}
	grants := make([]fleet.ImageGrant, len(c.Grants))
	for i, g := range c.Grants {
		grants[i] = fleet.ImageGrant(g)
	}
	return fleet.ImageView{Grants: grants}.PublishedToText()
}

// ClassMemberStatus is a member with what its host reports.
type ClassMemberStatus struct {
	ClassMember
	HostName string           `json:"hostName"`
	Name     string           `json:"name,omitempty" doc:"Vendor and product; empty: the host does not report the device"`
	State    ClassMemberState `json:"state"`
	Capacity int              `json:"capacity" doc:"VMs that can have the device: 1, or the instances of a mediated device type"`
	Used     int              `json:"used"`
	VMs      []fleet.NamedVM  `json:"vms,omitempty" doc:"VMs that use the device, at most 20"`
}

// ClassMemberState is whether a VM can get the device.
type ClassMemberState string

// States of members.
const (
	Free     ClassMemberState = "free"
	Used     ClassMemberState = "used"
	Missing  ClassMemberState = "missing"  // the host does not report the device
	Unusable ClassMemberState = "unusable" // the host cannot pass the device through: it has no IOMMU group
)

// Text is the state as pages show it.
func (s ClassMemberState) Text() string {
	switch s {
	case Free:
		return "Free"
	case Used:
		return "In use"
	case Missing:
		return "Missing"
	}
	return "No IOMMU group"
}

// StateOf returns the state of a member that is used by so many VMs.
func StateOf(reported, usable bool, capacity, used int) ClassMemberState {
	switch {
	case !reported:
		return Missing
	case !usable:
		return Unusable
	case used >= capacity:
		return Used
	}
	return Free
}

// Count sets the total and free devices by the members' states.
func (c *DeviceClass) Count(members []ClassMemberStatus) {
	c.Total, c.Free = 0, 0
	for _, m := range members {
		if m.State == Free || m.State == Used {
			c.Total += m.Capacity
			c.Free += max(0, m.Capacity-m.Used)
		}
	}
}

// Available is a host device that can become a member.
type Available struct {
	ClassMember
	HostName string `json:"hostName"`
	Name     string `json:"name"`
	GPU      bool   `json:"gpu"`
	Usable   bool   `json:"usable"` // false: the device has no IOMMU group
	InUse    string `json:"inUse,omitempty"`
}

// IsGPU reports whether a device is a GPU: a display controller or a mediated device.
func IsGPU(device, pciClass string) bool {
	return strings.HasPrefix(device, "mdev/") || strings.HasPrefix(pciClass, "0x03")
}
