package api

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

type firstBootOutput struct{ Body control.FirstBootDetails }

func (api *API) getFirstBoot(ctx context.Context, a fleet.Actor, in *VMPath) (*firstBootOutput, error) {
	out, err := api.Control.FirstBoot(ctx, a, in.ID)
	return &firstBootOutput{out}, err
}

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

// CustomizationPath holds the id of a customization spec, from the request's path.
type CustomizationPath struct {
	ID fleet.CustomizationID `path:"id"`
}

type customizationOutput struct{ Body fleet.Customization }

type customizationInput struct{ Body control.CustomizationInput }

type updateCustomizationInput struct {
	CustomizationPath
	Body control.CustomizationInput
}

func (api *API) createCustomization(ctx context.Context, a fleet.Actor, in *customizationInput) (*customizationOutput, error) {
	out, err := api.Control.CreateCustomization(ctx, a, in.Body)
	return &customizationOutput{out}, err
}

func (api *API) getCustomization(ctx context.Context, a fleet.Actor, in *CustomizationPath) (*customizationOutput, error) {
	out, err := api.Control.GetCustomization(ctx, a, in.ID)
	return &customizationOutput{out}, err
}

func (api *API) updateCustomization(ctx context.Context, a fleet.Actor, in *updateCustomizationInput) (*customizationOutput, error) {
	out, err := api.Control.UpdateCustomization(ctx, a, in.ID, in.Body)
	return &customizationOutput{out}, err
}

func (api *API) deleteCustomization(ctx context.Context, a fleet.Actor, in *CustomizationPath) (*struct{}, error) {
	return nil, api.Control.DeleteCustomization(ctx, a, in.ID)
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
