package agent

import (
	"context"
	"slices"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// planVM asks the hypervisor how an edit would change the VM's definition. Nothing is changed or recorded.
func planVM(ctx context.Context, a *Agent, j *job) error {
	if err := a.checkImageChecksums(*j.VM); err != nil {
		return err
	}
	before, after, err := a.hypervisor.PlanVM(ctx, hypervisor.ApplyWork{
		VM: *j.VM, Project: j.Project, OwnershipMark: j.Mark, Pools: j.Pools,
		AppliedGeneration: a.state.appliedGeneration(j.VM.ID), CreatedDisks: slices.Concat(j.CreatedDisks, a.state.createdDisks(j.VM.ID)),
		RecordDisk: func(fleet.Volref) error { return nil }, Progress: func(int, string) {},
	})
	if err != nil {
		return err
	}
	if max(len(before), len(after)) > fleet.MaxDefinitionText {
		return fleet.Errorf(fleet.TooLarge, "The definition on the host is larger than %s, which is too large to show.", fleet.FormatBytes(fleet.MaxDefinitionText))
	}
	d := hypervisor.DiffDefinitions(before, after)
	j.plan = &d
	return nil
}

// addPlan adds the plan to the job's result, without a generation because the job applied no spec.
func addPlan(_ context.Context, _ *Agent, j *job, out *wire.Finish) {
	out.Generation, out.Drawing = 0, j.plan
}
