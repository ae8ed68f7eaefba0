package mock

import (
	"context"
	"fmt"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// unmanagedActions are the power actions on domains without Quantix metadata, for running guests. A start is not among
// them, because it needs a guest that is off.
var unmanagedActions = map[fleet.Action]func(*Host, *guest){
	fleet.ActShutdown: func(h *Host, g *guest) {
		id, run := g.id, g.live
		time.AfterFunc(h.options.Delay, func() { h.powerOff(id, run, "shut down") })
	},
	fleet.ActStop:   func(h *Host, g *guest) { h.stop(g, "forced off") },
	fleet.ActReboot: func(_ *Host, g *guest) { g.screen.showInitialText() },
	fleet.ActReset:  func(_ *Host, g *guest) { g.screen.showInitialText() },
	fleet.ActPause:  func(_ *Host, g *guest) { g.power = fleet.Paused },
	fleet.ActResume: func(_ *Host, g *guest) { g.power = fleet.Running },
}

// ControlUnmanagedVM implements hypervisor.VMs.
func (h *Host) ControlUnmanagedVM(ctx context.Context, id fleet.VMID, act fleet.Action) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.guests[id]
	do, known := unmanagedActions[act]
	switch {
	case !ok:
		return errNoDomain(id)
	case g.managed:
		return hypervisor.ManagedDomainError(g.name)
	case act == fleet.ActStart && !g.isRunning():
		g.start(time.Now())
	case act == fleet.ActStart:
		return nil
	case !known:
		return fmt.Errorf("no power action %q", act)
	case !g.isRunning() && (act == fleet.ActShutdown || act == fleet.ActStop):
		return nil
	case !g.isRunning():
		return hypervisor.ErrNotRunning
	case g.undefined && (act == fleet.ActShutdown || act == fleet.ActStop):
		return fleet.RefusalError(fleet.TransientDomainRefusal)
	default:
		do(h, g)
	}
	h.notify()
	return nil
}
