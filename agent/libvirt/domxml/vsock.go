package domxml

import (
	"strconv"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// agentVSOCKAlias is the alias of a vsock that the guest agent listens on. Other vsocks of Quantix have vsockAlias.
const agentVSOCKAlias = vsockAlias + "-agent"

// isManagedVSOCK reports whether Quantix added the vsock.
func isManagedVSOCK(v *libvirtxml.DomainVSock) bool {
	return v != nil && (AliasOf(v.Alias) == vsockAlias || AliasOf(v.Alias) == agentVSOCKAlias)
}

// hasAgentVSOCK reports whether the guest agent listens on the guest's vsock.
func hasAgentVSOCK(x *libvirtxml.Domain) bool {
	return x.Devices.VSock != nil && AliasOf(x.Devices.VSock.Alias) == agentVSOCKAlias
}

// writeVSOCK adds or removes Quantix's vsock. A guest can have only one vsock.
func writeVSOCK(x *libvirtxml.Domain, s fleet.VMSpec) {
	switch {
	case !s.Devices.VSOCK && isManagedVSOCK(x.Devices.VSock):
		x.Devices.VSock = nil
		return
	case !s.Devices.VSOCK:
		return
	case x.Devices.VSock == nil:
		x.Devices.VSock = &libvirtxml.DomainVSock{Model: "virtio", CID: &libvirtxml.DomainVSockCID{Auto: "yes"}}
	}
	alias := vsockAlias
	if s.Devices.GuestAgent == fleet.AgentOnVSOCK {
		alias = agentVSOCKAlias
	}
	x.Devices.VSock.Alias = &libvirtxml.DomainAlias{Name: alias}
}

// AgentCIDOf returns the context ID of the running guest's vsock if the guest agent listens on that vsock, otherwise 0.
func AgentCIDOf(x *libvirtxml.Domain) uint32 {
	if x.Devices == nil || !hasAgentVSOCK(x) || x.Devices.VSock.CID == nil {
		return 0
	}
	n, _ := strconv.ParseUint(x.Devices.VSock.CID.Address, 10, 32)
	if n < 3 { // smaller context IDs are reserved for the hypervisor and the host
		return 0
	}
	return uint32(n)
}
