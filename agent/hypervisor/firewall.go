package hypervisor

import (
	"context"
	"strings"

	"quantix/internal/fleet"
)

// Firewall sets up the security groups that filter the traffic of NICs.
type Firewall interface {
	// ApplySecurityGroup creates or updates the group on the host; the new rules apply at once to NICs of running
	// guests in the group.
	ApplySecurityGroup(ctx context.Context, group fleet.FlatGroup) error
	// ReleaseSecurityGroup removes the group. It refuses while a NIC of a domain on this host is in it, and does
	// nothing if the group does not exist.
	ReleaseSecurityGroup(ctx context.Context, group fleet.FlatGroup) error
}

// FilterChanged returns the drift text of a network filter that differs from what Quantix defined.
func FilterChanged(name string) string {
	return "Somebody changed the network filter " + name + " on the host."
}

// FilterGone returns the drift text of a network filter that was removed.
func FilterGone(name string) string {
	return "Somebody removed the network filter " + name + " from the host."
}

// FilterInUse refuses to remove a group that a NIC on the host is still in.
func FilterInUse(group, domain string) error {
	return fleet.Errorf(fleet.Conflict, "The security group %s is used by a NIC of %s. Remove the NIC from it first.", group, domain)
}

// MissingGroup refuses a NIC in a group that the order does not contain.
func MissingGroup() error {
	return fleet.Errorf(fleet.Conflict, "The portal sent this work without a security group that a NIC is in. Try again.")
}

// PacketsUnseen reports that the kernel setting keeps bridged packets from the firewall, so that no security group has
// an effect.
func PacketsUnseen(setting string) error {
	return fleet.Errorf(fleet.Conflict, "This host does not show its firewall what passes a bridge, so no rule of a security group counts here. Set net.bridge.%s to 1 with sysctl, and in /etc/sysctl.d, and try again.", setting)
}

// NICGroups returns the groups that the NIC is in.
func NICGroups(n fleet.NIC, all []fleet.FlatGroup) ([]fleet.FlatGroup, error) {
	var out []fleet.FlatGroup
	for _, id := range n.SecurityGroups {
		found := false
		for _, g := range all {
			if g.ID == id {
				out, found = append(out, g), true
			}
		}
		if !found {
			return nil, MissingGroup()
		}
	}
	return out, nil
}

// FilterName returns the name of the network filter of a VM's NIC, as seen on the host.
func FilterName(vm fleet.VMID, mac string) string {
	return fleet.FilterPrefix + "nic-" + strings.ToLower(strings.ReplaceAll(mac, ":", "")) + "-" + string(vm)
}

// GroupFilterName returns the name of a security group's network filter.
func GroupFilterName(id fleet.SecurityGroupID) string {
	return fleet.FilterPrefix + "group-" + string(id)
}
