package web

import (
	"context"

	"quantix/internal/fleet"
)

type networkOutput struct {
	Body struct {
		fleet.NetworkView
		Offered
	}
}

func (s *Server) apiGetNetwork(ctx context.Context, a fleet.Actor, in *struct {
	ID fleet.NetworkID `path:"id"`
},
) (*networkOutput, error) {
	network, err := s.Control.GetNetwork(ctx, a, in.ID)
	var out networkOutput
	out.Body.NetworkView, out.Body.Offered = network, offers(a, "network", network.Actions())
	return &out, err
}

type networkListInput struct {
	ID fleet.NetworkID `path:"id"`
	ListQuery
}

func (s *Server) apiNetworkHosts(ctx context.Context, a fleet.Actor, in *networkListInput) (*pageOutput[fleet.NetworkHost], error) {
	return list(func(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkHost], error) {
		return s.Control.NetworkHosts(ctx, a, in.ID, q)
	})(ctx, a, &in.ListQuery)
}

// GrantPath names a network and the project that it is open to.
type GrantPath struct {
	ID      fleet.NetworkID `path:"id"`
	Project string          `path:"project"`
}

func (s *Server) apiGrantNetwork(ctx context.Context, a fleet.Actor, in *GrantPath) (*nothing, error) {
	return nil, s.Control.GrantNetwork(ctx, a, in.ID, grantedTo(in.Project))
}

func (s *Server) apiRevokeNetwork(ctx context.Context, a fleet.Actor, in *GrantPath) (*nothing, error) {
	return nil, s.Control.RevokeNetwork(ctx, a, in.ID, grantedTo(in.Project))
}
