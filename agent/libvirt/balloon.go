package libvirt

import (
	"context"
	"fmt"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
)

// Balloons implements hypervisor.Guests.
func (b *Backend) Balloons(ctx context.Context) (out []hypervisor.BalloonGuest, err error) {
	err = b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		const what = golibvirt.DomainStatsState | golibvirt.DomainStatsBalloon
		const which = golibvirt.ConnectGetAllDomainsStatsActive | golibvirt.ConnectGetAllDomainsStatsNowait
		stats, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) ([]golibvirt.DomainStatsRecord, error) {
			return l.ConnectGetAllDomainStats(nil, uint32(what), uint32(which))
		})
		if err != nil {
			return fmt.Errorf("read balloons: %w", err)
		}
		for _, s := range stats {
			p := numericParams(s.Params)
			d, err := b.readDomain(ctx, c, s.Dom)
			switch {
			case conn.IsLibvirtCode(err, golibvirt.ErrNoDomain):
			case err != nil:
				return err
			case golibvirt.DomainState(p[golibvirt.DomainStatsStateState]) == golibvirt.DomainRunning && d.minMemoryMiB() > 0:
				out = append(out, hypervisor.BalloonGuest{ID: d.id, CurrentMiB: int(p["balloon.current"] / 1024), MinMiB: d.minMemoryMiB(), MaxMiB: d.maxMemoryMiB()})
			}
		}
		return nil
	})
	return out, err
}

// minMemoryMiB returns the running guest's memory minimum in MiB. The host never shrinks the balloon below the minimum.
// minMemoryMiB returns 0 if the guest has no ballooning.
func (d *domain) minMemoryMiB() int {
	if !d.managed || d.applied == nil || d.live == nil || d.live.FieldValues.Devices.Balloon == "none" {
		return 0
	}
	return d.applied.Spec.Memory.MinMiB
}

// maxMemoryMiB returns the maximum memory that the spec gives the running guest, in MiB.
func (d *domain) maxMemoryMiB() int {
	if n := d.applied.Spec.Memory.BalloonMiB; n > 0 {
		return min(n, d.live.MemoryMiB)
	}
	return d.live.MemoryMiB
}

// balloonMiB returns the memory in MiB that the balloon leaves to the guest, or 0 if the guest has its maximum memory.
func (d *domain) balloonMiB() int {
	if d.minMemoryMiB() == 0 {
		return 0
	}
	if n := d.live.FieldValues.Memory.BalloonMiB; n < d.maxMemoryMiB() { // n is 0 if the balloon reclaims nothing
		return n
	}
	return 0
}

// SetBalloon implements hypervisor.Guests.
func (b *Backend) SetBalloon(ctx context.Context, id fleet.VMID, mib int) error {
	return b.withVM(ctx, id, "set the balloon of", func(l *golibvirt.Libvirt, s observedDomain) error {
		if s.minMemoryMiB() == 0 || mib < s.minMemoryMiB() {
			return nil
		}
		return l.DomainSetMemoryFlags(s.ref, uint64(mib)*1024, uint32(golibvirt.DomainMemLive)) //nolint:gosec // mib is at least minMemoryMiB, which is positive.
	})
}
