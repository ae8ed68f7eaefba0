package libvirt

import (
	"context"
	"fmt"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent"
	"quantix/internal/fleet"
)

// StartVM implements agent.Hypervisor. A rename that waited for the guest to be off is done first.
func (b *Backend) StartVM(ctx context.Context, id fleet.VMID) error {
	return b.onVMConn(ctx, id, "start", func(ctx context.Context, c *conn, s sighted) error {
		if s.live != nil {
			if p, _ := power(s.state, s.reason); p != fleet.Crashed {
				return nil
			}
		}
		if err := b.complete(ctx, c, s); err != nil {
			return err
		}
		if err := b.physicalsFree(ctx, c, id, s.kept.parts.HostDevices, true); err != nil {
			return err
		}
		if err := b.readyToStart(ctx, c, s); err != nil {
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
}

// ShutdownVM implements agent.Hypervisor.
func (b *Backend) ShutdownVM(ctx context.Context, id fleet.VMID) error {
	return b.onVM(ctx, id, "shut down", func(l *golibvirt.Libvirt, s sighted) error {
		if s.live == nil {
			return nil
		}
		return l.DomainShutdown(s.ref)
	})
}

// StopVM implements agent.Hypervisor.
func (b *Backend) StopVM(ctx context.Context, id fleet.VMID) error {
	return b.onVM(ctx, id, "force off", func(l *golibvirt.Libvirt, s sighted) error {
		if s.live == nil {
			return nil
		}
		err := l.DomainDestroy(s.ref)
		if is(err, golibvirt.ErrOperationInvalid) {
			if active, look := l.DomainIsActive(s.ref); look == nil && active == 0 {
				return nil // it has ended by itself since
			}
		}
		return err
	})
}

// RebootVM implements agent.Hypervisor.
func (b *Backend) RebootVM(ctx context.Context, id fleet.VMID) error {
	return b.onRunning(ctx, id, "reboot", func(l *golibvirt.Libvirt, s sighted) error { return l.DomainReboot(s.ref, 0) })
}

// ResetVM implements agent.Hypervisor.
func (b *Backend) ResetVM(ctx context.Context, id fleet.VMID) error {
	return b.onRunning(ctx, id, "reset", func(l *golibvirt.Libvirt, s sighted) error { return l.DomainReset(s.ref, 0) })
}

// PauseVM implements agent.Hypervisor.
func (b *Backend) PauseVM(ctx context.Context, id fleet.VMID) error {
	return b.onRunning(ctx, id, "pause", func(l *golibvirt.Libvirt, s sighted) error {
		if golibvirt.DomainState(s.state) == golibvirt.DomainPaused {
			return nil
		}
		return l.DomainSuspend(s.ref)
	})
}

// ResumeVM implements agent.Hypervisor.
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

func (b *Backend) onRunning(ctx context.Context, id fleet.VMID, verb string, f func(*golibvirt.Libvirt, sighted) error) error {
	return b.onVM(ctx, id, verb, func(l *golibvirt.Libvirt, s sighted) error {
		if s.live == nil {
			return agent.ErrNotRunning
		}
		return f(l, s)
	})
}

func (b *Backend) onVM(ctx context.Context, id fleet.VMID, verb string, f func(*golibvirt.Libvirt, sighted) error) error {
	return b.onVMConn(ctx, id, verb, func(ctx context.Context, c *conn, s sighted) error {
		return c.do(ctx, func(l *golibvirt.Libvirt) error { return f(l, s) })
	})
}

// onVMConn gives one order to one VM of Quantix, as it is at this moment, over a connection of its own.
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
		defer b.domains.forget(s.ref.UUID)
		return inAct(verb+" "+s.ref.Name, f(ctx, c, s))
	})
}

func noDomain(id fleet.VMID) error {
	return fleet.Errorf(fleet.NotFound, "The host has no domain with the UUID %s. Apply the VM again to make it.", id)
}

func notOurs() error {
	return fleet.Errorf(fleet.Conflict, "The domain with this UUID was not made by Quantix, so Quantix does not touch it. Use virsh on the host.")
}
