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

// CustomizationGrantPath holds the ids of a customization spec and a project that may use the spec, from the request's
// path.
type CustomizationGrantPath struct {
	ID      fleet.CustomizationID `path:"id"`
	Project string                `path:"project" doc:"ID of a project, or all"`
}

func (api *API) grantCustomization(ctx context.Context, a fleet.Actor, in *CustomizationGrantPath) (*emptyOutput, error) {
	return nil, api.Control.GrantCustomization(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}

func (api *API) revokeCustomization(ctx context.Context, a fleet.Actor, in *CustomizationGrantPath) (*emptyOutput, error) {
	return nil, api.Control.RevokeCustomization(ctx, a, in.ID, ParseGrantProjectID(in.Project))
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
