package api

import (
	"cmp"
	"context"
	"strings"

	"quantix/internal/control/hosts"
	"quantix/internal/fleet"
)

// HostPath holds the id of a host, from the request's path.
type HostPath struct {
	ID fleet.HostID `path:"id"`
}

type hostOutput struct {
	ETag string `header:"ETag"`
	Body hostBody
}

type hostBody struct {
	fleet.HostView
	OfferedActions
}

func hostAnswer(a fleet.Actor, h fleet.HostView, err error) (*hostOutput, error) {
	return &hostOutput{ETag: etag(h.Generation), Body: hostBody{h, offeredActions(a, "host", h.Actions())}}, err
}

func (api *API) getHost(ctx context.Context, a fleet.Actor, in *HostPath) (*hostOutput, error) {
	h, err := api.Control.GetHost(ctx, a, in.ID)
	return hostAnswer(a, h, err)
}

type updateHostInput struct {
	HostPath
	IfMatchHeader
	Body mergePatch[hostEdit]
}

// hostEdit holds the editable fields of a host, at the same JSON paths as in the host.
type hostEdit struct {
	ClusterID fleet.ClusterID `json:"clusterId"`
	Spec      *fleet.HostSpec `json:"spec"` // null: the spec of a new host
}

func (api *API) updateHost(ctx context.Context, a fleet.Actor, in *updateHostInput) (*hostOutput, error) {
	return retryPatch(in.IfMatchHeader, func(wanted int64) (*hostOutput, error) {
		old, err := api.Control.GetHost(ctx, a, in.ID)
		if err != nil {
			return nil, err
		}
		to, err := in.Body.applyTo(hostEdit{old.ClusterID, &old.Spec})
		if err != nil {
			return nil, err
		}
		spec := fleet.DefaultHostSpec()
		if to.Spec != nil {
			spec = *to.Spec
		}
		h, err := api.Control.UpdateHost(ctx, a, in.ID, hosts.UpdateHost{Spec: spec, ClusterID: to.ClusterID, IfGeneration: cmp.Or(wanted, old.Generation)})
		return hostAnswer(a, h, err)
	})
}

type actOnHostInput struct {
	HostPath
	Body struct {
		Action fleet.Action `json:"action" doc:"cordon, uncordon or clear-conflict"`
	}
}

func (api *API) actOnHost(ctx context.Context, a fleet.Actor, in *actOnHostInput) (*hostOutput, error) {
	var err error
	switch act := in.Body.Action; act {
	case fleet.ActCordon, fleet.ActUncordon:
		err = api.Control.CordonHost(ctx, a, in.ID, act)
	case fleet.ActClearConflict:
		err = api.Control.ClearConflict(ctx, a, in.ID)
	default:
		var c fleet.Checks
		c.Add("action", "There is no action %q of a host. Use cordon, uncordon or clear-conflict.", string(act))
		err = c.Err()
	}
	if err != nil {
		return nil, err
	}
	return api.getHost(ctx, a, &in.HostPath)
}

type discoveredVMsInput struct {
	HostPath
	ListQuery
}

func (api *API) discoveredVMs(ctx context.Context, a fleet.Actor, in *discoveredVMsInput) (*pageOutput[fleet.DiscoveredVM], error) {
	host, err := api.Control.GetHost(ctx, a, in.ID)
	if err != nil {
		return nil, err
	}
	of := in.ListQuery
	of.Filter = strings.TrimSpace(of.Filter + " host:" + host.Name)
	return listOperation(api.Control.ListDiscoveredVMs)(ctx, a, &of)
}

// DiscoveredVMPath names a VM of a host that Quantix did not create.
type DiscoveredVMPath struct {
	HostPath
	VM fleet.VMID `path:"vm" doc:"UUID of the libvirt domain"`
}

type discoveredVMOutput struct{ Body discoveredVMBody }

type discoveredVMBody struct {
	fleet.DiscoveredVM
	OfferedActions
}

func (api *API) getDiscoveredVM(ctx context.Context, a fleet.Actor, in *DiscoveredVMPath) (*discoveredVMOutput, error) {
	vm, err := api.Control.GetDiscoveredVM(ctx, a, in.ID, in.VM)
	return &discoveredVMOutput{discoveredVMBody{vm, offeredActions(a, "found", vm.Actions())}}, err
}

type actOnDiscoveredVMInput struct {
	DiscoveredVMPath
	Body struct {
		Action fleet.Action `json:"action" doc:"start, shutdown, stop, reboot, reset, pause or resume"`
	}
}

func (api *API) actOnDiscoveredVM(ctx context.Context, a fleet.Actor, in *actOnDiscoveredVMInput) (*taskOutput, error) {
	task, err := api.Control.RequestDiscoveredVMAction(ctx, a, in.ID, in.VM, in.Body.Action)
	return &taskOutput{task}, err
}

func (api *API) createDiscoveredConsoleTicket(ctx context.Context, a fleet.Actor, in *DiscoveredVMPath) (*consoleOutput, error) {
	t, err := api.NewDiscoveredConsoleTicket(ctx, a, in.ID, in.VM, Base+"/console/")
	return &consoleOutput{t}, err
}
