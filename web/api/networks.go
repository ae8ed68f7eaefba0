package api

import (
	"context"

	"quantix/internal/control/network"
	"quantix/internal/fleet"
)

// NetworkPath holds the id of a network, from the request's path.
type NetworkPath struct {
	ID fleet.NetworkID `path:"id"`
}

type networkOutput struct {
	Location string `header:"Location"`
	Body     networkOutputBody
}

type networkOutputBody struct {
	fleet.NetworkView
	OfferedActions
}

func networkAnswer(a fleet.Actor, n fleet.NetworkView) networkOutputBody {
	return networkOutputBody{n, offeredActions(a, "network", n.Actions())}
}

func (api *API) createNetwork(ctx context.Context, a fleet.Actor, in *struct{ Body network.CreateNetwork }) (*networkOutput, error) {
	network, err := api.Control.CreateNetwork(ctx, a, in.Body)
	return &networkOutput{Location: Base + "/networks/" + string(network.ID), Body: networkAnswer(a, network)}, err
}

func (api *API) getNetwork(ctx context.Context, a fleet.Actor, in *NetworkPath) (*networkOutput, error) {
	network, err := api.Control.GetNetwork(ctx, a, in.ID)
	return &networkOutput{Body: networkAnswer(a, network)}, err
}

type networkListInput struct {
	NetworkPath
	ListQuery
}

func (api *API) networkHosts(ctx context.Context, a fleet.Actor, in *networkListInput) (*pageOutput[fleet.NetworkHost], error) {
	return listOperation(func(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkHost], error) {
		return api.Control.NetworkHosts(ctx, a, in.ID, q)
	})(ctx, a, &in.ListQuery)
}

// NetworkGrantPath holds the ids of a network and a project with access to the network, from the request's path.
type NetworkGrantPath struct {
	ID      fleet.NetworkID `path:"id"`
	Project string          `path:"project"`
}

func (api *API) grantNetwork(ctx context.Context, a fleet.Actor, in *NetworkGrantPath) (*emptyOutput, error) {
	return nil, api.Control.GrantNetwork(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}

func (api *API) revokeNetwork(ctx context.Context, a fleet.Actor, in *NetworkGrantPath) (*emptyOutput, error) {
	return nil, api.Control.RevokeNetwork(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}
