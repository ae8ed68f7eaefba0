package api

import (
	"context"

	"quantix/internal/bmc"
	"quantix/internal/control/hostpower"
	"quantix/internal/fleet"
)

type bmcOutput struct {
	ETag string `header:"ETag"`
	Body bmc.BMC
}

func bmcAnswer(b bmc.BMC, err error) (*bmcOutput, error) {
	return &bmcOutput{etag(b.Generation), b}, err
}

func (api *API) getBMC(ctx context.Context, a fleet.Actor, in *HostPath) (*bmcOutput, error) {
	return bmcAnswer(api.Control.GetBMC(ctx, a, in.ID))
}

func (api *API) setBMC(ctx context.Context, a fleet.Actor, in *objectInput[fleet.HostID, hostpower.BMCInput]) (*bmcOutput, error) {
	return bmcAnswer(api.Control.SetBMC(ctx, a, in.ID, in.Body))
}

func (api *API) testBMC(ctx context.Context, a fleet.Actor, in *HostPath) (*bmcOutput, error) {
	return bmcAnswer(api.Control.TestBMC(ctx, a, in.ID))
}

// actDrain is another word for fleet.ActEnterMaintenance.
const actDrain fleet.Action = "drain"

func switchPower(api *API, ctx context.Context, a fleet.Actor, in *actOnHostInput, out *hostOutput) error {
	task, err := api.Control.RequestBMCPower(ctx, a, in.ID, in.Body.Action, in.Body.Confirm)
	out.Body.Task = &task
	return err
}

func terminateHost(api *API, ctx context.Context, a fleet.Actor, in *actOnHostInput, out *hostOutput) error {
	if in.DryRun {
		plan, err := api.Control.PlanTermination(ctx, a, in.ID, in.Body.Overcommit)
		out.Body.Termination = &plan
		return err
	}
	task, err := api.Control.TerminateHost(ctx, a, in.ID, hostpower.TerminateHost{
		Confirm: in.Body.Confirm, Decisions: in.Body.Decisions, Overcommit: in.Body.Overcommit, LeaveVolumes: in.Body.LeaveVolumes,
	})
	out.Body.Task = &task
	return err
}
