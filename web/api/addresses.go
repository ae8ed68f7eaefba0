package api

import (
	"context"

	"quantix/internal/fleet"
	"quantix/internal/ipam"
)

type networkAddressesInput struct {
	NetworkPath
	Host fleet.HostID `query:"host" doc:"Only the addresses on this host"`
}

type networkAddressesOutput struct{ Body ipam.Usage }

func (api *API) networkAddresses(ctx context.Context, a fleet.Actor, in *networkAddressesInput) (*networkAddressesOutput, error) {
	out, err := api.Control.NetworkAddresses(ctx, a, in.ID, in.Host)
	return &networkAddressesOutput{out}, err
}

// ReservationPath holds a network's id and the MAC address of the NIC with the reservation, from the request's path.
type ReservationPath struct {
	NetworkPath
	MAC string `path:"mac" maxLength:"17" example:"52:54:00:12:34:56"`
}

type reserveInput struct {
	ReservationPath
	Body struct {
		IP   string `json:"ip,omitempty" doc:"Empty: the NIC's current address, or else the next free one"`
		Name string `json:"name,omitempty" doc:"Name of the guest in the network's DNS"`
	}
}

// ReservedBody is the address reserved for a NIC, and the tasks that apply the reservation on hosts.
type ReservedBody struct {
	fleet.StaticLease
	Items []fleet.Task `json:"items"`
}

type reservedAddressOutput struct{ Body ReservedBody }

func (api *API) reserveAddress(ctx context.Context, a fleet.Actor, in *reserveInput) (*reservedAddressOutput, error) {
	lease, ids, err := api.Control.ReserveAddress(ctx, a, in.ID, fleet.StaticLease{MAC: in.MAC, IP: in.Body.IP, Name: in.Body.Name})
	tasks, err := api.readTasks(ctx, a, ids, err)
	if err != nil {
		return nil, err
	}
	return &reservedAddressOutput{ReservedBody{lease, tasks.Body.Items}}, nil
}

func (api *API) freeAddress(ctx context.Context, a fleet.Actor, in *ReservationPath) (*pageOutput[fleet.Task], error) {
	ids, err := api.Control.FreeAddress(ctx, a, in.ID, in.MAC)
	return api.readTasks(ctx, a, ids, err)
}

type vmAddressesOutput struct {
	Body struct {
		Items []fleet.NICAddresses `json:"items"`
	}
}

func (api *API) vmAddresses(ctx context.Context, a fleet.Actor, in *VMPath) (*vmAddressesOutput, error) {
	cards, err := api.Control.VMAddresses(ctx, a, in.ID)
	out := &vmAddressesOutput{}
	out.Body.Items = cards
	return out, err
}
