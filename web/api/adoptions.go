package api

import (
	"context"

	"quantix/internal/adoption"
	"quantix/internal/control/network"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
)

// DiscoveredPath names a pool or network of a host that is not assigned to it.
type DiscoveredPath struct {
	HostPath
	Name string `path:"name" maxLength:"255" doc:"The name in libvirt"`
}

func (api *API) discoveredPools(ctx context.Context, a fleet.Actor, in *HostPath) (*pageOutput[fleet.DiscoveredPool], error) {
	return asSinglePage(api.Control.DiscoveredPools(ctx, a, in.ID))
}

func (api *API) discoveredNetworks(ctx context.Context, a fleet.Actor, in *HostPath) (*pageOutput[adoption.DiscoveredNetwork], error) {
	return asSinglePage(api.Control.DiscoveredNetworks(ctx, a, in.ID))
}

type adoptPoolInput struct {
	DiscoveredPath
	Body *storage.AdoptPool
}

func (api *API) adoptPool(ctx context.Context, a fleet.Actor, in *adoptPoolInput) (*poolOutput, error) {
	var of storage.AdoptPool
	if in.Body != nil {
		of = *in.Body
	}
	pool, err := api.Control.AdoptPool(ctx, a, in.ID, in.Name, of)
	return &poolOutput{Location: Base + "/pools/" + string(pool.ID), Body: poolAnswer(a, pool)}, err
}

type adoptNetworkInput struct {
	DiscoveredPath
	Body *network.AdoptNetwork
}

func (api *API) adoptNetwork(ctx context.Context, a fleet.Actor, in *adoptNetworkInput) (*networkOutput, error) {
	var of network.AdoptNetwork
	if in.Body != nil {
		of = *in.Body
	}
	adopted, err := api.Control.AdoptNetwork(ctx, a, in.ID, in.Name, of)
	return &networkOutput{Location: Base + "/networks/" + string(adopted.ID), Body: networkAnswer(a, adopted)}, err
}
