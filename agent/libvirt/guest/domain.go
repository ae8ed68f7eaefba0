package guest

import (
	"context"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// Domain is a domain of the host as far as its guest agent and its addresses need it.
type Domain struct {
	ID             fleet.VMID
	Ref            golibvirt.Domain // its ID identifies the run of the guest
	State          golibvirt.DomainState
	Managed        bool             // Quantix manages the domain
	Live           *domxml.Hardware // nil while the domain is off
	AgentConnected bool             // the guest agent is connected, or reachable over vsock
	CID            uint32           // vsock CID of the guest agent; 0: the agent is reached through libvirt
}

// DomainReader reads the domain of a managed VM. It refuses a missing or unmanaged domain.
type DomainReader func(context.Context, *conn.Conn, fleet.VMID) (Domain, error)
