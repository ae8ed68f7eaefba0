package api

import (
	"context"

	"quantix/internal/fleet"
)

// UploadPath holds the id of an upload, from the request's path.
type UploadPath struct {
	ID fleet.UploadID `path:"id"`
}

type uploadOutput struct{ Body fleet.Upload }

func (api *API) getUpload(ctx context.Context, a fleet.Actor, in *UploadPath) (*uploadOutput, error) {
	u, err := api.Control.GetUpload(ctx, a, in.ID)
	return &uploadOutput{u}, err
}

type uploadsInput struct {
	Pool fleet.PoolID `query:"pool" doc:"Only uploads into this pool; empty: all pools"`
}

type uploadsOutput struct {
	Body struct {
		Items []fleet.Upload `json:"items"`
	}
}

func (api *API) listUploads(ctx context.Context, a fleet.Actor, in *uploadsInput) (*uploadsOutput, error) {
	var out uploadsOutput
	var err error
	out.Body.Items, err = api.Control.ListUploads(ctx, a, in.Pool)
	return &out, err
}
