package api

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

type setFirstBootInput struct {
	VMPath
	Body control.FirstBootInput
}

func (api *API) setFirstBoot(ctx context.Context, a fleet.Actor, in *setFirstBootInput) (*vmOutput, error) {
	vm, task, err := api.Control.SetFirstBoot(ctx, a, in.ID, in.Body)
	if err == nil && task == "" { // nothing to remove
		vm, err = api.Control.GetVM(ctx, a, in.ID)
	}
	out := vmAnswer(a, vm)
	out.Task = string(task)
	return out, err
}

type customizationsOutput struct {
	Body struct {
		Items []fleet.Customization `json:"items"`
	}
}

func (api *API) listCustomizations(ctx context.Context, a fleet.Actor, _ *struct{}) (*customizationsOutput, error) {
	all, err := api.Control.ListCustomizations(ctx, a)
	out := &customizationsOutput{}
	out.Body.Items = all
	return out, err
}
