package web

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

// PoolPath holds the id of a pool, from the request's path.
type PoolPath struct {
	ID fleet.PoolID `path:"id"`
}

// PoolHostPath holds the ids of a pool and one of its hosts, from the request's path.
type PoolHostPath struct {
	PoolPath
	Host fleet.HostID `path:"host"`
}

type poolOutput struct {
	Location string `header:"Location"`
	Body     poolBody
}

type poolBody struct {
	fleet.PoolView
	Offered
	Hosts []poolHostBody `json:"hosts"`
}

type poolHostBody struct {
	fleet.PoolHost
	Offered
}

func poolAnswer(a fleet.Actor, p fleet.PoolView) poolBody {
	return poolBody{PoolView: p, Offered: offeredActions(a, "pool", p.Actions()), Hosts: poolHostBodies(a, p.Hosts)}
}

func (s *Server) apiCreatePool(ctx context.Context, a fleet.Actor, in *struct{ Body control.CreatePool }) (*poolOutput, error) {
	pool, err := s.Control.CreatePool(ctx, a, in.Body)
	return &poolOutput{Location: apiBase + "/pools/" + string(pool.ID), Body: poolAnswer(a, pool)}, err
}

func (s *Server) apiGetPool(ctx context.Context, a fleet.Actor, in *PoolPath) (*poolOutput, error) {
	pool, err := s.Control.GetPool(ctx, a, in.ID)
	return &poolOutput{Body: poolAnswer(a, pool)}, err
}

func (s *Server) apiPoolVolumes(ctx context.Context, a fleet.Actor, in *PoolPath) (*pageOutput[query.VolumeOn], error) {
	volumes, err := s.Control.PoolVolumes(ctx, a, in.ID)
	return asSinglePage(volumes, err)
}

type poolListInput struct {
	PoolPath
	ListQuery
}

func (s *Server) apiPoolHosts(ctx context.Context, a fleet.Actor, in *poolListInput) (*pageOutput[poolHostBody], error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	page, err := s.Control.PoolHosts(ctx, a, in.ID, q)
	return &pageOutput[poolHostBody]{fleet.Page[poolHostBody]{Items: poolHostBodies(a, page.Items), Next: page.Next, Prev: page.Prev}}, err
}

func poolHostBodies(a fleet.Actor, cells []fleet.PoolHost) []poolHostBody {
	out := make([]poolHostBody, len(cells))
	for i, h := range cells {
		out[i] = poolHostBody{h, offeredActions(a, "pool", h.Actions())}
	}
	return out
}

func (s *Server) apiPoolVMs(ctx context.Context, a fleet.Actor, in *poolListInput) (*pageOutput[fleet.VMView], error) {
	return listOperation(func(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.VMView], error) {
		return s.Control.PoolVMs(ctx, a, in.ID, q)
	})(ctx, a, &in.ListQuery)
}
