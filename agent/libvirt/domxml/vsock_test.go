package domxml

import (
	"testing"

	"libvirt.org/go/libvirtxml"
)

// The host talks to the agent only over a running guest's vsock that Quantix added for the agent.
func TestOnlyRunningAgentVSOCKHasCID(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alias, address string
		want           uint32
	}{
		"agent's vsock": {agentVSOCKAlias, "7", 7}, "other vsock": {vsockAlias, "7", 0}, "not running": {agentVSOCKAlias, "", 0},
		"the host": {agentVSOCKAlias, "2", 0}, "wildcard": {agentVSOCKAlias, "-1", 0}, "the hypervisor": {agentVSOCKAlias, "0", 0},
	} {
		x := &libvirtxml.Domain{Devices: &libvirtxml.DomainDeviceList{VSock: &libvirtxml.DomainVSock{
			CID: &libvirtxml.DomainVSockCID{Auto: "yes", Address: c.address}, Alias: &libvirtxml.DomainAlias{Name: c.alias},
		}}}
		if got := AgentCIDOf(x); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if HasConnectedAgent(x) != (c.want != 0) {
			t.Errorf("%s: hasAgent: %v", name, HasConnectedAgent(x))
		}
	}
}
