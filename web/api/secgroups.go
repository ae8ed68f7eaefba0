package api

import (
	"context"

	"quantix/internal/connectivity"
	"quantix/internal/control/network"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// SecurityGroupPath holds the id of a security group, from the request's path.
type SecurityGroupPath struct {
	ID fleet.SecurityGroupID `path:"id"`
}

type securityGroupPatch struct {
	Name string        `json:"name"`
	Spec secgroup.Spec `json:"spec"`
}

type updateSecurityGroupInput struct {
	SecurityGroupPath
	Body mergePatch[securityGroupPatch]
}

func (api *API) updateSecurityGroup(ctx context.Context, a fleet.Actor, in *updateSecurityGroupInput) (*bodyOutput[secgroup.View], error) {
	old, err := api.Control.GetSecurityGroup(ctx, a, in.ID)
	if err != nil {
		return nil, err
	}
	to, err := in.Body.applyTo(securityGroupPatch{old.Name, old.Spec})
	if err != nil {
		return nil, err
	}
	g, err := api.Control.UpdateSecurityGroup(ctx, a, in.ID, network.UpdateSecurityGroup{Name: &to.Name, Spec: &to.Spec, IfGeneration: old.Generation})
	return &bodyOutput[secgroup.View]{Body: g}, err
}

type trafficTestOutput struct{ Body connectivity.PassAnswer }

type trafficTestInput struct {
	FromVM      fleet.VMID        `query:"fromVm" doc:"UUID of the sending VM; omitted: fromAddress is the sender"`
	FromMAC     string            `query:"fromMac" doc:"MAC address of the VM's NIC; empty: its first NIC"`
	FromAddress string            `query:"fromAddress" doc:"One of the NIC's addresses; without a VM: the sender's address"`
	ToVM        fleet.VMID        `query:"toVm"`
	ToMAC       string            `query:"toMac"`
	ToAddress   string            `query:"toAddress"`
	Protocol    secgroup.Protocol `query:"protocol" doc:"tcp, udp, icmp or icmpv6"`
	Port        int               `query:"port" doc:"Destination port, for tcp and udp"`
}

func (api *API) testTraffic(ctx context.Context, a fleet.Actor, in *trafficTestInput) (*trafficTestOutput, error) {
	out, err := api.Control.CheckConnection(ctx, a, connectivity.ConnectionQuery{
		From:     connectivity.ConnectionEnd{VMID: in.FromVM, MAC: in.FromMAC, Address: in.FromAddress},
		To:       connectivity.ConnectionEnd{VMID: in.ToVM, MAC: in.ToMAC, Address: in.ToAddress},
		Protocol: in.Protocol, Port: in.Port,
	})
	return &trafficTestOutput{out}, err
}

func (api *API) nicFilters(ctx context.Context, a fleet.Actor, in *VMPath) (*pageOutput[secgroup.NICFilter], error) {
	return asSinglePage(api.Control.NICFilterStates(ctx, a, in.ID))
}
