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
