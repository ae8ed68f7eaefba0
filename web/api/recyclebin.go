package api

import (
	"context"

	"quantix/internal/bin"
	"quantix/internal/control/recycling"
	"quantix/internal/fleet"
)

func (api *API) restoreRecycled(ctx context.Context, a fleet.Actor, in *objectInput[fleet.VMID, recycling.RestoreVM]) (*taskOutput, error) {
	task, err := api.Control.RestoreRecycled(ctx, a, in.ID, in.Body)
	return &taskOutput{task}, err
}

type purgeRecycledInput struct {
	VMPath
	Confirm string `query:"confirm" doc:"The VM's name"`
}

func (api *API) purgeRecycled(ctx context.Context, a fleet.Actor, in *purgeRecycledInput) (*taskOutput, error) {
	task, err := api.Control.PurgeRecycled(ctx, a, in.ID, in.Confirm)
	return &taskOutput{task}, err
}

func (api *API) fleetBin(ctx context.Context, a fleet.Actor, _ *struct{}) (*bodyOutput[bin.Settings], error) {
	s, err := api.Control.BinSettings(ctx, a, "")
	return &bodyOutput[bin.Settings]{s.Settings}, err
}

func (api *API) setFleetBin(ctx context.Context, a fleet.Actor, in *bodyInput[bin.Settings]) (*bodyOutput[bin.Settings], error) {
	return &bodyOutput[bin.Settings]{in.Body}, api.Control.SetFleetBin(ctx, a, in.Body)
}
