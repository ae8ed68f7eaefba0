package api

import (
	"context"

	"quantix/internal/control/upgrades"
	"quantix/internal/fleet"
	"quantix/internal/release"
)

func (api *API) listAgentReleases(ctx context.Context, a fleet.Actor, _ *struct{}) (*pageOutput[release.Offer], error) {
	return asSinglePage(api.Control.ListReleases(ctx, a))
}

func (api *API) upgradeAgents(ctx context.Context, a fleet.Actor, in *bodyInput[upgrades.Order]) (*taskOutput, error) {
	task, err := api.Control.UpgradeAgents(ctx, a, in.Body)
	return &taskOutput{task}, err
}
