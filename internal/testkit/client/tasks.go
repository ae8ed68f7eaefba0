package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"quantix/internal/fleet"
)

// askEvery is how often the waiting helpers ask.
const askEvery = 100 * time.Millisecond

// Tasks returns one page, newest first.
func (c *Client) Tasks(ctx context.Context, q fleet.Query) (fleet.Page[fleet.Task], error) {
	return list[fleet.Task](ctx, c, q, "tasks")
}

// Task returns one task.
func (c *Client) Task(ctx context.Context, id fleet.TaskID) (fleet.Task, error) {
	return read[fleet.Task](ctx, c, "tasks", string(id))
}

// CancelTask cancels a task that waits.
func (c *Client) CancelTask(ctx context.Context, id fleet.TaskID) (fleet.Task, error) {
	return change[fleet.Task](ctx, c, http.MethodPost, nil, "tasks", string(id), "cancel")
}

// WaitTask asks until the task has ended or ctx has. It is an error where the task did not end well; the task comes with it.
func (c *Client) WaitTask(ctx context.Context, id fleet.TaskID) (fleet.Task, error) {
	task, err := wait(ctx, func() (fleet.Task, bool, error) {
		t, err := c.Task(ctx, id)
		return t, t.State.Ended(), err
	})
	switch {
	case err != nil:
		return task, fmt.Errorf("wait for task %s (%s): %w", id, task.State, err)
	case task.State != fleet.JobDone:
		return task, fmt.Errorf("%s %s: %s: %s", task.Title(), task.SubjectName, task.State, task.Error)
	}
	return task, nil
}

// WaitVM asks until the VM is as wanted or ctx has ended; the VM as it was last comes with the error.
func (c *Client) WaitVM(ctx context.Context, id fleet.VMID, wanted func(fleet.VMView) bool) (fleet.VMView, error) {
	vm, err := wait(ctx, func() (fleet.VMView, bool, error) {
		vm, err := c.VM(ctx, id)
		return vm, wanted(vm), err
	})
	if err != nil {
		return vm, fmt.Errorf("wait for VM %s (%s): %w", vm.Name, vm.Phase, err)
	}
	return vm, nil
}

// wait asks at once and then again and again; of two ends the answer wins.
func wait[T any](ctx context.Context, ask func() (T, bool, error)) (T, error) {
	again := time.NewTicker(askEvery)
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
