package web

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// VMPath names a VM in the path. Like the other parts that inputs share it is exported because huma fills no others.
type VMPath struct {
	ID fleet.VMID `path:"id"`
}

type vmOutput struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Task     string `header:"Quantix-Task" doc:"The task that brings the change to the host"`
	Body     fleet.VMView
}

type taskOutput struct{ Body fleet.Task }

type nothing struct{}

func (s *Server) apiCreateVM(ctx context.Context, a fleet.Actor, in *struct{ Body control.CreateVM }) (*vmOutput, error) {
	vm, err := s.Control.CreateVM(ctx, a, in.Body)
	return &vmOutput{ETag: etag(vm.Generation), Location: apiBase + "/vms/" + string(vm.ID), Body: vm}, err
}

func (s *Server) apiGetVM(ctx context.Context, a fleet.Actor, in *VMPath) (*vmOutput, error) {
	vm, err := s.Control.GetVM(ctx, a, in.ID)
	return &vmOutput{ETag: etag(vm.Generation), Body: vm}, err
}

// vmPatch holds what can be changed of a VM, in the places where a VM has it.
type vmPatch struct {
	Name        patch[string]      `json:"name"`
	Labels      labelPatch         `json:"labels"`
	Description patch[string]      `json:"description"`
	Spec        patch[vmSpecPatch] `json:"spec"`
}

type vmSpecPatch struct {
	CPUs      patch[int]         `json:"cpus"`
	MemoryMiB patch[int]         `json:"memoryMiB"`
	ISO       patch[volrefPatch] `json:"iso"` // null takes the ISO out
}

type volrefPatch struct {
	PoolID patch[fleet.PoolID] `json:"poolId"`
	Volume patch[string]       `json:"volume"`
}

type updateVMInput struct {
	VMPath
	MatchHeader
	Body vmPatch
}

func (s *Server) apiUpdateVM(ctx context.Context, a fleet.Actor, in *updateVMInput) (*vmOutput, error) {
	return retryPatch(in.MatchHeader, func(wanted int64) (*vmOutput, error) {
		old, err := s.Control.GetVM(ctx, a, in.ID)
		if err != nil {
			return nil, err
		}
		change, err := in.Body.on(old)
		if err != nil {
			return nil, err
		}
		if change.IfGeneration = wanted; wanted == 0 {
			change.IfGeneration = old.Generation
		}
		vm, task, err := s.Control.UpdateVM(ctx, a, in.ID, change)
		if err == nil && task == "" { // nothing to change
			vm = old
		}
		return &vmOutput{ETag: etag(vm.Generation), Task: string(task), Body: vm}, err
	})
}

// on merges the patch with the VM as it is.
func (p vmPatch) on(old fleet.VMView) (control.UpdateVM, error) {
	var c fleet.Checks
	change := control.UpdateVM{Name: p.Name.must(&c, "name"), Description: p.Description.orZero(), Labels: labelsWith(p.Labels, old.Labels)}
	if spec := p.Spec.must(&c, "spec"); spec != nil {
		change.CPUs, change.MemoryMiB = spec.CPUs.must(&c, "spec.cpus"), spec.MemoryMiB.must(&c, "spec.memoryMiB")
		if iso := spec.ISO.orZero(); iso != nil {
			change.ISO = iso.on(&c, old.Spec.ISO, spec.ISO.null)
		}
	}
	return change, c.Err()
}

func (p volrefPatch) on(c *fleet.Checks, old *fleet.Volref, out bool) *fleet.Volref {
	iso := &fleet.Volref{}
	if out {
		return iso
	}
	if old != nil {
		*iso = *old
	}
	if pool := p.PoolID.must(c, "spec.iso.poolId"); pool != nil {
		iso.PoolID = *pool
	}
	if volume := p.Volume.must(c, "spec.iso.volume"); volume != nil {
		iso.Volume = *volume
	}
	if *iso == (fleet.Volref{}) { // {} with no ISO in the drive: nothing is said
		return nil
	}
	return iso
}

type deleteVMInput struct {
	VMPath
	Disks   bool   `query:"disks" doc:"Delete the disks too"`
	Confirm string `query:"confirm" doc:"The VM's name; needed with disks"`
}

func (s *Server) apiDeleteVM(ctx context.Context, a fleet.Actor, in *deleteVMInput) (*taskOutput, error) {
	task, err := s.Control.DeleteVM(ctx, a, in.ID, in.Disks, in.Confirm)
	return &taskOutput{task}, err
}

type actOnVMInput struct {
	VMPath
	Body struct {
		Action fleet.Action `json:"action" doc:"start, shutdown, stop, reboot, reset, pause or resume"`
	}
}

func (s *Server) apiActOnVM(ctx context.Context, a fleet.Actor, in *actOnVMInput) (*taskOutput, error) {
	task, err := s.Control.ActVM(ctx, a, in.ID, in.Body.Action)
	return &taskOutput{task}, err
}

type consoleOutput struct{ Body consoleTicket }

func (s *Server) apiOpenConsole(ctx context.Context, a fleet.Actor, in *VMPath) (*consoleOutput, error) {
	t, err := s.openConsole(ctx, a, in.ID, apiBase+"/console/")
	return &consoleOutput{t}, err
}

type eventsOutput struct{ Body control.History }

func (s *Server) apiVMEvents(ctx context.Context, a fleet.Actor, in *VMPath) (*eventsOutput, error) {
	events, err := s.Control.VMEvents(ctx, a, in.ID)
	return &eventsOutput{events}, err
}
