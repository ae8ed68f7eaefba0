package query

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// History is the history of one VM. Each list is newest first and has at most 50 entries.
type History struct {
	Audit []fleet.AuditEntry `json:"audit"`
	Jobs  []fleet.Task       `json:"jobs"`
}

// VMMeter is the latest meter reading of a VM.
type VMMeter struct {
	At time.Time `json:"at"`
	fleet.Meter
	// CPUPercent is the CPU load since the previous reading, in percent of one CPU; nil: there is no previous reading.
	CPUPercent *float64 `json:"cpuPercent,omitempty"`
}

// GetVM returns one VM, or NotFoundError if the actor may not see the VM's project.
func (b *Queries) GetVM(ctx context.Context, a fleet.Actor, id fleet.VMID) (fleet.VMView, error) {
	one := make([]fleet.VMView, 1)
	var err error
	if one[0], err = VMWithPools(ctx, b, a, id); err == nil {
		err = b.store.HidePools(ctx, a, one)
	}
	return one[0], err
}

// VMWithPools works like GetVM, for use cases that need the IDs of pools that the actor may not see.
func VMWithPools(ctx context.Context, b *Queries, a fleet.Actor, id fleet.VMID) (fleet.VMView, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.VMView{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.VMView{}, err
	}
	v, err := store.GetVM(ctx, b.store.Queries, a, id)
	return store.RedactVM(a, v), err
}

// VMRetry returns the VM's task whose job waits for a retry because the hypervisor was unreachable, or nil.
func (b *Queries) VMRetry(ctx context.Context, a fleet.Actor, id fleet.VMID) (*fleet.Task, error) {
	if _, err := b.GetVM(ctx, a, id); err != nil {
		return nil, err
	}
	r, err := b.store.VMRetry(ctx, fleet.SubjectVM(id))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, store.UserError(err)
	}
	task := store.RedactTask(a, store.TaskFromRow(r.Task, r.HostName))
	return &task, b.store.HidePoolsOfTasks(ctx, a, &task)
}

// VMHistory returns the audit entries and tasks of a VM.
func (b *Queries) VMHistory(ctx context.Context, a fleet.Actor, id fleet.VMID) (History, error) {
	if _, err := b.GetVM(ctx, a, id); err != nil {
		return History{}, err
	}
	audit, err := b.store.VMAudit(ctx, string(fleet.SubjectVM(id)))
	if err != nil {
		return History{}, store.UserError(err)
	}
	tasks, err := b.store.VMTasks(ctx, fleet.SubjectVM(id))
	if err != nil {
		return History{}, store.UserError(err)
	}
	h := History{Audit: make([]fleet.AuditEntry, len(audit)), Jobs: make([]fleet.Task, len(tasks))}
	for i, e := range audit {
		h.Audit[i] = redactAuditEntry(a, fleet.AuditEntry{
			ID: e.ID, At: e.At, Actor: e.Actor, Address: e.Address, Action: e.Action, Subject: e.Subject, Name: e.Name, Detail: e.Detail,
		})
	}
	for i, t := range tasks {
		h.Jobs[i] = store.RedactTask(a, store.TaskFromRow(t.Task, t.HostName))
	}
	return h, b.store.HidePoolsOfTasks(ctx, a, pointers(h.Jobs)...)
}

// VMMeter returns a VM's latest meter reading, or nil if its host has not reported one.
func (b *Queries) VMMeter(ctx context.Context, a fleet.Actor, id fleet.VMID) (*VMMeter, error) {
	if _, err := b.GetVM(ctx, a, id); err != nil {
		return nil, err
	}
	r, err := b.store.VMMeter(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, store.UserError(err)
	}
	return &VMMeter{At: r.At, CPUPercent: cpuLoadOrNil(&r.CpuPercent), Meter: fleet.Meter{
		ID: id, CPUNanos: r.CpuNanos, MemoryBytes: r.MemoryBytes, ReadBytes: r.ReadBytes, WriteBytes: r.WriteBytes, ReceiveBytes: r.ReceiveBytes, SendBytes: r.SendBytes,
	}}, nil
}
