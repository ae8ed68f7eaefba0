package placement

import (
	"fmt"
	"strings"

	"quantix/internal/fleet"
)

// NICs is the room that a host has for cards which take something of one of its devices each for itself: a virtual function, or the device.
type NICs struct {
	Device    string
	Functions bool // of virtual functions; else the device itself, which is one card's alone
	Total     int
	Used      int      // by guests that run, as the host says: also by those that Quantix does not know
	Allocated int      // to VMs that are on the host, running or not
	By        []string // their names
}

// taken is what no further card can have. A guest that runs is mostly one of those that were promised something; where more run, others do.
func (c NICs) taken() int { return max(c.Used, c.Allocated) }

// cards notes at the first card that is one too many what its device lacks.
func (f *fit) cards(nics []fleet.NIC) {
	wanted := map[*NICs]int{}
	for i, n := range nics {
		c := f.host.NICs[n.NetworkID]
		if c == nil || n.NetworkID == "" {
			continue
		}
		wanted[c]++
		if wanted[c] != c.Total-min(c.taken(), c.Total)+1 {
			continue
		}
		at, name := fmt.Sprintf("spec.nics[%d].network", i), f.host.Name
		switch {
		case c.Functions && c.Total == 0:
			f.add(at, "no virtual functions in network "+n.Network, "The device %s of %s has no virtual functions.", c.Device, name)
		case c.Functions:
			f.add(at, "no free virtual function in network "+n.Network, "No free virtual function of %s on %s: %d of %d are used%s.", c.Device, name, min(c.Total, c.taken()+wanted[c]-1), c.Total, c.users(wanted[c]-1))
		default:
			f.add(at, "no free device in network "+n.Network, "The device %s of %s is for one card alone, and it is used%s.", c.Device, name, c.users(wanted[c]-1))
		}
	}
}

// users says who has what is taken; own: cards of the VM itself.
func (c NICs) users(own int) string {
	names := c.By
	const most = 3
	if more := len(names) - most; more > 0 {
		names = append(append([]string{}, names[:most]...), fmt.Sprintf("%d more", more))
	}
	if c.Used > c.Allocated {
		names = append(append([]string{}, names...), "machines that Quantix did not make")
	}
	if own > 0 {
		names = append(append([]string{}, names...), "this VM's other cards")
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

// portGroup notes where the host cannot keep the limits of the NIC's port group.
func (f *fit) portGroup(i int, n fleet.NIC) {
	if why, lacks := f.host.Lacks[fleet.NICLimitIn]; lacks && f.host.Limited[i] {
		f.add(fmt.Sprintf("spec.nics[%d].portGroup", i), "no limits of NICs, which port group "+n.PortGroup+" has",
			"%s cannot keep the limits of port group %s. %s", f.host.Name, n.PortGroup, why)
	}
}
