package mock

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// VM implements hypervisor.VMs.
func (h *Host) VM(ctx context.Context, id fleet.VMID) (fleet.VMStatus, int64, error) {
	if err := h.simulateCall(ctx); err != nil {
		return fleet.VMStatus{}, 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.guests[id]
	if !ok {
		return fleet.VMStatus{Power: fleet.Absent}, 0, nil
	}
	return h.status(g), g.generation, nil
}

// SetOwnershipMark implements hypervisor.VMs.
func (h *Host) SetOwnershipMark(ctx context.Context, id fleet.VMID, mark string) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	return h.changeVM(id, func(g *guest) error {
		g.ownershipMark = mark
		return nil
	})
}

// Ping implements hypervisor.Telemetry.
func (h *Host) Ping(ctx context.Context) error { return h.simulateCall(ctx) }

// Meters implements hypervisor.Telemetry.
func (h *Host) Meters(ctx context.Context) ([]hypervisor.VMLoad, error) {
	if err := h.simulateCall(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	var out []hypervisor.VMLoad
	for _, g := range h.guests {
		if g.managed && g.isRunning() {
			out = append(out, g.load(now))
		}
	}
	return out, nil
}

// StartVM implements hypervisor.VMs.
func (h *Host) StartVM(ctx context.Context, id fleet.VMID) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	g, on, err := h.guestCopy(id)
	switch {
	case err != nil:
		return err
	case on:
		return nil
	case nameContains(g.name, HangOnStart):
		<-ctx.Done()
		return ctx.Err()
	}
	if err := h.waitDelay(ctx, 1); err != nil {
		return err
	}
	return h.changeVM(id, func(g *guest) error {
		if nameContains(g.name, FailStart) {
			return fmt.Errorf("internal error: process exited while connecting to monitor: qemu-system-x86_64: -accel kvm: failed to initialize kvm: Cannot allocate memory")
		}
		if g.isRunning() {
			return nil
		}
		if i := slices.IndexFunc(h.faults(g), func(f fleet.Fault) bool { return f.Code == fleet.FaultDisk }); i >= 0 {
			return hypervisor.FaultError(h.faults(g)[i])
		}
		if err := h.refuseLockedDisks(g); err != nil {
			return err
		}
		if err := h.checkPhysicals(id, g.persistent.spec.HostDevices, nil); err != nil {
			return err
		}
		if err := h.checkFreeDevices(g); err != nil {
			return err
		}
		if err := h.checkHostDevices(g); err != nil {
			return err
		}
		if err := h.checkNICLimits(g.persistent.spec.NICs); err != nil {
			return err
		}
		g.start(time.Now())
		return nil
	})
}

// guestCopy returns a copy of a VM, and whether the VM is running.
func (h *Host) guestCopy(id fleet.VMID) (guest, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, err := h.findManaged(id)
	if err != nil {
		return guest{}, false, err
	}
	return *g, g.isRunning(), nil
}

// changeVM applies f to a VM under the host's lock and then wakes the listeners.
func (h *Host) changeVM(id fleet.VMID, f func(*guest) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, err := h.findManaged(id)
	if err != nil {
		return err
	}
	if err := f(g); err != nil {
		return err
	}
	h.notify()
	return nil
}

// ShutdownVM implements hypervisor.VMs. The guest powers off after Delay.
func (h *Host) ShutdownVM(ctx context.Context, id fleet.VMID) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	return h.changeVM(id, func(g *guest) error {
		if !g.isRunning() || nameContains(g.name, NoShutdown) {
			return nil
		}
		run := g.live
		time.AfterFunc(h.options.Delay, func() { h.powerOff(id, run, "shut down") })
		return nil
	})
}

// powerOff stops the guest if it is still in the given run.
func (h *Host) powerOff(id fleet.VMID, run *guestDefinition, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g, ok := h.guests[id]; ok && g.isRunning() && g.live == run {
		h.stop(g, reason)
		h.notify()
	}
}

// PowerOffGuest simulates a crash or a shutdown that starts in the guest.
func (h *Host) PowerOffGuest(id fleet.VMID, crashes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.guests[id]
	if !ok || !g.isRunning() {
		return
	}
	if h.stop(g, "shut down"); crashes {
		g.power, g.reason = fleet.Crashed, "crashed"
	}
	h.notify()
}

// StopVM implements hypervisor.VMs.
func (h *Host) StopVM(ctx context.Context, id fleet.VMID) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	if err := h.waitDelay(ctx, 0.2); err != nil {
		return err
	}
	return h.changeVM(id, func(g *guest) error {
		h.stop(g, "forced off")
		return nil
	})
}

// RecycleVM implements hypervisor.VMs. A simulated domain has no autostart of libvirt.
func (h *Host) RecycleVM(ctx context.Context, id fleet.VMID) error { return h.StopVM(ctx, id) }

// RebootVM implements hypervisor.VMs.
func (h *Host) RebootVM(ctx context.Context, id fleet.VMID) error { return h.simulateReboot(ctx, id) }

// ResetVM implements hypervisor.VMs.
func (h *Host) ResetVM(ctx context.Context, id fleet.VMID) error { return h.simulateReboot(ctx, id) }

// simulateReboot shows the initial screen, because nothing else of a reboot is visible from outside.
func (h *Host) simulateReboot(ctx context.Context, id fleet.VMID) error {
	return h.withRunningGuest(ctx, id, func(g *guest) { g.screen.showInitialText() })
}

// PauseVM implements hypervisor.VMs.
func (h *Host) PauseVM(ctx context.Context, id fleet.VMID) error {
	return h.withRunningGuest(ctx, id, func(g *guest) { g.power = fleet.Paused })
}

// ResumeVM implements hypervisor.VMs.
func (h *Host) ResumeVM(ctx context.Context, id fleet.VMID) error {
	return h.withRunningGuest(ctx, id, func(g *guest) {
		g.power = fleet.Running
		h.releaseUnpluggedDevices(g) // devices that were unplugged while the guest was paused
	})
}

func (h *Host) withRunningGuest(ctx context.Context, id fleet.VMID, f func(*guest)) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	return h.changeVM(id, func(g *guest) error {
		if !g.isRunning() {
			return hypervisor.ErrNotRunning
		}
		f(g)
		return nil
	})
}

// Console implements hypervisor.VMs. It returns a connection to an RFB server with a text screen that echoes keys.
func (h *Host) Console(ctx context.Context, id fleet.VMID) (net.Conn, error) {
	if err := h.simulateCall(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	g, ok := h.guests[id]
	on := ok && g.isRunning()
	h.mu.Unlock()
	switch {
	case !ok:
		return nil, errNoDomain(id)
	case !on:
		return nil, hypervisor.ErrNotRunning
	}
	near, far := net.Pipe()
	go serveRFB(far, g.screen)
	return near, nil
}
