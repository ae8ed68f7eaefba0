package api

import (
	"context"

	"quantix/internal/adoption"
	"quantix/internal/control"
	"quantix/internal/fleet"
)

type adoptVMInput struct {
	DiscoveredVMPath
	DryRun bool `query:"dryRun" doc:"Only return what would be adopted, and the reasons against it that are known before the host reads the definition"`
	Body   control.AdoptVM
}

type adoptVMOutput struct {
	Body struct {
		Task *fleet.Task      `json:"task,omitempty" doc:"The adoption; absent with dryRun"`
		Plan *adoption.VMPlan `json:"plan,omitempty" doc:"With dryRun: what would be adopted"`
	}
}

func (api *API) adoptVM(ctx context.Context, a fleet.Actor, in *adoptVMInput) (*adoptVMOutput, error) {
	out := &adoptVMOutput{}
	if in.DryRun {
		plan, err := api.Control.PlanAdoption(ctx, a, in.ID, in.VM, in.Body)
		out.Body.Plan = &plan
		return out, err
	}
	task, err := api.Control.AdoptVM(ctx, a, in.ID, in.VM, in.Body)
	out.Body.Task = &task
	return out, err
}

type adoptVMsInput struct {
	Body struct {
		ProjectID fleet.ProjectID           `json:"projectId"`
		VMs       []control.DiscoveredVMRef `json:"vms"`
	}
}

func (api *API) adoptVMs(ctx context.Context, a fleet.Actor, in *adoptVMsInput) (*taskOutput, error) {
	task, err := api.Control.AdoptVMs(ctx, a, in.Body.VMs, in.Body.ProjectID)
	return &taskOutput{task}, err
}

func (api *API) releaseVM(ctx context.Context, a fleet.Actor, in *VMPath) (*taskOutput, error) {
	task, err := api.Control.ReleaseVM(ctx, a, in.ID)
	return &taskOutput{task}, err
}

type releaseVMsInput struct {
	Body struct {
		IDs []fleet.VMID `json:"ids" doc:"IDs of the VMs, 500 at most"`
	}
}

func (api *API) releaseVMs(ctx context.Context, a fleet.Actor, in *releaseVMsInput) (*taskOutput, error) {
	task, err := api.Control.ReleaseVMs(ctx, a, in.Body.IDs)
	return &taskOutput{task}, err
}

type actOnDiscoveredVMsInput struct {
	Body struct {
		Action fleet.Action              `json:"action" doc:"start, shutdown, stop, reboot, reset, pause or resume"`
		VMs    []control.DiscoveredVMRef `json:"vms" doc:"The VMs, 500 at most"`
	}
}

func (api *API) actOnDiscoveredVMs(ctx context.Context, a fleet.Actor, in *actOnDiscoveredVMsInput) (*taskOutput, error) {
	task, err := api.Control.RequestDiscoveredVMActions(ctx, a, in.Body.Action, in.Body.VMs)
	return &taskOutput{task}, err
}
