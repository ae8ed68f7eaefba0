package pool

import (
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/usage"
)

func TestGrowthText(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	in := func(days float64) time.Time { return now.Add(time.Duration(days * 24 * float64(time.Hour))) }
	for want, g := range map[string]*usage.PoolGrowth{
		"Full in about 23 days at the growth of the last 30 days.":                                               {Growth: usage.GrowsFull, FullAt: in(23.2), Days: 30},
		"Full in about a day at the growth of the last 5 days, first on h1 of 3 hosts.":                          {Growth: usage.GrowsFull, FullAt: in(1), Days: 5, HostName: "h1", Hosts: 3},
		"Full within a day at the growth of the last 30 days.":                                                   {Growth: usage.GrowsFull, FullAt: in(-2), Days: 30},
		"Growing, but not full within 365 days at the growth of the last 31 days.":                               {Growth: usage.GrowsSlowly, Days: 31},
		"Growing, but not full within 48 days at the growth of the last 4 days.":                                 {Growth: usage.GrowsSlowly, Days: 4},
		"Not growing in the last 30 days, on each of 3 hosts.":                                                   {Growth: usage.GrowsNot, Days: 30, HostName: "h1", Hosts: 3},
		"Not enough data to predict when it is full (needs 3 days).":                                             {Growth: usage.GrowsFew, Days: 1},
		"Not predicted: no values of the last 12 hours.":                                                         {Growth: usage.GrowsStale, Days: 20},
		"Not predicted yet. The first prediction follows within some minutes, if the pool is on an online host.": nil,
	} {
		if got := growthText(g, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	soon := &usage.PoolGrowth{Growth: usage.GrowsFull, FullAt: in(10), Fresh: true}
	if growthSeverity(soon, now) != "warn" || growthSeverity(nil, now) != "" || growthSeverity(&usage.PoolGrowth{Growth: usage.GrowsFull, FullAt: in(100), Fresh: true}, now) != "" {
		t.Error("only a pool that is full within 30 days is a warning")
	}
}

func TestChartsNameTheirHosts(t *testing.T) {
	t.Parallel()
	p := Page{Pool: fleet.PoolView{Health: fleet.PoolHealth{Hosts: 51}}}
	if p.chartHostsNote() == "" {
		t.Error("no note about 51 hosts")
	}
	p.Pool.Health.Hosts = 50
	if p.chartHostsNote() != "" {
		t.Error("a note about 50 hosts")
	}
	p.Pool.Health.Hosts, p.Pool.Spec.Shared = 51, true
	if p.chartHostsNote() != "" {
		t.Error("a note about a shared pool, whose charts have all hosts")
	}
}
