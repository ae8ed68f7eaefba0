package web

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// CatalogEntryPath holds the id of an image catalog entry, from the request's path.
type CatalogEntryPath struct {
	ID fleet.StartImageID `path:"id"`
}

type startImageBody struct {
	fleet.StartImageView
	Offered
}

type catalogEntryOutput struct {
	Location string `header:"Location"`
	Body     startImageBody
}

func catalogEntryAnswer(a fleet.Actor, v fleet.StartImageView) startImageBody {
	return startImageBody{v, offeredActions(a, "image", v.Actions())}
}

type catalogOutput struct {
	Body struct {
		Items []startImageBody `json:"items"`
	}
}

func (s *Server) apiListCatalog(ctx context.Context, a fleet.Actor, _ *struct{}) (*catalogOutput, error) {
	all, err := s.Control.StartImages(ctx, a)
	out := &catalogOutput{}
	out.Body.Items = []startImageBody{}
	for _, v := range all {
		out.Body.Items = append(out.Body.Items, catalogEntryAnswer(a, v))
	}
	return out, err
}

func (s *Server) apiGetCatalogEntry(ctx context.Context, a fleet.Actor, in *CatalogEntryPath) (*catalogEntryOutput, error) {
	v, err := s.Control.StartImage(ctx, a, in.ID)
	return &catalogEntryOutput{Body: catalogEntryAnswer(a, v)}, err
}

func (s *Server) apiAddCatalogEntry(ctx context.Context, a fleet.Actor, in *struct{ Body control.NewStartImage }) (*catalogEntryOutput, error) {
	id, err := s.Control.AddStartImage(ctx, a, in.Body)
	if err != nil {
		return nil, err
	}
	out, err := s.apiGetCatalogEntry(ctx, a, &CatalogEntryPath{id})
	if err == nil {
		out.Location = apiBase + "/image-catalog/" + string(id)
	}
	return out, err
}

type editCatalogEntryInput struct {
	CatalogEntryPath
	Body control.EditStartImage
}

func (s *Server) apiEditCatalogEntry(ctx context.Context, a fleet.Actor, in *editCatalogEntryInput) (*catalogEntryOutput, error) {
	if err := s.Control.EditStartImage(ctx, a, in.ID, in.Body); err != nil {
		return nil, err
	}
	return s.apiGetCatalogEntry(ctx, a, &in.CatalogEntryPath)
}

func (s *Server) apiRemoveCatalogEntry(ctx context.Context, a fleet.Actor, in *CatalogEntryPath) (*emptyOutput, error) {
	return nil, s.Control.RemoveStartImage(ctx, a, in.ID)
}

func (s *Server) apiRestoreCatalog(ctx context.Context, a fleet.Actor, _ *struct{}) (*emptyOutput, error) {
	_, err := s.Control.RestoreStartImages(ctx, a)
	return nil, err
}

type pullInput struct {
	CatalogEntryPath
	Body control.PullDestination
}

func (s *Server) apiPullCatalogEntry(ctx context.Context, a fleet.Actor, in *pullInput) (*taskOutput, error) {
	_, task, err := s.Control.PullStartImage(ctx, a, in.ID, in.Body)
	return &taskOutput{task}, err
}
