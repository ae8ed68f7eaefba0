package api

import (
	"cmp"
	"context"

	"quantix/internal/control/flavors"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
)

// FlavorPath holds the id of a flavor, from the request's path.
type FlavorPath struct {
	ID flavor.ID `path:"id"`
}

type flavorOutput struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     flavor.Flavor
}

func flavorAnswer(v flavor.Flavor, err error) (*flavorOutput, error) {
	return &flavorOutput{ETag: etag(v.Generation), Body: v}, err
}

func (api *API) listFlavors(ctx context.Context, a fleet.Actor, _ *struct{}) (*pageOutput[flavor.Flavor], error) {
	return asSinglePage(api.Control.ListFlavors(ctx, a))
}

func (api *API) createFlavor(ctx context.Context, a fleet.Actor, in *bodyInput[flavor.Definition]) (*flavorOutput, error) {
	v, err := api.Control.CreateFlavor(ctx, a, in.Body)
	out, err := flavorAnswer(v, err)
	out.Location = Base + fleet.TypeFlavor.Info().PagePath(string(v.ID))
	return out, err
}

func (api *API) getFlavor(ctx context.Context, a fleet.Actor, in *FlavorPath) (*flavorOutput, error) {
	return flavorAnswer(api.Control.GetFlavor(ctx, a, in.ID))
}

type updateFlavorInput struct {
	FlavorPath
	IfMatchHeader
	Body mergePatch[flavor.Definition]
}

func (api *API) updateFlavor(ctx context.Context, a fleet.Actor, in *updateFlavorInput) (*flavorOutput, error) {
	return retryPatch(in.IfMatchHeader, func(wanted int64) (*flavorOutput, error) {
		old, err := api.Control.GetFlavor(ctx, a, in.ID)
		if err != nil {
			return nil, err
		}
		to, err := in.Body.applyTo(old.Definition)
		if err != nil {
			return nil, err
		}
		return flavorAnswer(api.Control.UpdateFlavor(ctx, a, in.ID, flavors.FlavorChange{Definition: to, IfGeneration: cmp.Or(wanted, old.Generation)}))
	})
}

// FlavorGrantPath holds the ids of a flavor and a project that may use the flavor, from the request's path.
type FlavorGrantPath struct {
	FlavorPath
	Project string `path:"project" doc:"ID of a project, or all"`
}

func (api *API) grantFlavor(ctx context.Context, a fleet.Actor, in *FlavorGrantPath) (*emptyOutput, error) {
	return nil, api.Control.GrantFlavor(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}

func (api *API) revokeFlavor(ctx context.Context, a fleet.Actor, in *FlavorGrantPath) (*emptyOutput, error) {
	return nil, api.Control.RevokeFlavor(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}
