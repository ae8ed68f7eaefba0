package api

import (
	"context"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
)

type taskOutput struct{ Body fleet.Task }

// TaskPath holds the id of a task, from the request's path.
type TaskPath struct {
	ID fleet.TaskID `path:"id"`
}

// TaskQuery holds the parameters of a request for one task.
type TaskQuery struct {
	ID   fleet.TaskID `path:"id"`
	Wait string       `query:"wait" doc:"Answer when the task has ended, or after this time with its state until then: 30s; at most 60s"`
}

func (api *API) getTask(ctx context.Context, a fleet.Actor, in *TaskQuery) (*taskOutput, error) {
	if in.Wait == "" {
		task, err := api.Control.GetTask(ctx, a, in.ID)
		return &taskOutput{task}, err
	}
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	task, err := api.WaitForTask(ctx.Value(echoContextKey{}).(echo.Context), a, in.ID, wait)
	return &taskOutput{task}, err
}

type guestProgramRunOutput struct{ Body fleet.GuestRun }

func (api *API) getGuestProgramRun(ctx context.Context, a fleet.Actor, in *TaskPath) (*guestProgramRunOutput, error) {
	run, err := api.Control.GuestRun(ctx, a, in.ID)
	return &guestProgramRunOutput{run}, err
}

func (api *API) cancelTask(ctx context.Context, a fleet.Actor, in *TaskPath) (*taskOutput, error) {
	task, err := api.Control.CancelTask(ctx, a, in.ID)
	return &taskOutput{task}, err
}

// readTasks returns a response with the tasks of these ids. The list is empty if hosts have nothing to do. If err is
// not nil, readTasks returns err.
func (api *API) readTasks(ctx context.Context, a fleet.Actor, ids []fleet.TaskID, err error) (*pageOutput[fleet.Task], error) {
	if err != nil {
		return nil, err
	}
	out := &pageOutput[fleet.Task]{fleet.Page[fleet.Task]{Items: []fleet.Task{}}}
	for _, id := range ids {
		if id == "" {
			continue
		}
		task, err := api.Control.GetTask(ctx, a, id)
		if err != nil {
			return nil, err
		}
		out.Body.Items = append(out.Body.Items, task)
	}
	return out, nil
}
