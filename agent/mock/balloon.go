package mock

import (
	"cmp"
	"context"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// balloonMiB returns the current balloon size of the running guest in MiB.
func (g *guest) balloonMiB() int {
	return min(cmp.Or(g.applied.Spec.Memory.BalloonMiB, g.live.spec.MemoryMiB), g.live.spec.MemoryMiB)
}

// Balloons implements hypervisor.Guests.
func (h *Host) Balloons(ctx context.Context) (out []hypervisor.BalloonGuest, err error) {
	if err := h.simulateCall(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range h.guests {
		if floor := g.applied.Spec.Memory.MinMiB; g.managed && g.power == fleet.Running && floor > 0 {
			out = append(out, hypervisor.BalloonGuest{ID: g.id, CurrentMiB: cmp.Or(g.balloon, g.balloonMiB()), MinMiB: floor, MaxMiB: g.balloonMiB()})
		}
	}
	return out, nil
}

// SetBalloon implements hypervisor.Guests. The guest changes its size immediately.
func (h *Host) SetBalloon(ctx context.Context, id fleet.VMID, mib int) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	return h.changeVM(id, func(g *guest) error {
		if floor := g.applied.Spec.Memory.MinMiB; !g.isRunning() || floor == 0 || mib < floor {
			return nil
		}
		if g.balloon = mib; mib >= g.balloonMiB() {
			g.balloon = 0
		}
		return nil
	})
}
