package api

import (
	"context"

	"quantix/internal/bin"
	"quantix/internal/control/flavors"
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

func (api *API) renewVM(ctx context.Context, a fleet.Actor, in *objectInput[fleet.VMID, flavors.Renewal]) (*vmOutput, error) {
	vm, err := api.Control.RenewVM(ctx, a, in.ID, in.Body)
	return vmAnswer(a, vm), err
}

type renewVMsInput struct {
	Body struct {
		flavors.Renewal
		IDs []fleet.VMID `json:"ids" doc:"IDs of the VMs, 500 at most"`
	}
}

// renewedVM is the result of one VM of renewVMs.
type renewedVM struct {
	ID    fleet.VMID `json:"id"`
	Error string     `json:"error,omitempty" doc:"Why the VM is not renewed"`
}

func (api *API) renewVMs(ctx context.Context, a fleet.Actor, in *renewVMsInput) (*pageOutput[renewedVM], error) {
	results, err := api.Control.RenewVMs(ctx, a, in.Body.IDs, in.Body.Renewal)
	out := make([]renewedVM, len(results))
	for i, r := range results {
		out[i].ID = r.ID
		if r.Error != nil {
			out[i].Error = r.Error.Error()
		}
	}
	return asSinglePage(out, err)
}
