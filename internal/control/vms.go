package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// History is what happened to one VM, each list newest first and at most 50 long.
type History struct {
	Audit []fleet.AuditEntry `json:"audit"`
	Jobs  []fleet.Task       `json:"jobs"`
}

// VMMeter is a VM's newest load.
type VMMeter struct {
	At time.Time `json:"at"`
	fleet.Meter
	CPUPercent *float64 `json:"cpuPercent,omitempty"` // since the meter before; 100 is one core; nil: only one meter yet
}

// checkID refuses what can be no identifier in the words for a thing that does not exist, before the database is asked.
func checkID[T ~string](id T, noun string) error {
	if !fleet.IsID(string(id)) {
		return notFound(pgx.ErrNoRows, noun)
	}
	return nil
}

// GetVM returns one VM. A VM of a project that the actor may not see does not exist for it.
func (c *Control) GetVM(ctx context.Context, a fleet.Actor, id fleet.VMID) (fleet.VMView, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.VMView{}, err
	}
	if err := checkID(id, "VM"); err != nil {
		return fleet.VMView{}, err
	}
	v, err := getVM(ctx, c.q, a, id)
	return vmFor(a, v), err
}

func getVM(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.VMID) (fleet.VMView, error) {
	r, err := q.GetVM(ctx, db.GetVMParams{ID: id, AllProjects: policy.AllProjects(a), Projects: projectsOf(a)})
	if err != nil {
		return fleet.VMView{}, notFound(err, "VM")
	}
	nameNetworks(r.VM.Spec.NICs, r.Networks)
	v := vmView(r.VM, r.HostName, r.ProjectName, r.LookedAt, r.Now)
	err = hearPlaces(ctx, q, &v, r.Now)
	return shownTo(a, v), err
}

// lockVM is getVM for a change: nobody else changes the VM until the transaction ends. right is asked for the VM's project.
func lockVM(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.VMID, right policy.Right) (fleet.VMView, error) {
	r, err := q.LockVM(ctx, db.LockVMParams{ID: id, AllProjects: policy.AllProjects(a), Projects: projectsOf(a)})
	if err != nil {
		return fleet.VMView{}, notFound(err, "VM")
	}
	if err := policy.Check(a, right, r.VM.ProjectID); err != nil {
		return fleet.VMView{}, err
	}
	nameNetworks(r.VM.Spec.NICs, r.Networks)
	v := vmView(r.VM, r.HostName, r.ProjectName, r.LookedAt, r.Now)
	err = hearPlaces(ctx, q, &v, r.Now)
	return shownTo(a, v), err
}

func vmView(r db.VM, host, project string, seen *time.Time, now time.Time) fleet.VMView {
	vm := vmOf(r)
	if f := vm.PlaceFault(host, seen, now); f != nil && vm.Status != nil {
		status := *vm.Status
		status.Faults = append([]fleet.Fault{*f}, status.Faults...)
		vm.Status = &status
	}
	return fleet.VMView{
		VM: vm, Phase: vm.Phase(seen, now), Attention: vm.NeedsAttention(seen, now), HostName: host, ProjectName: project, SeenAt: seen,
	}
}

// shownTo is the VM as the actor may read it: who sees no hosts reads neither their names nor their own words.
func shownTo(a fleet.Actor, v fleet.VMView) fleet.VMView {
	if !policy.May(a, policy.InfraSee, "") {
		v.Status, v.Elsewhere = v.Plain(), slices.Clone(v.Elsewhere)
		for i := range v.Elsewhere {
			v.Elsewhere[i].HostID, v.Elsewhere[i].HostName = "", ""
		}
	}
	return v
}

// VMRetry returns the VM's task that failed because its hypervisor was not reached, and is tried again; nil: there is none.
func (c *Control) VMRetry(ctx context.Context, a fleet.Actor, id fleet.VMID) (*fleet.Task, error) {
	if _, err := c.GetVM(ctx, a, id); err != nil {
		return nil, err
	}
	r, err := c.q.VMRetry(ctx, fleet.SubjectVM(id))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, dbError(err)
	}
	task := taskFor(a, taskOf(r.Task, r.HostName))
	return &task, nil
}

// VMEvents returns what people did to a VM and the tasks that came of it.
func (c *Control) VMEvents(ctx context.Context, a fleet.Actor, id fleet.VMID) (History, error) {
	if _, err := c.GetVM(ctx, a, id); err != nil {
		return History{}, err
	}
	audit, err := c.q.VMAudit(ctx, string(fleet.SubjectVM(id)))
	if err != nil {
		return History{}, dbError(err)
	}
	tasks, err := c.q.VMTasks(ctx, fleet.SubjectVM(id))
	if err != nil {
		return History{}, dbError(err)
	}
	h := History{Audit: make([]fleet.AuditEntry, len(audit)), Jobs: make([]fleet.Task, len(tasks))}
	for i, e := range audit {
		h.Audit[i] = auditFor(a, fleet.AuditEntry{
			ID: e.ID, At: e.At, Actor: e.Actor, Address: e.Address, Action: e.Action, Subject: e.Subject, Name: e.Name, Detail: e.Detail,
		})
	}
	for i, t := range tasks {
		h.Jobs[i] = taskFor(a, taskOf(t.Task, t.HostName))
	}
	return h, nil
}

// VMMeter returns a VM's newest load; nil where its host has not said any.
func (c *Control) VMMeter(ctx context.Context, a fleet.Actor, id fleet.VMID) (*VMMeter, error) {
	if _, err := c.GetVM(ctx, a, id); err != nil {
		return nil, err
	}
	r, err := c.q.VMMeter(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, dbError(err)
	}
	m := &VMMeter{At: r.At, Meter: r.Meter}
	if r.CpuPercent != nil {
		percent := float64(*r.CpuPercent)
		m.CPUPercent = &percent
	}
	return m, nil
}
