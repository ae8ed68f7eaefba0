package api

import (
	"context"

	"quantix/internal/catalog"
	"quantix/internal/control"
	"quantix/internal/fleet"
)

// CatalogEntryPath holds the id of an image catalog entry, from the request's path.
type CatalogEntryPath struct {
	ID fleet.StartImageID `path:"id"`
}

type startImageBody struct {
	catalog.View
	OfferedActions
}

type catalogEntryOutput struct {
	Location string `header:"Location"`
	Body     startImageBody
}

func catalogEntryAnswer(a fleet.Actor, v catalog.View) startImageBody {
	return startImageBody{v, offeredActions(a, "image", v.Actions())}
}

type catalogOutput struct {
	Body struct {
		Items []startImageBody `json:"items"`
	}
}

func (api *API) listCatalog(ctx context.Context, a fleet.Actor, _ *struct{}) (*catalogOutput, error) {
	all, err := api.Control.StartImages(ctx, a)
	out := &catalogOutput{}
	out.Body.Items = []startImageBody{}
	for _, v := range all {
		out.Body.Items = append(out.Body.Items, catalogEntryAnswer(a, v))
	}
	return out, err
}

func (api *API) getCatalogEntry(ctx context.Context, a fleet.Actor, in *CatalogEntryPath) (*catalogEntryOutput, error) {
	v, err := api.Control.StartImage(ctx, a, in.ID)
	return &catalogEntryOutput{Body: catalogEntryAnswer(a, v)}, err
}

func (api *API) addCatalogEntry(ctx context.Context, a fleet.Actor, in *struct{ Body control.NewStartImage }) (*catalogEntryOutput, error) {
	id, err := api.Control.AddStartImage(ctx, a, in.Body)
	if err != nil {
		return nil, err
	}
	out, err := api.getCatalogEntry(ctx, a, &CatalogEntryPath{id})
	if err == nil {
		out.Location = Base + "/image-catalog/" + string(id)
	}
	return out, err
}

type editCatalogEntryInput struct {
	CatalogEntryPath
	Body control.EditStartImage
}

func (api *API) editCatalogEntry(ctx context.Context, a fleet.Actor, in *editCatalogEntryInput) (*catalogEntryOutput, error) {
	if err := api.Control.EditStartImage(ctx, a, in.ID, in.Body); err != nil {
		return nil, err
	}
	return api.getCatalogEntry(ctx, a, &in.CatalogEntryPath)
}

func (api *API) restoreCatalog(ctx context.Context, a fleet.Actor, _ *struct{}) (*emptyOutput, error) {
	_, err := api.Control.RestoreStartImages(ctx, a)
	return nil, err
}

type pullCatalogEntryInput struct {
	CatalogEntryPath
	Body control.PullDestination
}

func (api *API) pullCatalogEntry(ctx context.Context, a fleet.Actor, in *pullCatalogEntryInput) (*taskOutput, error) {
	_, task, err := api.Control.PullStartImage(ctx, a, in.ID, in.Body)
	return &taskOutput{task}, err
}
