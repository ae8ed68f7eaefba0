package web

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// StartImagePath holds the id of an image catalog entry, from the request's path.
type StartImagePath struct {
	ID fleet.StartImageID `path:"id"`
}

type startImageBody struct {
	fleet.StartImageView
	Offered
}

type startImageOutput struct {
	Location string `header:"Location"`
	Body     startImageBody
}

func startImageAnswer(a fleet.Actor, v fleet.StartImageView) startImageBody {
	return startImageBody{v, offers(a, "image", v.Actions())}
}

type startImagesOutput struct {
	Body struct {
		Items []startImageBody `json:"items"`
	}
}

func (s *Server) apiStartImages(ctx context.Context, a fleet.Actor, _ *struct{}) (*startImagesOutput, error) {
	all, err := s.Control.StartImages(ctx, a)
	out := &startImagesOutput{}
	out.Body.Items = []startImageBody{}
	for _, v := range all {
		out.Body.Items = append(out.Body.Items, startImageAnswer(a, v))
	}
	return out, err
}

func (s *Server) apiGetStartImage(ctx context.Context, a fleet.Actor, in *StartImagePath) (*startImageOutput, error) {
	v, err := s.Control.StartImage(ctx, a, in.ID)
	return &startImageOutput{Body: startImageAnswer(a, v)}, err
}

func (s *Server) apiAddStartImage(ctx context.Context, a fleet.Actor, in *struct{ Body control.NewStartImage }) (*startImageOutput, error) {
	id, err := s.Control.AddStartImage(ctx, a, in.Body)
	if err != nil {
		return nil, err
	}
	out, err := s.apiGetStartImage(ctx, a, &StartImagePath{id})
	if err == nil {
		out.Location = apiBase + "/image-catalog/" + string(id)
	}
	return out, err
}

type editStartImageInput struct {
	StartImagePath
	Body control.EditStartImage
}

func (s *Server) apiEditStartImage(ctx context.Context, a fleet.Actor, in *editStartImageInput) (*startImageOutput, error) {
	if err := s.Control.EditStartImage(ctx, a, in.ID, in.Body); err != nil {
		return nil, err
	}
	return s.apiGetStartImage(ctx, a, &in.StartImagePath)
}

func (s *Server) apiRemoveStartImage(ctx context.Context, a fleet.Actor, in *StartImagePath) (*nothing, error) {
	return nil, s.Control.RemoveStartImage(ctx, a, in.ID)
}

func (s *Server) apiRestoreStartImages(ctx context.Context, a fleet.Actor, _ *struct{}) (*nothing, error) {
	_, err := s.Control.RestoreStartImages(ctx, a)
	return nil, err
}

type pullInput struct {
	StartImagePath
	Body control.Pull
}

func (s *Server) apiPullStartImage(ctx context.Context, a fleet.Actor, in *pullInput) (*taskOutput, error) {
	_, task, err := s.Control.PullStartImage(ctx, a, in.ID, in.Body)
	return &taskOutput{task}, err
}
