package libvirt

import (
	"context"
	"fmt"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/network"
	"quantix/internal/fleet"
)

// unmanagedAction is a power action on a domain without Quantix metadata.
type unmanagedAction struct {
	verb      string
	needsOn   bool // fails if the guest is off; otherwise a guest that is off stays off
	stopsRun  bool // the guest is off afterwards
	onRunning func(*golibvirt.Libvirt, observedDomain) error
}

var unmanagedActions = map[fleet.Action]unmanagedAction{
	fleet.ActShutdown: {"shut down", false, true, func(l *golibvirt.Libvirt, s observedDomain) error {
		return ignoreErrorIfOff(l, s.ref, l.DomainShutdown(s.ref))
	}},
	fleet.ActStop: {"force off", false, true, func(l *golibvirt.Libvirt, s observedDomain) error {
		return ignoreErrorIfOff(l, s.ref, l.DomainDestroy(s.ref))
	}},
	fleet.ActReboot: {"reboot", true, false, func(l *golibvirt.Libvirt, s observedDomain) error { return l.DomainReboot(s.ref, 0) }},
	fleet.ActReset:  {"reset", true, false, func(l *golibvirt.Libvirt, s observedDomain) error { return l.DomainReset(s.ref, 0) }},
	fleet.ActPause:  {"pause", true, false, pauseGuest},
	fleet.ActResume: {"resume", true, false, resumeGuest},
}

// ControlUnmanagedVM implements hypervisor.VMs.
func (b *Backend) ControlUnmanagedVM(ctx context.Context, id fleet.VMID, act fleet.Action) error {
	if act == fleet.ActStart {
		return b.withUnmanagedVM(ctx, id, "start", startUnmanaged)
	}
	do, known := unmanagedActions[act]
	if !known {
		return fmt.Errorf("no power action %q", act)
	}
	return b.withUnmanagedVM(ctx, id, do.verb, func(l *golibvirt.Libvirt, s observedDomain) error {
		switch {
		case s.live == nil && do.needsOn:
			return hypervisor.ErrNotRunning
		case s.live == nil:
			return nil
		case s.transient && do.stopsRun:
			return fleet.RefusalError(fleet.TransientDomainRefusal)
		}
		return do.onRunning(l, s)
	})
}

// startUnmanaged starts a domain that is off, or whose crashed guest libvirt keeps.
func startUnmanaged(l *golibvirt.Libvirt, s observedDomain) error {
	if s.live != nil {
		if p, _ := translatePower(s.state, s.reason); p != fleet.Crashed {
			return nil
		}
		if s.transient {
			return fleet.RefusalError(fleet.TransientDomainRefusal)
		}
		if err := l.DomainDestroy(s.ref); err != nil {
			return err
		}
	}
	return network.TranslateNoFreeDevice(l.DomainCreate(s.ref))
}

// withUnmanagedVM is withVM for a domain without Quantix metadata.
func (b *Backend) withUnmanagedVM(ctx context.Context, id fleet.VMID, verb string, f func(*golibvirt.Libvirt, observedDomain) error) error {
	refuseManaged := func(s observedDomain) error {
		if s.managed {
			return hypervisor.ManagedDomainError(s.ref.Name)
		}
		return nil
	}
	return b.withDomainConn(ctx, id, verb, refuseManaged, func(ctx context.Context, c *conn.Conn, s observedDomain) error {
		return c.Do(ctx, func(l *golibvirt.Libvirt) error { return f(l, s) })
	})
}

// noConsoleReason returns why the screen of an unmanaged guest cannot be shown; empty: it can, or the guest is off.
func (s observedDomain) noConsoleReason() string {
	switch {
	case s.live == nil || s.vnc.Address != "":
		return ""
	case s.spice:
		return "The VM has a SPICE display, which Quantix cannot show. Add a VNC display to the VM's definition and restart the VM."
	}
	return "The VM has no VNC display. Add a VNC display to the VM's definition and restart the VM."
}
