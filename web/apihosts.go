package web

import (
	"context"
	"strings"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// HostPath names a host in the path.
type HostPath struct {
	ID fleet.HostID `path:"id"`
}

type hostOutput struct {
	ETag string `header:"ETag"`
	Body hostBody
}

type hostBody struct {
	fleet.HostView
	Offered
}

// Offered is what the person may ask of the object now, and why not. Exported, as huma describes no other embedded types.
type Offered struct {
	Actions []fleet.ActionState `json:"actions" doc:"What you can ask of it now, and why not"`
}

func offers(a fleet.Actor, noun string, states []fleet.ActionState) Offered {
	return Offered{policy.Offer(a, noun, "", states)}
}

func hostAnswer(a fleet.Actor, h fleet.HostView, err error) (*hostOutput, error) {
	return &hostOutput{ETag: etag(h.Generation), Body: hostBody{h, offers(a, "host", h.Actions())}}, err
}

func (s *Server) apiGetHost(ctx context.Context, a fleet.Actor, in *HostPath) (*hostOutput, error) {
	h, err := s.Control.GetHost(ctx, a, in.ID)
	return hostAnswer(a, h, err)
}

type updateHostInput struct {
	HostPath
	MatchHeader
	Body struct {
		Spec patch[hostSpecPatch] `json:"spec"`
	}
}

type hostSpecPatch struct {
	Labels      labelPatch    `json:"labels"`
	Description patch[string] `json:"description"`
}

func (s *Server) apiUpdateHost(ctx context.Context, a fleet.Actor, in *updateHostInput) (*hostOutput, error) {
	return retryPatch(in.MatchHeader, func(wanted int64) (*hostOutput, error) {
		old, err := s.Control.GetHost(ctx, a, in.ID)
		if err != nil {
			return nil, err
		}
		var c fleet.Checks
		spec := in.Body.Spec.must(&c, "spec")
		if err := c.Err(); err != nil {
			return nil, err
		}
		change := control.UpdateHost{IfGeneration: wanted}
		if wanted == 0 {
			change.IfGeneration = old.Generation
		}
		if spec != nil {
			change.Labels, change.Description = labelsWith(spec.Labels, old.Spec.Labels), spec.Description.orZero()
		}
		h, err := s.Control.UpdateHost(ctx, a, in.ID, change)
		return hostAnswer(a, h, err)
	})
}

func (s *Server) apiDeleteHost(ctx context.Context, a fleet.Actor, in *HostPath) (*nothing, error) {
	return nil, s.Control.DeleteHost(ctx, a, in.ID)
}

type actOnHostInput struct {
	HostPath
	Body struct {
		Action string `json:"action" doc:"clear-conflict"`
	}
}

func (s *Server) apiActOnHost(ctx context.Context, a fleet.Actor, in *actOnHostInput) (*hostOutput, error) {
	if in.Body.Action != "clear-conflict" {
		var c fleet.Checks
		c.Add("action", "There is no action %q of a host. Use clear-conflict.", in.Body.Action)
		return nil, c.Err()
	}
	if err := s.Control.ClearConflict(ctx, a, in.ID); err != nil {
		return nil, err
	}
	return s.apiGetHost(ctx, a, &in.HostPath)
}

type foundVMsInput struct {
	HostPath
	ListQuery
}

func (s *Server) apiFoundVMs(ctx context.Context, a fleet.Actor, in *foundVMsInput) (*pageOutput[fleet.FoundVM], error) {
	host, err := s.Control.GetHost(ctx, a, in.ID)
	if err != nil {
		return nil, err
	}
	of := in.ListQuery
	of.Filter = strings.TrimSpace(of.Filter + " host:" + host.Name)
	return list(s.Control.ListFoundVMs)(ctx, a, &of)
}
