package libvirt

import (
	"context"
	"fmt"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent"
	"quantix/internal/fleet"
)

// Balloons implements agent.Hypervisor.
func (b *Backend) Balloons(ctx context.Context) (out []agent.Balloon, err error) {
	err = b.order(ctx, func(ctx context.Context, c *conn) error {
		const what = golibvirt.DomainStatsState | golibvirt.DomainStatsBalloon
		const which = golibvirt.ConnectGetAllDomainsStatsActive | golibvirt.ConnectGetAllDomainsStatsNowait
		stats, err := call(ctx, c, func(l *golibvirt.Libvirt) ([]golibvirt.DomainStatsRecord, error) {
			return l.ConnectGetAllDomainStats(nil, uint32(what), uint32(which))
		})
		if err != nil {
			return fmt.Errorf("read balloons: %w", err)
		}
		for _, s := range stats {
			p := params(s.Params)
			d, err := b.look(ctx, c, s.Dom)
			switch {
			case is(err, golibvirt.ErrNoDomain):
			case err != nil:
				return err
			case golibvirt.DomainState(p[golibvirt.DomainStatsStateState]) == golibvirt.DomainRunning && d.minMiB() > 0:
				out = append(out, agent.Balloon{ID: d.id, HasMiB: int(p["balloon.current"] / 1024), MinMiB: d.minMiB(), MaxMiB: d.mayUse()})
			}
		}
		return nil
	})
	return out, err
}

// minMiB is how much the running guest keeps where its host takes memory back, in MiB; 0: nothing is taken from it.
func (d *domain) minMiB() int {
	if !d.ours || d.applied == nil || d.live == nil || d.live.parts.Devices.Balloon == "none" {
		return 0
	}
	return d.applied.Spec.Memory.MinMiB
}

// mayUse is how much the running guest may use by its spec, in MiB.
func (d *domain) mayUse() int {
	if n := d.applied.Spec.Memory.BalloonMiB; n > 0 {
		return min(n, d.live.memoryMiB)
	}
	return d.live.memoryMiB
}

// left is how much of that its host leaves it at present; 0: all.
func (d *domain) left() int {
	if d.minMiB() == 0 {
		return 0
	}
	if n := d.live.parts.Memory.BalloonMiB; n < d.mayUse() { // 0: it has all
		return n
	}
	return 0
}

// SetBalloon implements agent.Hypervisor.
func (b *Backend) SetBalloon(ctx context.Context, id fleet.VMID, mib int) error {
	return b.onVM(ctx, id, "set the balloon of", func(l *golibvirt.Libvirt, s sighted) error {
		if s.minMiB() == 0 || mib < s.minMiB() {
			return nil
		}
		return l.DomainSetMemoryFlags(s.ref, uint64(mib)*1024, uint32(golibvirt.DomainMemLive)) //nolint:gosec // It is not below a floor, which is above zero.
	})
}
