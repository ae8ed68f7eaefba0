package api

import (
	"context"
	"time"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

// MetricQuery is the time of metrics, from the request's query. It is exported because huma fills only exported embedded
// types.
type MetricQuery struct {
	From time.Time `query:"from" doc:"Start; without it an hour before the end"`
	To   time.Time `query:"to" doc:"End; without it now"`
	Step int       `query:"step" minimum:"0" maximum:"31622400" doc:"Distance of the points in seconds; without it about 360 points. Older times have a minimum"`
}

func (q MetricQuery) times() query.MetricRange {
	return query.MetricRange{From: q.From, To: q.To, Step: time.Duration(q.Step) * time.Second}
}

type metricsOutput struct{ Body fleet.MetricSeries }

type vmMetricsInput struct {
	VMPath
	MetricQuery
}

type hostMetricsInput struct {
	HostPath
	MetricQuery
}

type clusterMetricsInput struct {
	ClusterPath
	MetricQuery
}

type fleetMetricsInput struct {
	MetricQuery
}

type poolMetricsInput struct {
	PoolPath
	MetricQuery
}

func (api *API) vmMetrics(ctx context.Context, a fleet.Actor, in *vmMetricsInput) (*metricsOutput, error) {
	m, err := api.Control.VMMetrics(ctx, a, in.ID, in.times())
	return &metricsOutput{m}, err
}

func (api *API) hostMetrics(ctx context.Context, a fleet.Actor, in *hostMetricsInput) (*metricsOutput, error) {
	m, err := api.Control.HostMetrics(ctx, a, in.ID, in.times())
	return &metricsOutput{m}, err
}

func (api *API) poolMetrics(ctx context.Context, a fleet.Actor, in *poolMetricsInput) (*metricsOutput, error) {
	m, err := api.Control.PoolMetrics(ctx, a, in.ID, in.times())
	return &metricsOutput{m}, err
}

func (api *API) clusterMetrics(ctx context.Context, a fleet.Actor, in *clusterMetricsInput) (*metricsOutput, error) {
	m, err := api.Control.ClusterMetrics(ctx, a, in.ID, in.times())
	return &metricsOutput{m}, err
}

func (api *API) fleetMetrics(ctx context.Context, a fleet.Actor, in *fleetMetricsInput) (*metricsOutput, error) {
	m, err := api.Control.FleetMetrics(ctx, a, in.times())
	return &metricsOutput{m}, err
}
