package api

import (
	"cmp"
	"context"
	"strings"

	"quantix/internal/control"
	"quantix/internal/control/hosts"
	"quantix/internal/fleet"
	"quantix/internal/maintenance"
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
	Task        *fleet.Task              `json:"task,omitempty" doc:"Only after an action: the task of a maintenance, a power command, or a restart or upgrade of the agent"`
	Plan        *maintenance.Plan        `json:"plan,omitempty" doc:"Only after the dry run of enter-maintenance: what can happen to each VM of the host"`
	Termination *maintenance.Termination `json:"termination,omitempty" doc:"Only after the dry run of terminate: what happens to each VM of the host, what stays on the machine, and what powers it off"`
	LeavePlan   *maintenance.LeavePlan   `json:"leavePlan,omitempty" doc:"Only after the dry run of leave-maintenance: the VMs that it starts, and those that it can bring back"`
}

func hostAnswer(a fleet.Actor, h fleet.HostView, err error) (*hostOutput, error) {
	return &hostOutput{ETag: etag(h.Generation), Body: hostBody{HostView: h, OfferedActions: offeredActions(a, "host", h.Actions())}}, err
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
	DryRun bool `query:"dryRun" doc:"Only with enter-maintenance, leave-maintenance and terminate: change nothing, and answer with the plan"`
	Body   struct {
		Action         fleet.Action                             `json:"action" doc:"cordon, uncordon, clear-conflict, enter-maintenance or drain, leave-maintenance, reboot, shutdown, power-on, power-off, reset, terminate, restart-agent or upgrade-agent"`
		Decisions      map[fleet.VMID]fleet.MaintenanceDecision `json:"decisions,omitempty" doc:"enter-maintenance, terminate: what happens to VMs, by VM ID; the others get the plan's proposal"`
		Default        fleet.MaintenanceDo                      `json:"default,omitempty" enum:"shutdown,leave" doc:"enter-maintenance: what happens to VMs with neither a decision nor a proposal, if it is allowed for them; the dry run shows it as their proposal"`
		Overcommit     bool                                     `json:"overcommit,omitempty" doc:"enter-maintenance, terminate: migrations may exceed what the other hosts can allocate"`
		BringBack      []fleet.VMID                             `json:"bringBack,omitempty" doc:"leave-maintenance: VMs to migrate back to the host"`
		Confirm        string                                   `json:"confirm,omitempty" doc:"reboot, shutdown, power-off, reset, terminate: the host's name"`
		Force          bool                                     `json:"force,omitempty" doc:"restart-agent: also while jobs run on the host that the restart interrupts"`
		Version        string                                   `json:"version,omitempty" doc:"upgrade-agent: the version of the release"`
		AllowDowngrade bool                                     `json:"allowDowngrade,omitempty" doc:"upgrade-agent: also a version that is older than the running one, or that cannot be compared with it"`
		LeaveVolumes   bool                                     `json:"leaveVolumes,omitempty" doc:"terminate: volumes that only this host can reach stay on its disks"`
	}
}

// hostActions maps the actions on a host to what they do. The functions add their results to the output.
var hostActions = map[fleet.Action]func(*API, context.Context, fleet.Actor, *actOnHostInput, *hostOutput) error{
	fleet.ActCordon: func(api *API, ctx context.Context, a fleet.Actor, in *actOnHostInput, _ *hostOutput) error {
		return api.Control.CordonHost(ctx, a, in.ID, fleet.ActCordon)
	},
	fleet.ActUncordon: func(api *API, ctx context.Context, a fleet.Actor, in *actOnHostInput, _ *hostOutput) error {
		return api.Control.CordonHost(ctx, a, in.ID, fleet.ActUncordon)
	},
	fleet.ActClearConflict: func(api *API, ctx context.Context, a fleet.Actor, in *actOnHostInput, _ *hostOutput) error {
		return api.Control.ClearConflict(ctx, a, in.ID)
	},
	fleet.ActEnterMaintenance: func(api *API, ctx context.Context, a fleet.Actor, in *actOnHostInput, out *hostOutput) error {
		if in.DryRun {
			plan, err := api.Control.PlanMaintenance(ctx, a, in.ID, in.Body.Overcommit)
			if err != nil {
				return err
			}
			out.Body.Plan = &plan
			return plan.ApplyDefault(in.Body.Default)
		}
		task, err := api.Control.EnterMaintenance(ctx, a, in.ID, control.EnterMaintenance{Decisions: in.Body.Decisions, Default: in.Body.Default, Overcommit: in.Body.Overcommit})
		out.Body.Task = &task
		return err
	},
	fleet.ActLeaveMaintenance: func(api *API, ctx context.Context, a fleet.Actor, in *actOnHostInput, out *hostOutput) error {
		if in.DryRun {
			plan, err := api.Control.PlanLeave(ctx, a, in.ID)
			out.Body.LeavePlan = &plan
			return err
		}
		task, err := api.Control.LeaveMaintenance(ctx, a, in.ID, in.Body.BringBack)
		out.Body.Task = &task
		return err
	},
	fleet.ActRebootHost:   powerHost,
	fleet.ActShutDownHost: powerHost,

	fleet.ActPowerOn: switchPower, fleet.ActForcePowerOff: switchPower, fleet.ActReset: switchPower,
	fleet.ActTerminate: terminateHost,

	fleet.ActRestartAgent: restartAgent,
	fleet.ActUpgradeAgent: func(api *API, ctx context.Context, a fleet.Actor, in *actOnHostInput, out *hostOutput) error {
		task, err := api.Control.RequestAgentUpgrade(ctx, a, in.ID, fleet.AgentUpgrade{Version: in.Body.Version, AllowDowngrade: in.Body.AllowDowngrade})
		out.Body.Task = &task
		return err
	},
}

func powerHost(api *API, ctx context.Context, a fleet.Actor, in *actOnHostInput, out *hostOutput) error {
	task, err := api.Control.RequestHostPower(ctx, a, in.ID, in.Body.Action, in.Body.Confirm)
	out.Body.Task = &task
	return err
}

func (api *API) actOnHost(ctx context.Context, a fleet.Actor, in *actOnHostInput) (*hostOutput, error) {
	var c fleet.Checks
	if in.Body.Action == actDrain {
		in.Body.Action = fleet.ActEnterMaintenance
	}
	act, known := hostActions[in.Body.Action]
	switch {
	case !known:
		c.Add("action", "There is no action %q of a host. Use cordon, uncordon, clear-conflict, enter-maintenance, leave-maintenance, reboot, shutdown, power-on, power-off, reset, terminate, restart-agent or upgrade-agent.", string(in.Body.Action))
	case in.DryRun && in.Body.Action != fleet.ActEnterMaintenance && in.Body.Action != fleet.ActLeaveMaintenance && in.Body.Action != fleet.ActTerminate:
		c.Add("dryRun", "Only enter-maintenance, leave-maintenance and terminate have a dry run.")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	out := &hostOutput{}
	if err := act(api, ctx, a, in, out); err != nil {
		return nil, err
	}
	host, err := api.getHost(ctx, a, &in.HostPath)
	if err != nil {
		return nil, err
	}
	out.ETag, out.Body.HostView, out.Body.OfferedActions = host.ETag, host.Body.HostView, host.Body.OfferedActions
	return out, nil
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
