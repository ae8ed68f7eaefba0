package api

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

type snapshotsOutput struct{ Body fleet.SnapshotTree }

func (api *API) listSnapshots(ctx context.Context, a fleet.Actor, in *VMPath) (*snapshotsOutput, error) {
	vm, err := api.Control.GetVM(ctx, a, in.ID)
	out := &snapshotsOutput{}
	if err == nil && vm.Status != nil && vm.Status.Snapshots != nil {
		out.Body = *vm.Status.Snapshots
	}
	return out, err
}

type takeSnapshotInput struct {
	VMPath
	Body control.NewSnapshot
}

func (api *API) takeSnapshot(ctx context.Context, a fleet.Actor, in *takeSnapshotInput) (*taskOutput, error) {
	task, err := api.Control.TakeSnapshot(ctx, a, in.ID, in.Body)
	return &taskOutput{task}, err
}

// SnapshotPath names a snapshot of a VM in the path.
type SnapshotPath struct {
	VMPath
	Snapshot fleet.SnapshotID `path:"snapshot"`
}

type revertSnapshotInput struct {
	SnapshotPath
	Body control.RevertSnapshot
}

func (api *API) revertSnapshot(ctx context.Context, a fleet.Actor, in *revertSnapshotInput) (*taskOutput, error) {
	task, err := api.Control.RevertSnapshot(ctx, a, in.ID, in.Snapshot, in.Body)
	return &taskOutput{task}, err
}

type deleteSnapshotInput struct {
	SnapshotPath
	Subtree bool `query:"subtree" doc:"Also delete the snapshot's descendants"`
}

func (api *API) deleteSnapshot(ctx context.Context, a fleet.Actor, in *deleteSnapshotInput) (*taskOutput, error) {
	task, err := api.Control.DeleteSnapshot(ctx, a, in.ID, in.Snapshot, in.Subtree)
	return &taskOutput{task}, err
}

func (api *API) consolidateSnapshots(ctx context.Context, a fleet.Actor, in *VMPath) (*taskOutput, error) {
	task, err := api.Control.ConsolidateVM(ctx, a, in.ID)
	return &taskOutput{task}, err
}
