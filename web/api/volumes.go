package api

import (
	"context"

	"quantix/internal/control/storage"
	"quantix/internal/fleet"
)

// VolumePath identifies a volume of a pool, from the request's path and query.
type VolumePath struct {
	PoolPath
	Volume string       `path:"volume" maxLength:"255"`
	Host   fleet.HostID `query:"host" doc:"For a local pool: the host that has the file; may be omitted if only one host has it"`
}

func (in *VolumePath) volume() storage.VolumeID {
	return storage.VolumeID{PoolID: in.ID, Volume: in.Volume, HostID: in.Host}
}

type createVolumeInput struct {
	PoolPath
	Body storage.NewVolume
}

func (api *API) createVolume(ctx context.Context, a fleet.Actor, in *createVolumeInput) (*taskOutput, error) {
	task, err := api.Control.CreateVolume(ctx, a, in.ID, in.Body)
	return &taskOutput{task}, err
}

type fetchVolumeInput struct {
	PoolPath
	Body storage.NewDownload
}

func (api *API) fetchVolume(ctx context.Context, a fleet.Actor, in *fetchVolumeInput) (*taskOutput, error) {
	task, err := api.Control.FetchVolume(ctx, a, in.ID, in.Body)
	return &taskOutput{task}, err
}

type growVolumeInput struct {
	VolumePath
	Body struct {
		SizeBytes  int64 `json:"sizeBytes"`
		Overcommit bool  `json:"overcommit,omitempty" doc:"Allow overcommit of the pool"`
	}
}

func (api *API) growVolume(ctx context.Context, a fleet.Actor, in *growVolumeInput) (*taskOutput, error) {
	task, err := api.Control.GrowVolume(ctx, a, in.volume(), in.Body.SizeBytes, in.Body.Overcommit)
	return &taskOutput{task}, err
}

type cloneVolumeInput struct {
	VolumePath
	Body struct {
		Name       string `json:"name" doc:"Name of the copy"`
		Overcommit bool   `json:"overcommit,omitempty" doc:"Allow overcommit of the pool"`
	}
}

func (api *API) cloneVolume(ctx context.Context, a fleet.Actor, in *cloneVolumeInput) (*taskOutput, error) {
	task, err := api.Control.CloneVolume(ctx, a, in.volume(), in.Body.Name, in.Body.Overcommit)
	return &taskOutput{task}, err
}

type renameVolumeInput struct {
	VolumePath
	Body struct {
		Name string `json:"name" doc:"New name of the volume"`
	}
}

func (api *API) renameVolume(ctx context.Context, a fleet.Actor, in *renameVolumeInput) (*taskOutput, error) {
	task, err := api.Control.RenameVolume(ctx, a, in.volume(), in.Body.Name)
	return &taskOutput{task}, err
}

type confirmedVolumeInput struct {
	VolumePath
	Confirm string `query:"confirm" doc:"The volume's name, as confirmation"`
}

func (api *API) wipeVolume(ctx context.Context, a fleet.Actor, in *confirmedVolumeInput) (*taskOutput, error) {
	task, err := api.Control.WipeVolume(ctx, a, in.volume(), in.Confirm)
	return &taskOutput{task}, err
}

func (api *API) deleteVolume(ctx context.Context, a fleet.Actor, in *confirmedVolumeInput) (*taskOutput, error) {
	task, err := api.Control.DeleteVolume(ctx, a, in.volume(), in.Confirm)
	return &taskOutput{task}, err
}
