package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"quantix/internal/fleet"
)

// pollInterval is the time between two requests of WaitTask and WaitVM.
const pollInterval = 100 * time.Millisecond

// Tasks returns one page of the tasks, newest first.
func (c *Client) Tasks(ctx context.Context, q fleet.Query) (fleet.Page[fleet.Task], error) {
	return getPage[fleet.Task](ctx, c, q, "tasks")
}

// Task returns one task.
func (c *Client) Task(ctx context.Context, id fleet.TaskID) (fleet.Task, error) {
	return getObject[fleet.Task](ctx, c, "tasks", string(id))
}

// CancelTask cancels a task.
func (c *Client) CancelTask(ctx context.Context, id fleet.TaskID) (fleet.Task, error) {
	return changeObject[fleet.Task](ctx, c, http.MethodPost, nil, "tasks", string(id), "cancel")
}

// WaitTask polls until the task or ctx ends. If the task did not succeed, it returns the task together with an error.
func (c *Client) WaitTask(ctx context.Context, id fleet.TaskID) (fleet.Task, error) {
	task, err := pollUntil(ctx, func() (fleet.Task, bool, error) {
		t, err := c.Task(ctx, id)
		return t, t.State.IsFinal(), err
	})
	switch {
	case err != nil:
		return task, fmt.Errorf("wait for task %s (%s): %w", id, task.State, err)
	case task.State != fleet.JobDone:
		return task, fmt.Errorf("%s %s: %s: %s", task.Title(), task.SubjectName, task.State, task.Error)
	}
	return task, nil
}

// WaitVM polls until wanted returns true for the VM, or ctx ends. With an error, it also returns the last state of the
// VM.
func (c *Client) WaitVM(ctx context.Context, id fleet.VMID, wanted func(fleet.VMView) bool) (fleet.VMView, error) {
	vm, err := pollUntil(ctx, func() (fleet.VMView, bool, error) {
		vm, err := c.VM(ctx, id)
		return vm, wanted(vm), err
	})
	if err != nil {
		return vm, fmt.Errorf("wait for VM %s (%s): %w", vm.Name, vm.Phase, err)
	}
	return vm, nil
}

// pollUntil calls ask at once and then periodically. If ask succeeds at the moment when ctx ends, pollUntil returns the
// answer.
func pollUntil[T any](ctx context.Context, ask func() (T, bool, error)) (T, error) {
	again := time.NewTicker(pollInterval)
	defer again.Stop()
	var last T
	for {
		now, done, err := ask()
		switch {
		case err != nil && ctx.Err() != nil:
			return last, ctx.Err()
		case err != nil || done:
			return now, err
		}
		last = now
		select {
		case <-again.C:
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}
