package api

import (
	"context"

	"quantix/internal/fleet"
)

type planOutput struct {
	Body fleet.Plan
}

func (api *API) planVMEdit(ctx context.Context, a fleet.Actor, in *updateVMInput) (*planOutput, error) {
	return retryPatch(in.IfMatchHeader, func(wanted int64) (*planOutput, error) {
		_, change, err := api.applyVMPatch(ctx, a, in, wanted)
		if err != nil {
			return nil, err
		}
		plan, err := api.Control.PlanVM(ctx, a, in.ID, change)
		return &planOutput{plan}, err
	})
}

func (api *API) planNewVM(ctx context.Context, a fleet.Actor, in *newVMInput) (*planOutput, error) {
	if err := in.Body.checkVersionAndKind(); err != nil {
		return nil, err
	}
	plan, err := api.Control.PlanNewVM(ctx, a, in.Body.CreateVM)
	return &planOutput{plan}, err
}
