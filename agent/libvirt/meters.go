package libvirt

import (
	"context"
	"fmt"
	"strconv"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/libvirt/conn"
	"quantix/internal/wire"
)

const meterTimeout = 5 * time.Second

// Meters implements hypervisor.Telemetry. One libvirt call reads the meters of all guests. libvirt skips a busy guest
// instead of waiting for it.
func (b *Backend) Meters(ctx context.Context) ([]wire.Meter, error) {
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

func (b *Backend) readMeters() ([]wire.Meter, error) {
	c, err := b.daemon.Dial(b.daemon.RunContext)
	if err != nil {
		return nil, err
	}
	defer c.Disconnect()
	const what = golibvirt.DomainStatsCPUTotal | golibvirt.DomainStatsBalloon | golibvirt.DomainStatsInterface | golibvirt.DomainStatsBlock
	const which = golibvirt.ConnectGetAllDomainsStatsActive | golibvirt.ConnectGetAllDomainsStatsNowait
	stats, err := conn.Call(b.daemon.RunContext, c, func(l *golibvirt.Libvirt) ([]golibvirt.DomainStatsRecord, error) {
		return l.ConnectGetAllDomainStats(nil, uint32(what), uint32(which))
	})
	if err != nil {
		return nil, err
	}
	out := []wire.Meter{}
	for _, s := range stats {
		d, err := b.readDomain(b.daemon.RunContext, c, s.Dom)
		if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if d.managed {
			out = append(out, domainMeter(d, numericParams(s.Params)))
		}
	}
	return out, nil
}

func domainMeter(d *domain, p map[string]int64) wire.Meter {
	m := wire.Meter{ID: d.id, CPUNanos: p["cpu.time"], MemoryBytes: p["balloon.rss"] * 1024}
	for i := range p["block.count"] {
		at := "block." + strconv.FormatInt(i, 10)
		m.ReadBytes += p[at+".rd.bytes"]
		m.WriteBytes += p[at+".wr.bytes"]
	}
	for i := range p["net.count"] {
		at := "net." + strconv.FormatInt(i, 10)
		m.ReceiveBytes += p[at+".rx.bytes"]
		m.SendBytes += p[at+".tx.bytes"]
	}
	return m
}
