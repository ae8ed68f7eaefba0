package api

import (
	"cmp"
	"context"
	"net/http"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/vmedit"
)

// VMPath holds the id of a VM, from the request's path. It is exported because huma fills only exported embedded types.
type VMPath struct {
	ID fleet.VMID `path:"id"`
}

type vmOutput struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Task     string `header:"Quantix-Task" doc:"The task that applies the change on the host"`
	Body     vmBody
}

type vmBody struct {
	fleet.VMView
	OfferedActions
	Changes []fleet.Change `json:"changes,omitempty" doc:"The changes of an edit, and when each takes effect"`
}

func vmAnswer(a fleet.Actor, vm fleet.VMView) *vmOutput {
	return &vmOutput{ETag: etag(vm.Generation), Body: vmBody{VMView: vm, OfferedActions: OfferedActions{policy.RestrictActions(a, "vm", vm.ProjectID, vm.Actions())}}}
}

type newVMInput struct{ Body CreateVM }

// CreateVM is the request body for a new VM, and the document that the form shows as YAML. It is exported because huma
// describes no unexported embedded types.
type CreateVM struct {
	control.CreateVM
	APIVersion string `json:"apiVersion,omitempty" doc:"quantix/v1, or nothing"`
	Kind       string `json:"kind,omitempty" doc:"VM, or nothing"`
	Reason     string `json:"reason,omitempty" doc:"Why the VM is needed, if new VMs of the project need approval"`
}

// The apiVersion and kind of a VM document.
const (
	VMDocumentVersion = "quantix/v1"
	VMDocumentKind    = "VM"
)

func (n CreateVM) checkVersionAndKind() error {
	var c fleet.Checks
	if n.APIVersion != "" && n.APIVersion != VMDocumentVersion {
		c.Add("apiVersion", "The only version is %s. Omit apiVersion, or give this version.", VMDocumentVersion)
	}
	if n.Kind != "" && n.Kind != VMDocumentKind {
		c.Add("kind", "Only VMs are created here. Omit the kind, or give VM.")
	}
	return c.Err()
}

func (api *API) createVM(ctx context.Context, a fleet.Actor, in *newVMInput) (*newVMOutput, error) {
	if err := in.Body.checkVersionAndKind(); err != nil {
		return nil, err
	}
	if needed, err := api.Control.VMNeedsApproval(ctx, a, in.Body.ProjectID); err != nil {
		return nil, err
	} else if needed {
		return api.requestedVM(ctx, a, in)
	}
	vm, task, err := api.Control.CreateVMWithTask(ctx, a, in.Body.CreateVM)
	out := vmAnswer(a, vm)
	return &newVMOutput{Status: http.StatusCreated, ETag: out.ETag, Location: Base + "/vms/" + string(vm.ID), Task: string(task), Body: out.Body}, err
}

func (api *API) getVM(ctx context.Context, a fleet.Actor, in *VMPath) (*vmOutput, error) {
	vm, err := api.Control.GetVM(ctx, a, in.ID)
	return vmAnswer(a, vm), err
}

// vmEdit holds the editable fields of a VM, at the same JSON paths as in the VM.
type vmEdit struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Description string            `json:"description"`
	Spec        fleet.VMSpec      `json:"spec"`
	Overcommit  bool              `json:"overcommit,omitempty" doc:"Allow this request to overcommit the host and pools; not stored with the VM"`
}

type updateVMInput struct {
	VMPath
	IfMatchHeader
	Body mergePatch[vmEdit]
}

func (api *API) updateVM(ctx context.Context, a fleet.Actor, in *updateVMInput) (*vmOutput, error) {
	return retryPatch(in.IfMatchHeader, func(wanted int64) (*vmOutput, error) {
		old, change, err := api.applyVMPatch(ctx, a, in, wanted)
		if err != nil {
			return nil, err
		}
		vm, task, err := api.Control.UpdateVM(ctx, a, in.ID, change)
		if err == nil && task == "" { // the patch changes nothing
			vm = old
		}
		out := vmAnswer(a, vm)
		out.Task, out.Body.Changes = string(task), old.Diff(vm.VM)
		return out, err
	})
}

