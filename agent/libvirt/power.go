package libvirt

import (
	"context"
	"errors"
	"fmt"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/network"
	"quantix/internal/fleet"
)

// These are the poll interval and the time limit for an earlier start that is still running.
const (
	startPoll           = 50 * time.Millisecond
	earlierStartTimeout = 100 * time.Second
)

// StartVM implements hypervisor.VMs. It first renames a domain whose new name was pending until the guest was off. It
// waits for an earlier start that is still running, because that start may fail. libvirt completes a start after the
// agent was killed, but a start whose libvirtd was killed never ends.
func (b *Backend) StartVM(ctx context.Context, id fleet.VMID) error {
	for began := time.Now(); ; {
		underWay, err := b.startVM(ctx, id)
		switch {
		case err != nil || !underWay:
			return err
		case time.Since(began) > earlierStartTimeout:
			return fleet.Errorf(fleet.Conflict, "An earlier start of the VM has not ended. If libvirtd was killed during that start, the start never ends. In this case, stop libvirtd, remove the guest's file in /run/libvirt/qemu, and start libvirtd.")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("an earlier start of the VM has not ended: %w", ctx.Err())
		case <-time.After(startPoll):
		}
	}
}

// startVM starts the VM unless the VM is running or starting. underWay reports that an earlier start has not ended.
func (b *Backend) startVM(ctx context.Context, id fleet.VMID) (underWay bool, err error) {
	err = b.withVMConn(ctx, id, "start", func(ctx context.Context, c *conn.Conn, s observedDomain) error {
		if s.live != nil {
			underWay = golibvirt.DomainState(s.state) == golibvirt.DomainPaused && golibvirt.DomainPausedReason(s.reason) == golibvirt.DomainPausedStartingUp
			if p, _ := translatePower(s.state, s.reason); p != fleet.Crashed {
				return nil
			}
		}
		if err := refuseUnknownPivot(s); err != nil {
			return err
		}
		if err := b.checkDisksAvailable(ctx, c, s); err != nil {
			return err
		}
		if err := b.checkPhysicalDisksFree(ctx, c, id, s.persistent.FieldValues.HostDevices, true); err != nil {
			return err
		}
		if err := b.prepareGuestStart(ctx, c, s); err != nil {
			return err
		}
		return c.Do(ctx, func(l *golibvirt.Libvirt) error {
			ref := s.ref
			if s.live != nil {
				if err := l.DomainDestroy(ref); err != nil {
					return err
				}
			}
			if want := s.pendingName(); want != "" {
				if _, err := l.DomainRename(ref, golibvirt.OptString{want}, 0); err != nil {
					return err
				}
				ref.Name = want
			}
			return network.TranslateNoFreeDevice(l.DomainCreate(ref))
		})
	})
	return underWay, err
}

// ShutdownVM implements hypervisor.VMs.
func (b *Backend) ShutdownVM(ctx context.Context, id fleet.VMID) error {
	return b.withVM(ctx, id, "shut down", func(l *golibvirt.Libvirt, s observedDomain) error {
		if s.live == nil {
			return nil
		}
		return ignoreErrorIfOff(l, s.ref, l.DomainShutdown(s.ref))
	})
}

// StopVM implements hypervisor.VMs.
func (b *Backend) StopVM(ctx context.Context, id fleet.VMID) error {
	return b.withVM(ctx, id, "force off", func(l *golibvirt.Libvirt, s observedDomain) error {
		if s.live == nil {
			return nil
		}
		return ignoreErrorIfOff(l, s.ref, l.DomainDestroy(s.ref))
	})
}

// RecycleVM implements hypervisor.VMs.
func (b *Backend) RecycleVM(ctx context.Context, id fleet.VMID) error {
	return errors.Join(b.StopVM(ctx, id), b.withVM(ctx, id, "force off", func(l *golibvirt.Libvirt, s observedDomain) error { return l.DomainSetAutostart(s.ref, 0) }))
}

// ignoreErrorIfOff returns err, or nil if the guest has stopped on its own.
func ignoreErrorIfOff(l *golibvirt.Libvirt, ref golibvirt.Domain, err error) error {
	if conn.IsLibvirtCode(err, golibvirt.ErrOperationInvalid) {
		if active, checkErr := l.DomainIsActive(ref); checkErr == nil && active == 0 {
			return nil
		}
	}
	return err
}

