package api

import (
	"context"

	"quantix/internal/fleet"
)

// AssignedObjectPath holds the id of an object that is assigned to hosts, from the request's path.
type AssignedObjectPath struct {
	ID string `path:"id"`
}

// AssignedHostPath holds the ids of such an object and of one host, from the request's path.
type AssignedHostPath struct {
	AssignedObjectPath
	Host fleet.HostID `path:"host"`
}

func deleteObject(api *API, typ fleet.ResourceType) operationFunc[AssignedObjectPath, pageOutput[fleet.Task]] {
	return func(ctx context.Context, a fleet.Actor, in *AssignedObjectPath) (*pageOutput[fleet.Task], error) {
		ids, err := api.Control.DeleteEverywhere(ctx, a, fleet.SubjectOf(typ, in.ID))
		return api.readTasks(ctx, a, ids, err)
	}
}

func assignToHost(api *API, typ fleet.ResourceType) operationFunc[AssignedHostPath, pageOutput[fleet.Task]] {
	return func(ctx context.Context, a fleet.Actor, in *AssignedHostPath) (*pageOutput[fleet.Task], error) {
		ids, err := api.Control.Assign(ctx, a, fleet.SubjectOf(typ, in.ID), []fleet.HostID{in.Host})
		return api.readTasks(ctx, a, ids, err)
	}
}

// startHostTask returns an operation that starts a task for an object on one host, by do.
func startHostTask(api *API, typ fleet.ResourceType, do func(context.Context, fleet.Actor, fleet.Subject, fleet.HostID) (fleet.TaskID, error)) operationFunc[AssignedHostPath, pageOutput[fleet.Task]] {
	return func(ctx context.Context, a fleet.Actor, in *AssignedHostPath) (*pageOutput[fleet.Task], error) {
		id, err := do(ctx, a, fleet.SubjectOf(typ, in.ID), in.Host)
		return api.readTasks(ctx, a, []fleet.TaskID{id}, err)
	}
}

// RetriedBody is the result of a retry on all hosts where a pool or network failed.
type RetriedBody struct {
	Items   []fleet.Task `json:"items"`
	Offline int          `json:"offline" doc:"Number of offline hosts; they retry when they are online again"`
	More    int          `json:"more" doc:"Number of further failed hosts, beyond the limit of one request; repeat the request for them"`
}

type retriedOutput struct{ Body RetriedBody }

func retryOnAllFailedHosts(api *API, typ fleet.ResourceType) operationFunc[AssignedObjectPath, retriedOutput] {
	return func(ctx context.Context, a fleet.Actor, in *AssignedObjectPath) (*retriedOutput, error) {
		r, err := api.Control.RetryEverywhere(ctx, a, fleet.SubjectOf(typ, in.ID))
		tasks, err := api.readTasks(ctx, a, r.Tasks, err)
		if err != nil {
			return nil, err
		}
		return &retriedOutput{RetriedBody{tasks.Body.Items, r.Offline, r.More}}, nil
	}
}

// SelectorBody is a label selector. Hosts that match it get the pool or network automatically.
type SelectorBody struct {
	Selector string `json:"selector" doc:"Labels that a host must all have, separated by commas: key=value or a key alone. Empty: no assignment by label" example:"rack=4, ssd"`
}

type labelSelectorOutput struct{ Body fleet.ByLabel }

type labelSelectorInput struct {
	AssignedObjectPath
	Body SelectorBody
}

func getLabelSelector(api *API, typ fleet.ResourceType) operationFunc[AssignedObjectPath, labelSelectorOutput] {
	return func(ctx context.Context, a fleet.Actor, in *AssignedObjectPath) (*labelSelectorOutput, error) {
		now, err := api.Control.ByLabel(ctx, a, fleet.SubjectOf(typ, in.ID))
		return &labelSelectorOutput{now}, err
	}
}

func setLabelSelector(api *API, typ fleet.ResourceType) operationFunc[labelSelectorInput, labelSelectorOutput] {
	return func(ctx context.Context, a fleet.Actor, in *labelSelectorInput) (*labelSelectorOutput, error) {
		now, err := api.Control.AssignByLabel(ctx, a, fleet.SubjectOf(typ, in.ID), in.Body.Selector)
		return &labelSelectorOutput{now}, err
	}
}
