package placement

import (
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// NICCapacity is the capacity of a host device for NICs that need it exclusively: a virtual function, or the device
// itself.
type NICCapacity struct {
	Device    string
	Functions bool // the unit is a virtual function; else the whole device, for one NIC
	Total     int
	Used      int      // units used by running guests as reported by the host, including unmanaged guests
	Allocated int      // units allocated to VMs on the host, running or not
	VMNames   []string // names of VMs with an allocation
}

// unavailableUnits is the number of unavailable units. Most running guests are among the allocated VMs; Used exceeds
// Allocated only if unmanaged guests run.
func (c NICCapacity) unavailableUnits() int { return max(c.Used, c.Allocated) }

// checkExclusiveNICs adds a fault at the first NIC that exceeds the capacity of its device.
func (f *faultCheck) checkExclusiveNICs(nics []fleet.NIC) {
	wanted := map[*NICCapacity]int{}
	for i, n := range nics {
		c := f.host.NICs[n.NetworkID]
		if c == nil || n.NetworkID == "" {
			continue
		}
		wanted[c]++
		if wanted[c] != c.Total-min(c.unavailableUnits(), c.Total)+1 {
			continue
		}
		at, name := fmt.Sprintf("spec.nics[%d].network", i), f.host.Name
		switch {
		case c.Functions && c.Total == 0:
			f.addFault(at, "no virtual functions in network "+n.Network, "The device %s of %s has no virtual functions.", c.Device, name)
		case c.Functions:
			f.addFault(at, "no free virtual function in network "+n.Network, "No free virtual function of %s on %s: %d of %d are used%s.", c.Device, name, min(c.Total, c.unavailableUnits()+wanted[c]-1), c.Total, c.describeUsers(wanted[c]-1))
		default:
			f.addFault(at, "no free device in network "+n.Network, "The device %s of %s is for one NIC alone and is used%s.", c.Device, name, c.describeUsers(wanted[c]-1))
		}
	}
}

// describeUsers names the VMs that use the capacity; own is the number of other NICs of the same VM.
func (c NICCapacity) describeUsers(own int) string {
	names := c.VMNames
	const most = 3
	if more := len(names) - most; more > 0 {
		names = append(append([]string{}, names[:most]...), fmt.Sprintf("%d more", more))
	}
	if c.Used > c.Allocated {
		names = append(append([]string{}, names...), "machines that Quantix did not create")
	}
	if own > 0 {
		names = append(append([]string{}, names...), "this VM's other NICs")
	}
	switch last := len(names) - 1; last {
	case -1:
		return ""
	case 0:
		return " by " + names[0]
	default:
		return " by " + strings.Join(names[:last], ", ") + " and " + names[last]
	}
}

// checkPortGroup adds a fault if the host cannot enforce the limits of the NIC's port group.
func (f *faultCheck) checkPortGroup(i int, n fleet.NIC) {
	if why, lacks := f.host.Unsupported[fleet.NICLimitIn]; lacks && f.host.BandwidthLimited[i] {
		f.addFault(fmt.Sprintf("spec.nics[%d].portGroup", i), "no support for the limits of port group "+n.PortGroup,
			"%s cannot enforce the limits of port group %s. %s", f.host.Name, n.PortGroup, why)
	}
}
