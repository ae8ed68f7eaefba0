package web

import (
	"context"

	"quantix/internal/fleet"
)

// SelectorBody is which labels a host must have to get an object by itself.
type SelectorBody struct {
	Selector string `json:"selector" doc:"Labels that a host must have, all of them: key=value, or a key alone, with commas between. Empty: it comes to no host by itself" example:"rack=4, ssd"`
}

type byLabelOutput struct{ Body fleet.ByLabel }

type poolSelectorInput struct {
	PoolPath
	Body SelectorBody
}

type networkSelectorInput struct {
	NetworkPath
	Body SelectorBody
}

func (s *Server) apiPoolSelector(ctx context.Context, a fleet.Actor, in *PoolPath) (*byLabelOutput, error) {
	now, err := s.Control.PoolLabels(ctx, a, in.ID)
	return &byLabelOutput{now}, err
}

func (s *Server) apiSetPoolSelector(ctx context.Context, a fleet.Actor, in *poolSelectorInput) (*byLabelOutput, error) {
	now, err := s.Control.LabelPool(ctx, a, in.ID, in.Body.Selector)
	return &byLabelOutput{now}, err
}

func (s *Server) apiNetworkSelector(ctx context.Context, a fleet.Actor, in *NetworkPath) (*byLabelOutput, error) {
	now, err := s.Control.NetworkLabels(ctx, a, in.ID)
	return &byLabelOutput{now}, err
}

func (s *Server) apiSetNetworkSelector(ctx context.Context, a fleet.Actor, in *networkSelectorInput) (*byLabelOutput, error) {
	now, err := s.Control.LabelNetwork(ctx, a, in.ID, in.Body.Selector)
	return &byLabelOutput{now}, err
}

type retriedOutput struct{ Body RetriedBody }

// RetriedBody is what came of asking all failed hosts to try again.
type RetriedBody struct {
	Items  []fleet.Task `json:"items"`
	Silent int          `json:"silent" doc:"Hosts that are not heard; they try by themselves when they are back"`
	More   int          `json:"more" doc:"Hosts that failed, too, beyond what one order is about; ask again for them"`
}

func (s *Server) retriedOf(ctx context.Context, a fleet.Actor, r fleet.Retried, err error) (*retriedOutput, error) {
	tasks, err := s.tasksOf(ctx, a, r.Tasks, err)
	if err != nil {
		return nil, err
	}
	return &retriedOutput{RetriedBody{tasks.Body.Items, r.Silent, r.More}}, nil
}

func (s *Server) apiRetryPoolEverywhere(ctx context.Context, a fleet.Actor, in *PoolPath) (*retriedOutput, error) {
	r, err := s.Control.RetryPoolEverywhere(ctx, a, in.ID)
	return s.retriedOf(ctx, a, r, err)
}

func (s *Server) apiRetryNetworkEverywhere(ctx context.Context, a fleet.Actor, in *NetworkPath) (*retriedOutput, error) {
	r, err := s.Control.RetryNetworkEverywhere(ctx, a, in.ID)
	return s.retriedOf(ctx, a, r, err)
}
