package domxml

import (
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// FilterNameOf returns the name of the NIC's network filter, or "".
func FilterNameOf(n *libvirtxml.DomainInterface) string {
	if n.FilterRef == nil {
		return ""
	}
	return n.FilterRef.Filter
}

// IsManagedFilter reports whether the name is that of a network filter of Quantix.
func IsManagedFilter(name string) bool { return strings.HasPrefix(name, secgroup.FilterPrefix) }

// editFilter sets or removes the NIC's Quantix filter. It removes an unmanaged filter only with force.
func editFilter(n *libvirtxml.DomainInterface, vm fleet.VMID, want fleet.NIC, force bool) {
	switch has := FilterNameOf(n); {
	case want.NeedsFilter():
		if name := hypervisor.FilterName(vm, want.MAC); has != name {
			n.FilterRef = &libvirtxml.DomainInterfaceFilterRef{Filter: name}
		}
	case IsManagedFilter(has) || force:
		n.FilterRef = nil
	}
}
