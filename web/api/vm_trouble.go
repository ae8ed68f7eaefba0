package api

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

type placeVMInput struct {
	VMPath
	Body struct {
		HostID fleet.HostID `json:"hostId" doc:"The VM's host, or a host that the field \"elsewhere\" lists as having the VM with its mark"`
	}
}

func (api *API) setVMHost(ctx context.Context, a fleet.Actor, in *placeVMInput) (*vmOutput, error) {
	vm, err := api.Control.ChooseVMHost(ctx, a, in.ID, in.Body.HostID)
	return changedVMResponder(a)(vm, "", err)
}

type detachDiskInput struct {
	VMPath
	Body struct {
		Disk fleet.Volref `json:"disk" doc:"A missing disk, as the VM's faults name it"`
	}
}

func (api *API) detachDisk(ctx context.Context, a fleet.Actor, in *detachDiskInput) (*vmOutput, error) {
	return changedVMResponder(a)(api.Control.DetachDisk(ctx, a, in.ID, in.Body.Disk))
}

type replaceDiskInput struct {
	VMPath
	Body struct {
		Disk fleet.Volref `json:"disk" doc:"A missing disk, as the VM's faults name it"`
		control.NewDisk
	}
}

func (api *API) replaceDisk(ctx context.Context, a fleet.Actor, in *replaceDiskInput) (*vmOutput, error) {
	return changedVMResponder(a)(api.Control.ReplaceDisk(ctx, a, in.ID, in.Body.Disk, in.Body.NewDisk))
}

type acceptDriftInput struct {
	VMPath
	Body struct {
		Fields map[string]string `json:"fields" doc:"Fields of status.drift, each with the value of \"actual\" that you read; refused if that value has changed since"`
	}
}

func (api *API) acceptDrift(ctx context.Context, a fleet.Actor, in *acceptDriftInput) (*vmOutput, error) {
	return changedVMResponder(a)(api.Control.AcceptDrift(ctx, a, in.ID, in.Body.Fields))
}

// changedVMResponder returns a function for the response with the changed VM, and the task that applies the change on
// the host.
func changedVMResponder(a fleet.Actor) func(fleet.VMView, fleet.TaskID, error) (*vmOutput, error) {
	return func(vm fleet.VMView, task fleet.TaskID, err error) (*vmOutput, error) {
		out := vmAnswer(a, vm)
		out.Task = string(task)
		return out, err
	}
}
