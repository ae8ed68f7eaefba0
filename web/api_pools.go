package web

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// PoolPath names a pool in the path.
type PoolPath struct {
	ID fleet.PoolID `path:"id"`
}

// PoolHostPath names a pool and a host of it.
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
	out := poolBody{PoolView: p, Offered: offers(a, "pool", p.Actions()), Hosts: make([]poolHostBody, len(p.Hosts))}
	for i, h := range p.Hosts {
		out.Hosts[i] = poolHostBody{h, offers(a, "pool", h.Actions())}
	}
	return out
}

func (s *Server) apiCreatePool(ctx context.Context, a fleet.Actor, in *struct{ Body control.CreatePool }) (*poolOutput, error) {
	pool, err := s.Control.CreatePool(ctx, a, in.Body)
	return &poolOutput{Location: apiBase + "/pools/" + string(pool.ID), Body: poolAnswer(a, pool)}, err
}

func (s *Server) apiGetPool(ctx context.Context, a fleet.Actor, in *PoolPath) (*poolOutput, error) {
	pool, err := s.Control.GetPool(ctx, a, in.ID)
	return &poolOutput{Body: poolAnswer(a, pool)}, err
}

func (s *Server) apiDeletePool(ctx context.Context, a fleet.Actor, in *PoolPath) (*pageOutput[fleet.Task], error) {
	ids, err := s.Control.DeletePool(ctx, a, in.ID)
	return s.tasksOf(ctx, a, ids, err)
}

func (s *Server) apiAssignPool(ctx context.Context, a fleet.Actor, in *PoolHostPath) (*pageOutput[fleet.Task], error) {
	ids, err := s.Control.AssignPool(ctx, a, in.ID, []fleet.HostID{in.Host})
	return s.tasksOf(ctx, a, ids, err)
}

func (s *Server) apiReleasePool(ctx context.Context, a fleet.Actor, in *PoolHostPath) (*pageOutput[fleet.Task], error) {
	id, err := s.Control.ReleasePool(ctx, a, in.ID, in.Host)
	return s.tasksOf(ctx, a, []fleet.TaskID{id}, err)
}

func (s *Server) apiRetryPool(ctx context.Context, a fleet.Actor, in *PoolHostPath) (*pageOutput[fleet.Task], error) {
	id, err := s.Control.RetryPool(ctx, a, in.ID, in.Host)
	return s.tasksOf(ctx, a, []fleet.TaskID{id}, err)
}

// tasksOf answers with the tasks that hosts have to do; none where there is nothing to do.
func (s *Server) tasksOf(ctx context.Context, a fleet.Actor, ids []fleet.TaskID, err error) (*pageOutput[fleet.Task], error) {
	if err != nil {
		return nil, err
	}
	out := &pageOutput[fleet.Task]{fleet.Page[fleet.Task]{Items: []fleet.Task{}}}
	for _, id := range ids {
		if id == "" {
			continue
		}
		task, err := s.Control.GetTask(ctx, a, id)
		if err != nil {
			return nil, err
		}
		out.Body.Items = append(out.Body.Items, task)
	}
	return out, nil
}

func (s *Server) apiPoolVolumes(ctx context.Context, a fleet.Actor, in *PoolPath) (*pageOutput[control.VolumeOn], error) {
	volumes, err := s.Control.PoolVolumes(ctx, a, in.ID)
	return whole(volumes, err)
}

// whole is a list that has one page.
func whole[T any](items []T, err error) (*pageOutput[T], error) {
	if items == nil {
		items = []T{}
	}
	return &pageOutput[T]{fleet.Page[T]{Items: items}}, err
}

type poolVMsInput struct {
	PoolPath
	ListQuery
}

func (s *Server) apiPoolVMs(ctx context.Context, a fleet.Actor, in *poolVMsInput) (*pageOutput[fleet.VMView], error) {
	return list(func(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.VMView], error) {
		return s.Control.PoolVMs(ctx, a, in.ID, q)
	})(ctx, a, &in.ListQuery)
}

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
