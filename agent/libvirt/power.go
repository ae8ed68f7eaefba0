package libvirt

import (
	"context"
	"fmt"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// Poll interval and time limit for a start that is already under way.
const (
	startPoll = 50 * time.Millisecond
	startWait = 100 * time.Second
)

// StartVM implements hypervisor.VMs. It first does a rename that waited for the guest to be off. It waits for a start
// that is already under way, because that start may fail; libvirt finishes the start of a killed agent. A start whose
// libvirtd was killed never ends.
func (b *Backend) StartVM(ctx context.Context, id fleet.VMID) error {
	for began := time.Now(); ; {
		underWay, err := b.startVM(ctx, id)
		switch {
		case err != nil || !underWay:
			return err
		case time.Since(began) > startWait:
			return fleet.Errorf(fleet.Conflict, "libvirt is at a start of the VM that was begun before. If libvirtd was ended in the middle of it, that never ends: stop libvirtd, remove the guest's file in /run/libvirt/qemu, and start libvirtd.")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("a start of the VM that was begun before is not over: %w", ctx.Err())
		case <-time.After(startPoll):
		}
	}
}

// startVM starts the VM unless it is running or starting.
func (b *Backend) startVM(ctx context.Context, id fleet.VMID) (underWay bool, err error) {
	err = b.onVMConn(ctx, id, "start", func(ctx context.Context, c *conn, s sighted) error {
		if s.live != nil {
			underWay = golibvirt.DomainState(s.state) == golibvirt.DomainPaused && golibvirt.DomainPausedReason(s.reason) == golibvirt.DomainPausedStartingUp
			if p, _ := power(s.state, s.reason); p != fleet.Crashed {
				return nil
			}
		}
		if err := pivotSettled(s); err != nil {
			return err
		}
		if err := b.complete(ctx, c, s); err != nil {
			return err
		}
		if err := b.physicalsFree(ctx, c, id, s.kept.parts.HostDevices, true); err != nil {
			return err
		}
		if err := b.prepareStart(ctx, c, s); err != nil {
			return err
		}
		return c.do(ctx, func(l *golibvirt.Libvirt) error {
			ref := s.ref
			if s.live != nil {
				if err := l.DomainDestroy(ref); err != nil {
					return err
				}
			}
			if want := s.pending(); want != "" {
				if _, err := l.DomainRename(ref, golibvirt.OptString{want}, 0); err != nil {
					return err
				}
				ref.Name = want
			}
			return deviceFree(l.DomainCreate(ref))
		})
	})
	return underWay, err
}

// ShutdownVM implements hypervisor.VMs.
func (b *Backend) ShutdownVM(ctx context.Context, id fleet.VMID) error {
	return b.onVM(ctx, id, "shut down", func(l *golibvirt.Libvirt, s sighted) error {
		if s.live == nil {
			return nil
		}
		return unlessOff(l, s.ref, l.DomainShutdown(s.ref))
	})
}

// StopVM implements hypervisor.VMs.
func (b *Backend) StopVM(ctx context.Context, id fleet.VMID) error {
	return b.onVM(ctx, id, "force off", func(l *golibvirt.Libvirt, s sighted) error {
		if s.live == nil {
			return nil
		}
		return unlessOff(l, s.ref, l.DomainDestroy(s.ref))
	})
}

// unlessOff returns err unless the guest has stopped on its own in the meantime.
func unlessOff(l *golibvirt.Libvirt, ref golibvirt.Domain, err error) error {
	if is(err, golibvirt.ErrOperationInvalid) {
		if active, checkErr := l.DomainIsActive(ref); checkErr == nil && active == 0 {
			return nil
		}
	}
	return err
}

// RebootVM implements hypervisor.VMs.
func (b *Backend) RebootVM(ctx context.Context, id fleet.VMID) error {
	return b.onRunning(ctx, id, "reboot", func(l *golibvirt.Libvirt, s sighted) error { return l.DomainReboot(s.ref, 0) })
}

// ResetVM implements hypervisor.VMs.
func (b *Backend) ResetVM(ctx context.Context, id fleet.VMID) error {
	return b.onRunning(ctx, id, "reset", func(l *golibvirt.Libvirt, s sighted) error { return l.DomainReset(s.ref, 0) })
}

// PauseVM implements hypervisor.VMs.
func (b *Backend) PauseVM(ctx context.Context, id fleet.VMID) error {
	return b.onRunning(ctx, id, "pause", func(l *golibvirt.Libvirt, s sighted) error {
		if golibvirt.DomainState(s.state) == golibvirt.DomainPaused {
			return nil
		}
		return l.DomainSuspend(s.ref)
	})
}

// ResumeVM implements hypervisor.VMs.
func (b *Backend) ResumeVM(ctx context.Context, id fleet.VMID) error {
	return b.onRunning(ctx, id, "resume", func(l *golibvirt.Libvirt, s sighted) error {
		switch golibvirt.DomainState(s.state) {
		case golibvirt.DomainPaused:
			return l.DomainResume(s.ref)
		case golibvirt.DomainPmsuspended:
			return l.DomainPmWakeup(s.ref, 0)
		}
		return nil
	})
}

// onRunning is onVM for a guest that must be running.
func (b *Backend) onRunning(ctx context.Context, id fleet.VMID, verb string, f func(*golibvirt.Libvirt, sighted) error) error {
	return b.onVM(ctx, id, verb, func(l *golibvirt.Libvirt, s sighted) error {
		if s.live == nil {
			return hypervisor.ErrNotRunning
		}
		return f(l, s)
	})
}

// onVM is onVMConn for a single libvirt call.
func (b *Backend) onVM(ctx context.Context, id fleet.VMID, verb string, f func(*golibvirt.Libvirt, sighted) error) error {
	return b.onVMConn(ctx, id, verb, func(ctx context.Context, c *conn, s sighted) error {
		return c.do(ctx, func(l *golibvirt.Libvirt) error { return f(l, s) })
	})
}

// onVMConn runs f for a VM of Quantix, with its current state, under the VM's lock and on a connection of its own.
func (b *Backend) onVMConn(ctx context.Context, id fleet.VMID, verb string, f func(context.Context, *conn, sighted) error) error {
	unlock, err := b.vms.lock(ctx, id)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	defer unlock()
	return b.order(ctx, func(ctx context.Context, c *conn) error {
		s, err := b.seeOn(ctx, c, id)
		if is(err, golibvirt.ErrNoDomain) {
			return noDomain(id)
		}
		if err != nil {
			return inAct(verb, err)
		}
		if !s.ours {
			return notOurs()
		}
		if err := b.reached(s); err != nil {
			return err
		}
		defer b.domains.forget(s.ref.UUID)
		return inAct(verb+" "+s.ref.Name, f(ctx, c, s))
	})
}

// noDomain is the error for a VM without a domain on this host.
func noDomain(id fleet.VMID) error {
	return fleet.Errorf(fleet.NotFound, "The host has no domain with the UUID %s. Edit and save the VM to define it there again.", id)
}

// notOurs is the error for a domain that Quantix did not create.
func notOurs() error {
	return fleet.Errorf(fleet.Conflict, "The domain with this UUID was not made by Quantix, so Quantix does not touch it. Use virsh on the host.")
}
