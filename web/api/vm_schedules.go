package api

import (
	"context"

	"quantix/internal/fleet"
	"quantix/internal/schedules"
)

type schedulesOutput struct {
	Body struct {
		Items []schedules.ScheduleView `json:"items"`
	}
}

func (api *API) listSchedules(ctx context.Context, a fleet.Actor, in *VMPath) (*schedulesOutput, error) {
	out := &schedulesOutput{}
	all, err := api.Control.SnapshotSchedules(ctx, a, in.ID)
	out.Body.Items = append([]schedules.ScheduleView{}, all...)
	return out, err
}

type scheduleInput struct {
	VMPath
	Body schedules.SnapshotSchedule
}

type createdScheduleOutput struct {
	Body struct {
		ID schedules.ScheduleID `json:"id"`
	}
}

func (api *API) addSchedule(ctx context.Context, a fleet.Actor, in *scheduleInput) (*createdScheduleOutput, error) {
	out := &createdScheduleOutput{}
	var err error
	out.Body.ID, err = api.Control.AddSnapshotSchedule(ctx, a, in.ID, in.Body)
	return out, err
}

// SchedulePath names a snapshot schedule of a VM in the path.
type SchedulePath struct {
	VMPath
	Schedule schedules.ScheduleID `path:"schedule"`
}

type editScheduleInput struct {
	SchedulePath
	Body schedules.SnapshotSchedule
}

func (api *API) editSchedule(ctx context.Context, a fleet.Actor, in *editScheduleInput) (*struct{}, error) {
	return nil, api.Control.EditSnapshotSchedule(ctx, a, in.ID, in.Schedule, in.Body)
}

func (api *API) deleteSchedule(ctx context.Context, a fleet.Actor, in *SchedulePath) (*struct{}, error) {
	return nil, api.Control.DeleteSnapshotSchedule(ctx, a, in.ID, in.Schedule)
}
