package control

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// UpdateVM changes what is not nil.
type UpdateVM struct {
	Name         *string
	Labels       map[string]string // nil: as it is; otherwise the whole set
	Description  *string
	CPUs         *int
	MemoryMiB    *int
	ISO          *fleet.Volref // the zero Volref takes the ISO out
	IfGeneration int64         // refuse where the VM is at another generation; 0: do not ask
}

// UpdateVM changes a VM, raises its generation once and queues vm.apply. Where nothing would change it writes nothing, and the
// job's id is empty. A stale IfGeneration is a Conflict.
func (c *Control) UpdateVM(ctx context.Context, a fleet.Actor, id fleet.VMID, in UpdateVM) (fleet.VMView, fleet.TaskID, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.VMView{}, "", err
	}
	if err := checkID(id, "VM"); err != nil {
		return fleet.VMView{}, "", err
	}
	var vm fleet.VMView
	var job fleet.TaskID
	err := c.tx(ctx, func(q *db.Queries) error {
		job = ""
		old, err := lockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		if in.IfGeneration != 0 && in.IfGeneration != old.Generation {
			return changedMeanwhile("VM", old.Generation, in.IfGeneration)
		}
		if ok, why := old.Allows(fleet.ActEdit); !ok {
			return fleet.Errorf(fleet.Conflict, "%s", why)
		}
		var changes []string
		if vm, changes, err = in.on(old); err != nil || len(changes) == 0 {
			return err
		}
		if err := checkEdit(ctx, q, a, old, vm); err != nil {
			return err
		}
		vm, job, err = applyChange(ctx, q, a, vm, "vm.edit", strings.Join(changes, ", "))
		return err
	})
	if err != nil {
		return fleet.VMView{}, "", err
	}
	return vmFor(a, vm), job, nil
}

func changedMeanwhile(noun string, now, had int64) error {
	return fleet.Errorf(fleet.Conflict, "Somebody changed this %s meanwhile (generation %d, you had %d). Reload and try again.", noun, now, had)
}

// on is the VM with the changes made, and what they are in words.
func (in UpdateVM) on(vm fleet.VMView) (fleet.VMView, []string, error) {
	var checks fleet.Checks
	var changes []string
	note := func(format string, args ...any) { changes = append(changes, fmt.Sprintf(format, args...)) }
	if in.Name != nil && *in.Name != vm.Name {
		fleet.CheckName(&checks, "name", *in.Name)
		note("name %s → %s", vm.Name, *in.Name)
		vm.Name = *in.Name
	}
	if in.Labels != nil && !maps.Equal(in.Labels, vm.Labels) {
		fleet.CheckLabels(&checks, "labels", in.Labels)
		note("labels")
		vm.Labels = in.Labels
	}
	if in.Description != nil && *in.Description != vm.Description {
		fleet.CheckDescription(&checks, "description", *in.Description)
		note("description")
		vm.Description = *in.Description
	}
	if in.CPUs != nil && *in.CPUs != vm.Spec.CPUs {
		note("vCPUs %d → %d", vm.Spec.CPUs, *in.CPUs)
		vm.Spec.CPUs = *in.CPUs
	}
	if in.MemoryMiB != nil && *in.MemoryMiB != vm.Spec.MemoryMiB {
		note("memory %d → %d MiB", vm.Spec.MemoryMiB, *in.MemoryMiB)
		vm.Spec.MemoryMiB = *in.MemoryMiB
	}
	switch {
	case in.ISO == nil:
	case *in.ISO == fleet.Volref{} && vm.Spec.ISO != nil:
		note("ISO taken out")
		vm.Spec.ISO = nil
	case *in.ISO != fleet.Volref{} && (vm.Spec.ISO == nil || *vm.Spec.ISO != *in.ISO):
		note("ISO %s", in.ISO.Volume)
		vm.Spec.ISO = in.ISO
	}
	if len(changes) > 0 {
		vm.Spec.Check(&checks, "spec")
	}
	return vm, changes, checks.Err()
}

// checkEdit asks whether the VM's host can give what is new.
func checkEdit(ctx context.Context, q *db.Queries, a fleet.Actor, old, vm fleet.VMView) error {
	moreMemory := vm.Spec.MemoryMiB > old.Spec.MemoryMiB
	newISO := vm.Spec.ISO != nil && (old.Spec.ISO == nil || *old.Spec.ISO != *vm.Spec.ISO)
	if !moreMemory && !newISO {
		return nil
	}
	asked := fleet.VMSpec{ISO: vm.Spec.ISO, MemoryMiB: vm.Spec.MemoryMiB}
	if !newISO {
		asked.ISO = nil
	}
	hosts, err := candidates(ctx, q, a, vm.HostID, asked)
	if err != nil || len(hosts) == 0 {
		return err
	}
	var checks fleet.Checks
	for _, f := range placement.Fit(asked, hosts[0]) {
		// The host may be silent just now, and its firmware is not asked for again.
		if f.Field == "spec.memoryMiB" || newISO && f.Field != "spec.firmware" {
			checks.Add(f.Field, "%s", told(a, f))
		}
	}
	if err := checks.Err(); err != nil || !moreMemory {
		return err
	}
	return promise(ctx, q, a, asked, hosts[0], old.Spec.MemoryMiB)
}
