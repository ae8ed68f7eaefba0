package api

import (
	"context"

	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
)

// PoolPath holds the id of a pool, from the request's path.
type PoolPath struct {
	ID fleet.PoolID `path:"id"`
}

type poolOutput struct {
	Location string `header:"Location"`
	Body     poolBody
}

type poolBody struct {
	fleet.PoolView
	OfferedActions
	Hosts []poolHostBody `json:"hosts"`
}

type poolHostBody struct {
	fleet.PoolHost
	OfferedActions
}

func poolAnswer(a fleet.Actor, p fleet.PoolView) poolBody {
	return poolBody{PoolView: p, OfferedActions: offeredActions(a, "pool", p.Actions()), Hosts: poolHostBodies(a, p.Hosts)}
}

// PoolGrantPath holds the ids of a pool and a project with access to the pool, from the request's path.
type PoolGrantPath struct {
	ID      fleet.PoolID `path:"id"`
	Project string       `path:"project"`
}

func (api *API) grantPool(ctx context.Context, a fleet.Actor, in *PoolGrantPath) (*emptyOutput, error) {
	return nil, api.Control.GrantPool(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}

func (api *API) revokePool(ctx context.Context, a fleet.Actor, in *PoolGrantPath) (*emptyOutput, error) {
	return nil, api.Control.RevokePool(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}

func (api *API) createPool(ctx context.Context, a fleet.Actor, in *struct{ Body storage.CreatePool }) (*poolOutput, error) {
	pool, err := api.Control.CreatePool(ctx, a, in.Body)
	return &poolOutput{Location: Base + "/pools/" + string(pool.ID), Body: poolAnswer(a, pool)}, err
}

func (api *API) getPool(ctx context.Context, a fleet.Actor, in *PoolPath) (*poolOutput, error) {
	pool, err := api.Control.GetPool(ctx, a, in.ID)
	return &poolOutput{Body: poolAnswer(a, pool)}, err
}

func (api *API) poolVolumes(ctx context.Context, a fleet.Actor, in *PoolPath) (*pageOutput[query.VolumeOn], error) {
	volumes, err := api.Control.PoolVolumes(ctx, a, in.ID)
	return asSinglePage(volumes, err)
}

type poolListInput struct {
	PoolPath
	ListQuery
}

func (api *API) poolHosts(ctx context.Context, a fleet.Actor, in *poolListInput) (*pageOutput[poolHostBody], error) {
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	page, err := api.Control.PoolHosts(ctx, a, in.ID, q)
	return &pageOutput[poolHostBody]{fleet.Page[poolHostBody]{Items: poolHostBodies(a, page.Items), Next: page.Next, Prev: page.Prev}}, err
}

func poolHostBodies(a fleet.Actor, cells []fleet.PoolHost) []poolHostBody {
	out := make([]poolHostBody, len(cells))
	for i, h := range cells {
		out[i] = poolHostBody{h, offeredActions(a, "pool", h.Actions())}
	}
	return out
}

func (api *API) poolVMs(ctx context.Context, a fleet.Actor, in *poolListInput) (*pageOutput[fleet.VMView], error) {
	return listOperation(func(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.VMView], error) {
		return api.Control.PoolVMs(ctx, a, in.ID, q)
	})(ctx, a, &in.ListQuery)
}

type credentialsInput struct {
	PoolPath
	Body struct {
		Secret string `json:"secret" doc:"The secret with which hosts log in to the storage as spec.user: a CHAP password, or a Ceph key. No response contains it"`
	}
}

func (api *API) changePoolCredentials(ctx context.Context, a fleet.Actor, in *credentialsInput) (*pageOutput[fleet.Task], error) {
	tasks, err := api.Control.ChangePoolSecret(ctx, a, in.ID, in.Body.Secret)
	return api.readTasks(ctx, a, tasks, err)
}
