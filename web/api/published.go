package api

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// imageFileInput identifies a volume of a pool, from the request's path and query.
type imageFileInput struct {
	PoolPath
	Volume string       `path:"volume" maxLength:"255"`
	Host   fleet.HostID `query:"host" doc:"For a local pool: the host that has the file; omitted: every host that has it"`
}

func (in *imageFileInput) imageFile() control.ImageFile {
	return control.ImageFile{PoolID: in.ID, Volume: in.Volume, HostID: in.Host}
}

func (api *API) publishImage(ctx context.Context, a fleet.Actor, in *imageFileInput) (*emptyOutput, error) {
	return nil, api.Control.PublishImage(ctx, a, in.imageFile())
}

func (api *API) withdrawImage(ctx context.Context, a fleet.Actor, in *imageFileInput) (*emptyOutput, error) {
	return nil, api.Control.WithdrawImage(ctx, a, in.imageFile())
}
