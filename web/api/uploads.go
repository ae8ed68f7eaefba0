package api

import (
	"context"

	"quantix/internal/fleet"
)

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
