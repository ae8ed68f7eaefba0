package libvirt

import (
	"context"
	"fmt"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domstats"
)

const meterTimeout = 5 * time.Second

// Meters implements hypervisor.Telemetry. One libvirt call reads the meters of all guests. libvirt skips a busy guest
// instead of waiting for it.
func (b *Backend) Meters(ctx context.Context) ([]hypervisor.VMLoad, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read meters: %w", err)
	}
	s := b.meterWatch.Read(ctx, 0, meterTimeout, b.readMeters)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("read meters: %w", ctx.Err())
	case s.Running > 0:
		return nil, fmt.Errorf("read meters: libvirt has not answered since %s", s.Began.UTC().Format(time.TimeOnly))
	case s.Err != nil:
		return nil, fmt.Errorf("read meters: %w", s.Err)
	}
	return s.Value, nil
}

func (b *Backend) readMeters() ([]hypervisor.VMLoad, error) {
	c, err := b.daemon.Dial(b.daemon.RunContext)
	if err != nil {
		return nil, err
	}
	defer c.Disconnect()
	const which = golibvirt.ConnectGetAllDomainsStatsActive | golibvirt.ConnectGetAllDomainsStatsNowait
	stats, err := conn.Call(b.daemon.RunContext, c, func(l *golibvirt.Libvirt) ([]golibvirt.DomainStatsRecord, error) {
		return l.ConnectGetAllDomainStats(nil, uint32(domstats.Groups), uint32(which))
	})
	if err != nil {
		return nil, err
	}
	out := []hypervisor.VMLoad{}
	for _, s := range stats {
		d, err := b.readDomain(b.daemon.RunContext, c, s.Dom)
		if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if d.managed {
			out = append(out, domstats.Load(d.id, s.Dom.ID, numericParams(s.Params), textParams(s.Params)))
		}
	}
	return out, nil
}