// applyVMPatch applies the patch to the current VM (old) and returns the resulting update.
func (api *API) applyVMPatch(ctx context.Context, a fleet.Actor, in *updateVMInput, wanted int64) (old fleet.VMView, change control.UpdateVM, err error) {
	if old, err = api.Control.GetVM(ctx, a, in.ID); err != nil {
		return old, change, err
	}
	to, err := in.Body.applyTo(vmEdit{Name: old.Name, Labels: old.Labels, Description: old.Description, Spec: old.Spec})
	if err != nil {
		return old, change, err
	}
	if to.Labels == nil {
		to.Labels = map[string]string{}
	}
	return old, control.UpdateVM{
		Name: &to.Name, Labels: to.Labels, Description: &to.Description, Spec: &to.Spec, Overcommit: to.Overcommit, IfGeneration: cmp.Or(wanted, old.Generation),
	}, nil
}

type deleteVMInput struct {
	VMPath
	Disks   bool   `query:"disks" doc:"Delete the VM's disks too. The VM goes into the recycle bin of its project, unless the bin is off"`
	Confirm string `query:"confirm" doc:"The VM's name; required if the disks are deleted at once"`
	Purge   bool   `query:"purge" doc:"Delete the VM with its disks at once, past the recycle bin"`
}

func (api *API) deleteVM(ctx context.Context, a fleet.Actor, in *deleteVMInput) (*taskOutput, error) {
	if in.Purge {
		task, err := api.Control.DeleteVMPermanently(ctx, a, in.ID, in.Confirm)
		return &taskOutput{task}, err
	}
	task, err := api.Control.DeleteVM(ctx, a, in.ID, in.Disks, in.Confirm)
	return &taskOutput{task}, err
}

type actOnVMInput struct {
	VMPath
	Body struct {
		Action     fleet.Action `json:"action" doc:"start, shutdown, stop, reboot, reset, pause or resume"`
		Overcommit bool         `json:"overcommit,omitempty" doc:"Start the VM although its host has not enough capacity; needs the permission to change hosts"`
	}
}

func (api *API) actOnVM(ctx context.Context, a fleet.Actor, in *actOnVMInput) (*taskOutput, error) {
	task, err := api.Control.RequestPowerActionWith(ctx, a, in.ID, in.Body.Action, control.PowerOptions{Overcommit: in.Body.Overcommit})
	return &taskOutput{task}, err
}

type actOnVMsInput struct {
	Body struct {
		Action fleet.Action `json:"action" doc:"start, shutdown, stop, reboot, reset, pause or resume"`
		IDs    []fleet.VMID `json:"ids" doc:"IDs of the VMs, 500 at most; also UUIDs of VMs that Quantix did not create"`

		Overcommit bool `json:"overcommit,omitempty" doc:"Start the VMs although their hosts have not enough capacity; needs the permission to change hosts"`
	}
}

func (api *API) actOnVMs(ctx context.Context, a fleet.Actor, in *actOnVMsInput) (*taskOutput, error) {
	task, err := api.Control.RequestPowerActionsWith(ctx, a, in.Body.Action, in.Body.IDs, control.PowerOptions{Overcommit: in.Body.Overcommit})
	return &taskOutput{task}, err
}

// ConsoleTicket holds the address of a console's websocket, and the subprotocol that the browser must offer in addition
// to "binary".
type ConsoleTicket struct {
	URL      string `json:"url"`
	Protocol string `json:"protocol"`
}

type consoleOutput struct{ Body ConsoleTicket }

func (api *API) createConsoleTicket(ctx context.Context, a fleet.Actor, in *VMPath) (*consoleOutput, error) {
	t, err := api.NewConsoleTicket(ctx, a, in.ID, Base+"/console/")
	return &consoleOutput{t}, err
}

type eventsOutput struct{ Body query.History }

func (api *API) vmEvents(ctx context.Context, a fleet.Actor, in *VMPath) (*eventsOutput, error) {
	events, err := api.Control.VMHistory(ctx, a, in.ID)
	return &eventsOutput{events}, err
}

type editVMsInput struct {
	Body struct {
		IDs  []fleet.VMID    `json:"ids" doc:"IDs of the VMs, 500 at most"`
		Edit vmedit.BulkEdit `json:"edit"`
	}
}

func (api *API) editVMs(ctx context.Context, a fleet.Actor, in *editVMsInput) (*taskOutput, error) {
	task, err := api.Control.EditVMs(ctx, a, in.Body.IDs, in.Body.Edit)
	return &taskOutput{task}, err
}

type protectVMInput struct {
	VMPath
	Body control.ProtectVM
}

func (api *API) protectVM(ctx context.Context, a fleet.Actor, in *protectVMInput) (*vmOutput, error) {
	vm, err := api.Control.SetVMProtection(ctx, a, in.ID, in.Body)
	return changedVMResponder(a)(vm, "", err)
}
