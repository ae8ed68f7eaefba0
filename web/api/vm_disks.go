package api

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

type diskImageInput struct {
	VMPath
	Body struct {
		Disk fleet.Volref `json:"disk" doc:"One of the VM's disks"`
		control.DiskImage
	}
}

func (api *API) createDiskImage(ctx context.Context, a fleet.Actor, in *diskImageInput) (*taskOutput, error) {
	_, task, err := api.Control.ImageOfDisk(ctx, a, in.ID, in.Body.Disk, in.Body.DiskImage)
	return &taskOutput{task}, err
}

type growDiskInput struct {
	VMPath
	Body struct {
		Disk fleet.Volref `json:"disk" doc:"One of the VM's disks"`
		control.GrowDisk
	}
}

func (api *API) growDisk(ctx context.Context, a fleet.Actor, in *growDiskInput) (*vmOutput, error) {
	return changedVMResponder(a)(api.Control.GrowDisk(ctx, a, in.ID, in.Body.Disk, in.Body.GrowDisk))
}

type moveDiskInput struct {
	VMPath
	Body struct {
		Disk fleet.Volref `json:"disk" doc:"One of the VM's disks"`
		control.MoveDisk
	}
}

func (api *API) moveDisk(ctx context.Context, a fleet.Actor, in *moveDiskInput) (*taskOutput, error) {
	task, err := api.Control.MoveDisk(ctx, a, in.ID, in.Body.Disk, in.Body.MoveDisk)
	return &taskOutput{task}, err
}

type moveTargetsInput struct {
	VMPath
	PoolID fleet.PoolID `query:"poolId" required:"true" doc:"Current pool of the disk"`
	Volume string       `query:"volume" required:"true" doc:"The disk's volume in this pool"`
}

type moveTargetsOutput struct {
	Body struct {
		Items []fleet.MoveTarget `json:"items"`
	}
}

func (api *API) listMoveTargets(ctx context.Context, a fleet.Actor, in *moveTargetsInput) (*moveTargetsOutput, error) {
	out := &moveTargetsOutput{}
	var err error
	out.Body.Items, err = api.Control.MoveTargets(ctx, a, in.ID, fleet.Volref{PoolID: in.PoolID, Volume: in.Volume})
	return out, err
}