// RebootVM implements hypervisor.VMs.
func (b *Backend) RebootVM(ctx context.Context, id fleet.VMID) error {
	return b.withRunningVM(ctx, id, "reboot", func(l *golibvirt.Libvirt, s observedDomain) error { return l.DomainReboot(s.ref, 0) })
}

// ResetVM implements hypervisor.VMs.
func (b *Backend) ResetVM(ctx context.Context, id fleet.VMID) error {
	return b.withRunningVM(ctx, id, "reset", func(l *golibvirt.Libvirt, s observedDomain) error { return l.DomainReset(s.ref, 0) })
}

// PauseVM implements hypervisor.VMs.
func (b *Backend) PauseVM(ctx context.Context, id fleet.VMID) error {
	return b.withRunningVM(ctx, id, "pause", pauseGuest)
}

// pauseGuest pauses a guest that is not paused.
func pauseGuest(l *golibvirt.Libvirt, s observedDomain) error {
	if golibvirt.DomainState(s.state) == golibvirt.DomainPaused {
		return nil
	}
	return l.DomainSuspend(s.ref)
}

// ResumeVM implements hypervisor.VMs.
func (b *Backend) ResumeVM(ctx context.Context, id fleet.VMID) error {
	return b.withRunningVM(ctx, id, "resume", resumeGuest)
}

// resumeGuest resumes a paused guest and wakes a suspended one.
func resumeGuest(l *golibvirt.Libvirt, s observedDomain) error {
	switch golibvirt.DomainState(s.state) {
	case golibvirt.DomainPaused:
		return l.DomainResume(s.ref)
	case golibvirt.DomainPmsuspended:
		return l.DomainPmWakeup(s.ref, 0)
	}
	return nil
}

// withRunningVM is withVM but fails if the guest is not running.
func (b *Backend) withRunningVM(ctx context.Context, id fleet.VMID, verb string, f func(*golibvirt.Libvirt, observedDomain) error) error {
	return b.withVM(ctx, id, verb, func(l *golibvirt.Libvirt, s observedDomain) error {
		if s.live == nil {
			return hypervisor.ErrNotRunning
		}
		return f(l, s)
	})
}

// withVM is withVMConn for a function that makes a single libvirt call.
func (b *Backend) withVM(ctx context.Context, id fleet.VMID, verb string, f func(*golibvirt.Libvirt, observedDomain) error) error {
	return b.withVMConn(ctx, id, verb, func(ctx context.Context, c *conn.Conn, s observedDomain) error {
		return c.Do(ctx, func(l *golibvirt.Libvirt) error { return f(l, s) })
	})
}

// withVMConn runs f for a managed VM, with the VM's current state, under the VM's lock and on a new connection.
func (b *Backend) withVMConn(ctx context.Context, id fleet.VMID, verb string, f func(context.Context, *conn.Conn, observedDomain) error) error {
	return b.withDomainConn(ctx, id, verb, refuseUnmanagedDomain, f)
}

// withDomainConn is withVMConn for a domain that check accepts.
func (b *Backend) withDomainConn(ctx context.Context, id fleet.VMID, verb string, check func(observedDomain) error, f func(context.Context, *conn.Conn, observedDomain) error) error {
	unlock, err := b.vmLocks.Lock(ctx, id)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	defer unlock()
	return b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		s, err := b.readObservedDomain(ctx, c, id)
		if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
			return errNoDomain(id)
		}
		if err != nil {
			return conn.WrapAction(verb, err)
		}
		if err := check(s); err != nil {
			return err
		}
		if err := b.refuseLostGuest(s); err != nil {
			return err
		}
		defer b.domains.invalidate(s.ref.UUID)
		return conn.WrapAction(verb+" "+s.ref.Name, f(ctx, c, s))
	})
}

// refuseUnmanagedDomain returns an error for a domain that Quantix did not create.
func refuseUnmanagedDomain(s observedDomain) error {
	if !s.managed {
		return errUnmanagedDomain()
	}
	return nil
}

// errNoDomain is the error for a VM without a domain on this host.
func errNoDomain(id fleet.VMID) error {
	return fleet.Errorf(fleet.NotFound, "The host has no domain with the UUID %s. Edit and save the VM to define the domain again.", id)
}

// errUnmanagedDomain is the error for a domain that Quantix did not create.
func errUnmanagedDomain() error {
	return fleet.Errorf(fleet.Conflict, "The domain with this UUID was not created by Quantix, so Quantix does not change the domain. Use virsh on the host.")
}
