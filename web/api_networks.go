package web

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// NetworkPath holds the id of a network, from the request's path.
type NetworkPath struct {
	ID fleet.NetworkID `path:"id"`
}

// NetworkHostPath holds the ids of a network and one of its hosts, from the request's path.
type NetworkHostPath struct {
	NetworkPath
	Host fleet.HostID `path:"host"`
}

type networkOutput struct {
	Location string `header:"Location"`
	Body     networkOutputBody
}

type networkOutputBody struct {
	fleet.NetworkView
	Offered
}

func networkAnswer(a fleet.Actor, n fleet.NetworkView) networkOutputBody {
	return networkOutputBody{n, offeredActions(a, "network", n.Actions())}
}

func (s *Server) apiCreateNetwork(ctx context.Context, a fleet.Actor, in *struct{ Body control.CreateNetwork }) (*networkOutput, error) {
	network, err := s.Control.CreateNetwork(ctx, a, in.Body)
	return &networkOutput{Location: apiBase + "/networks/" + string(network.ID), Body: networkAnswer(a, network)}, err
}

func (s *Server) apiGetNetwork(ctx context.Context, a fleet.Actor, in *NetworkPath) (*networkOutput, error) {
	network, err := s.Control.GetNetwork(ctx, a, in.ID)
	return &networkOutput{Body: networkAnswer(a, network)}, err
}

type networkListInput struct {
	NetworkPath
	ListQuery
}

func (s *Server) apiNetworkHosts(ctx context.Context, a fleet.Actor, in *networkListInput) (*pageOutput[fleet.NetworkHost], error) {
	return listOperation(func(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkHost], error) {
		return s.Control.NetworkHosts(ctx, a, in.ID, q)
	})(ctx, a, &in.ListQuery)
}

// GrantPath holds the ids of a network and a project with access to the network, from the request's path.
type GrantPath struct {
	ID      fleet.NetworkID `path:"id"`
	Project string          `path:"project"`
}

func (s *Server) apiGrantNetwork(ctx context.Context, a fleet.Actor, in *GrantPath) (*emptyOutput, error) {
	return nil, s.Control.GrantNetwork(ctx, a, in.ID, grantProjectID(in.Project))
}

func (s *Server) apiRevokeNetwork(ctx context.Context, a fleet.Actor, in *GrantPath) (*emptyOutput, error) {
	return nil, s.Control.RevokeNetwork(ctx, a, in.ID, grantProjectID(in.Project))
}
