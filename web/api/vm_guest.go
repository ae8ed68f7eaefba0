package api

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

type guestOutput struct {
	Body struct {
		fleet.GuestView
		Status *fleet.GuestStatus `json:"status" doc:"Version, OS and hostname as the guest agent last reported them; null: the VM is off, or its host's agent is too old"`
		OfferedActions
	}
}

func (api *API) getGuest(ctx context.Context, a fleet.Actor, in *VMPath) (*guestOutput, error) {
	out := &guestOutput{}
	vm, err := api.Control.GetVM(ctx, a, in.ID)
	if err != nil {
		return out, err
	}
	if out.Body.OfferedActions = (OfferedActions{policy.RestrictActions(a, "vm", vm.ProjectID, vm.GuestActions())}); vm.Status != nil {
		out.Body.Status = vm.Status.Guest
	}
	out.Body.GuestView, err = api.Control.VMGuest(ctx, a, in.ID)
	return out, err
}

type guestActionInput struct {
	VMPath
	Body control.GuestRequest
}

func (api *API) requestGuestAction(ctx context.Context, a fleet.Actor, in *guestActionInput) (*taskOutput, error) {
	task, err := api.Control.SendGuestRequest(ctx, a, in.ID, in.Body)
	return &taskOutput{task}, err
}
