package bench

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/cli"
	"quantix/internal/testkit"
	"quantix/internal/testkit/goals"
)

// BenchmarkHostPage measures the pages of a host with 500 VMs: the summary, the VMs and the topology, at a portal
// process with 20 such hosts.
func BenchmarkHostPage(b *testing.B) {
	const hosts, vms = 20, 500
	cli.TuneGarbageCollector()
	r := newRig(b)
	testkit.Seed(b, r.pool, hosts, hosts*vms)
	keepOnline(b, r)
	p := startPortal(b, r)
	v := visitor{p.signedIn(), p.url}
	r.waitIdle(b)
	for range b.N {
		var ours []string
		var slowest durations
		met := true
		for _, tab := range []string{"summary", "vms", "topology"} {
			took, _ := v.requestTimes(b, "/hosts/"+seedID(7)+"?tab="+tab, "")
			ours, met, slowest = append(ours, took.String()), met && took.percentile(0.99) <= 50*time.Millisecond, slowerOf(slowest, took)
		}
		v.compare(b, goals.HostPage, met, strings.Join(ours, " · "), slowest)
	}
}
