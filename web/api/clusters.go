package api

import (
	"cmp"
	"context"

	"quantix/internal/control/hosts"
	"quantix/internal/fleet"
)

// ClusterPath holds the id of a cluster, from the request's path.
type ClusterPath struct {
	ID fleet.ClusterID `path:"id"`
}

type clusterOutput struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     clusterBody
}

type clusterBody struct {
	fleet.ClusterView
	OfferedActions
}

func clusterAnswer(a fleet.Actor, v fleet.ClusterView, err error) (*clusterOutput, error) {
	return &clusterOutput{ETag: etag(v.Generation), Body: clusterBody{v, offeredActions(a, "cluster", v.Actions())}}, err
}

// clusterEdit holds the editable fields of a cluster, at the same JSON paths as in the cluster.
type clusterEdit struct {
	Name string            `json:"name"`
	Spec fleet.ClusterSpec `json:"spec,omitzero"`
}

func (api *API) createCluster(ctx context.Context, a fleet.Actor, in *bodyInput[clusterEdit]) (*clusterOutput, error) {
	v, err := api.Control.CreateCluster(ctx, a, hosts.ClusterInput{Name: in.Body.Name, Spec: in.Body.Spec})
	out, err := clusterAnswer(a, v, err)
	out.Location = Base + fleet.TypeCluster.Info().PagePath(string(v.ID))
	return out, err
}

func (api *API) getCluster(ctx context.Context, a fleet.Actor, in *ClusterPath) (*clusterOutput, error) {
	v, err := api.Control.GetCluster(ctx, a, in.ID)
	return clusterAnswer(a, v, err)
}

type updateClusterInput struct {
	ClusterPath
	IfMatchHeader
	Body mergePatch[clusterEdit]
}

func (api *API) updateCluster(ctx context.Context, a fleet.Actor, in *updateClusterInput) (*clusterOutput, error) {
	return retryPatch(in.IfMatchHeader, func(wanted int64) (*clusterOutput, error) {
		old, err := api.Control.GetCluster(ctx, a, in.ID)
		if err != nil {
			return nil, err
		}
		to, err := in.Body.applyTo(clusterEdit{old.Name, old.Spec})
		if err != nil {
			return nil, err
		}
		v, err := api.Control.UpdateCluster(ctx, a, in.ID, hosts.ClusterInput{Name: to.Name, Spec: to.Spec, IfGeneration: cmp.Or(wanted, old.Generation)})
		return clusterAnswer(a, v, err)
	})
}
