package hypervisor

import (
	"context"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// Firewall sets up the security groups that filter the traffic of NICs.
type Firewall interface {
	// ApplySecurityGroup creates or updates the group on the host. The new rules apply immediately to the group's NICs
	// of running guests.
	ApplySecurityGroup(ctx context.Context, group secgroup.FlatGroup) error
	// ReleaseSecurityGroup removes the group. It refuses while a NIC of a domain on this host is in the group, and does
	// nothing if the group does not exist.
	ReleaseSecurityGroup(ctx context.Context, group secgroup.FlatGroup) error
}

// FilterChangedText returns the drift text of a network filter that differs from what Quantix defined.
func FilterChangedText(name string) string {
	return "Somebody changed the network filter " + name + " on the host."
}

// FilterMissingText returns the drift text of a network filter that was removed.
func FilterMissingText(name string) string {
	return "Somebody removed the network filter " + name + " from the host."
}

// RefuseUsedSecurityGroup refuses to remove a group that still has a NIC on the host.
func RefuseUsedSecurityGroup(group, domain string) error {
	return fleet.Errorf(fleet.Conflict, "The security group %s is used by a NIC of %s. Remove the NIC from the group first.", group, domain)
}

// RefuseMissingSecurityGroup refuses a NIC whose security group is not in the job.
func RefuseMissingSecurityGroup() error {
	return fleet.Errorf(fleet.Conflict, "The portal sent this job without a security group of one of its NICs. Try again.")
}

// RefuseUnfilteredBridges reports that a kernel setting hides bridged packets from the firewall, so that security
// groups have no effect.
func RefuseUnfilteredBridges(setting string) error {
	return fleet.Errorf(fleet.Conflict, "The kernel of this host hides bridged packets from the firewall, so security groups have no effect. Set net.bridge.%s to 1 with sysctl, and in /etc/sysctl.d, and try again.", setting)
}

// SecurityGroupsOfNIC returns the NIC's security groups from all. It fails if all lacks one of them.
func SecurityGroupsOfNIC(n fleet.NIC, all []secgroup.FlatGroup) ([]secgroup.FlatGroup, error) {
	var out []secgroup.FlatGroup
	for _, id := range n.SecurityGroups {
		found := false
		for _, g := range all {
			if g.ID == id {
				out, found = append(out, g), true
			}
		}
		if !found {
			return nil, RefuseMissingSecurityGroup()
		}
	}
	return out, nil
}

// FilterName returns the name of the network filter of a VM's NIC on the host.
func FilterName(vm fleet.VMID, mac string) string {
	return secgroup.FilterPrefix + "nic-" + strings.ToLower(strings.ReplaceAll(mac, ":", "")) + "-" + string(vm)
}

// GroupFilterName returns the name of a security group's network filter.
func GroupFilterName(id fleet.SecurityGroupID) string {
	return secgroup.FilterPrefix + "group-" + string(id)
}
