package api

import (
	"context"

	"quantix/internal/control/health"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

type hostHealthOutput struct{ Body healthevent.HostHealth }

func (api *API) hostHealth(ctx context.Context, a fleet.Actor, in *HostPath) (*hostHealthOutput, error) {
	h, err := api.Control.HealthOfHost(ctx, a, in.ID)
	return &hostHealthOutput{h}, err
}

type hostEventsInput struct {
	HostPath
	After    int64  `query:"after" minimum:"0" doc:"ID of an event: older events; the answer's older"`
	Before   int64  `query:"before" minimum:"0" doc:"ID of an event: the events directly newer; the answer's newer"`
	Limit    int    `query:"limit" minimum:"0" maximum:"500" doc:"Number of events; without it 50"`
	Severity string `query:"severity" enum:"critical,warning,info" doc:"Only events of this severity"`
	Check    string `query:"check" maxLength:"120" doc:"Only events of this check"`
}

type hostEventsOutput struct{ Body health.EventPage }

func (api *API) hostEvents(ctx context.Context, a fleet.Actor, in *hostEventsInput) (*hostEventsOutput, error) {
	page, err := api.Control.HostEvents(ctx, a, in.ID, health.EventQuery{
		After: in.After, Before: in.Before, Limit: in.Limit, Severity: fleet.AlarmSeverity(in.Severity), Check: in.Check,
	})
	return &hostEventsOutput{page}, err
}

type resolveConditionInput struct {
	HostPath
	Body struct {
		Check  string `json:"check" doc:"Check of the condition"`
		Object string `json:"object" doc:"Object of the condition; empty: the host"`
		Code   string `json:"code" doc:"Code of the condition"`
	}
}

func (api *API) resolveCondition(ctx context.Context, a fleet.Actor, in *resolveConditionInput) (*emptyOutput, error) {
	return nil, api.Control.ResolveCondition(ctx, a, in.ID, healthevent.Key{Check: in.Body.Check, Object: in.Body.Object, Code: in.Body.Code})
}
