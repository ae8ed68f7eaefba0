package api

import (
	"context"

	"quantix/internal/fleet"
)

// driftFields names fields with drift.
type driftFields struct {
	Fields []string `json:"fields" doc:"Fields with drift"`
}

// seen returns the fields without the values that the client read, which are then not compared.
func (d driftFields) seen() map[string]string {
	out := make(map[string]string, len(d.Fields))
	for _, f := range d.Fields {
		out[f] = ""
	}
	return out
}

type driftFieldsInput struct {
	VMPath
	Body driftFields
}

func (api *API) ignoreDrift(ctx context.Context, a fleet.Actor, in *driftFieldsInput) (*vmOutput, error) {
	vm, err := api.Control.IgnoreDrift(ctx, a, in.ID, in.Body.seen())
	return changedVMResponder(a)(vm, "", err)
}

func (api *API) showDrift(ctx context.Context, a fleet.Actor, in *driftFieldsInput) (*vmOutput, error) {
	vm, err := api.Control.ShowDrift(ctx, a, in.ID, in.Body.Fields)
	return changedVMResponder(a)(vm, "", err)
}

type reapplyInput struct {
	VMPath
	Body *struct {
		Fields []string `json:"fields,omitempty" doc:"Fields of status.drift to reapply; omitted: all. Other drift stays"`
	}
}

func (api *API) reapplyDefinition(ctx context.Context, a fleet.Actor, in *reapplyInput) (*taskOutput, error) {
	var fields []string
	if in.Body != nil {
		fields = in.Body.Fields
	}
	task, err := api.Control.Reapply(ctx, a, in.ID, fields)
	return &taskOutput{task}, err
}

type hostDriftInput struct {
	AssignedHostPath
	Body driftFields
}

func ignoreDriftOnHost(api *API, typ fleet.ResourceType) operationFunc[hostDriftInput, emptyOutput] {
	return func(ctx context.Context, a fleet.Actor, in *hostDriftInput) (*emptyOutput, error) {
		return nil, api.Control.IgnoreDriftOnHost(ctx, a, fleet.SubjectOf(typ, in.ID), in.Host, in.Body.seen())
	}
}

func showDriftOnHost(api *API, typ fleet.ResourceType) operationFunc[hostDriftInput, emptyOutput] {
	return func(ctx context.Context, a fleet.Actor, in *hostDriftInput) (*emptyOutput, error) {
		return nil, api.Control.ShowDriftOnHost(ctx, a, fleet.SubjectOf(typ, in.ID), in.Host, in.Body.Fields)
	}
}

type acceptHostDriftInput struct {
	AssignedHostPath
	Body struct {
		Fields map[string]string `json:"fields" doc:"Fields of the host's status.drift, each with the value of \"actual\" that you read; refused if that value has changed since"`
	}
}

func (api *API) acceptNetworkDrift(ctx context.Context, a fleet.Actor, in *acceptHostDriftInput) (*pageOutput[fleet.Task], error) {
	ids, err := api.Control.AcceptDriftOnHost(ctx, a, fleet.SubjectOf(fleet.TypeNetwork, in.ID), in.Host, in.Body.Fields)
	return api.readTasks(ctx, a, ids, err)
}
