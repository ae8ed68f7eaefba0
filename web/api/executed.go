package api

import (
	"context"

	"quantix/internal/fleet"
)

// subjectPath is implemented by the path parameters of a pool or network. Pools and networks are assigned to hosts by
// the same operations.
type subjectPath interface{ subject() fleet.Subject }

func (p PoolPath) subject() fleet.Subject    { return fleet.SubjectPool(p.ID) }
func (p NetworkPath) subject() fleet.Subject { return fleet.SubjectNetwork(p.ID) }

// hostStatusPath is implemented by the path parameters of a pool or a network on one host.
type hostStatusPath interface {
	subjectPath
	hostID() fleet.HostID
}

func (p PoolHostPath) hostID() fleet.HostID    { return p.Host }
func (p NetworkHostPath) hostID() fleet.HostID { return p.Host }

func deleteObject[P subjectPath](api *API) operationFunc[P, pageOutput[fleet.Task]] {
	return func(ctx context.Context, a fleet.Actor, in *P) (*pageOutput[fleet.Task], error) {
		ids, err := api.Control.DeleteEverywhere(ctx, a, (*in).subject())
		return api.readTasks(ctx, a, ids, err)
	}
}

func assignToHost[P hostStatusPath](api *API) operationFunc[P, pageOutput[fleet.Task]] {
	return func(ctx context.Context, a fleet.Actor, in *P) (*pageOutput[fleet.Task], error) {
		ids, err := api.Control.Assign(ctx, a, (*in).subject(), []fleet.HostID{(*in).hostID()})
		return api.readTasks(ctx, a, ids, err)
	}
}

// hostTask returns an operation that calls do to start a task for a pool or network on one host.
func hostTask[P hostStatusPath](api *API, do func(context.Context, fleet.Actor, fleet.Subject, fleet.HostID) (fleet.TaskID, error)) operationFunc[P, pageOutput[fleet.Task]] {
	return func(ctx context.Context, a fleet.Actor, in *P) (*pageOutput[fleet.Task], error) {
		id, err := do(ctx, a, (*in).subject(), (*in).hostID())
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

func retryOnAllFailedHosts[P subjectPath](api *API) operationFunc[P, retriedOutput] {
	return func(ctx context.Context, a fleet.Actor, in *P) (*retriedOutput, error) {
		r, err := api.Control.RetryEverywhere(ctx, a, (*in).subject())
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

type byLabelOutput struct{ Body fleet.ByLabel }

type selectorPath interface {
	subjectPath
	selector() string
}

type poolSelectorInput struct {
	PoolPath
	Body SelectorBody
}

type networkSelectorInput struct {
	NetworkPath
	Body SelectorBody
}

func (p poolSelectorInput) selector() string    { return p.Body.Selector }
func (p networkSelectorInput) selector() string { return p.Body.Selector }

func getLabelSelector[P subjectPath](api *API) operationFunc[P, byLabelOutput] {
	return func(ctx context.Context, a fleet.Actor, in *P) (*byLabelOutput, error) {
		now, err := api.Control.ByLabel(ctx, a, (*in).subject())
		return &byLabelOutput{now}, err
	}
}

func setLabelSelector[P selectorPath](api *API) operationFunc[P, byLabelOutput] {
	return func(ctx context.Context, a fleet.Actor, in *P) (*byLabelOutput, error) {
		now, err := api.Control.AssignByLabel(ctx, a, (*in).subject(), (*in).selector())
		return &byLabelOutput{now}, err
	}
}
