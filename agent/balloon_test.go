package agent_test

import (
	"context"
	"maps"
	"sync/atomic"
	"testing"

	"quantix/agent"
	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestBalloonMemoryIsSharedProportionally(t *testing.T) {
	t.Parallel()
	guest := func(id string, has, floor, most int) hypervisor.BalloonGuest {
		return hypervisor.BalloonGuest{ID: fleet.VMID(id), CurrentMiB: has, MinMiB: floor, MaxMiB: most}
	}
	const total = 10000
	for name, c := range map[string]struct {
		available int64
		guests    []hypervisor.BalloonGuest
		want      map[fleet.VMID]int
	}{
		"none":                        {0, nil, nil},
		"enough":                      {1500, []hypervisor.BalloonGuest{guest("a", 1000, 500, 1000)}, nil},
		"exactly scarce":              {1000, []hypervisor.BalloonGuest{guest("a", 1000, 500, 1000)}, nil},
		"scarce: shrink until enough": {900, []hypervisor.BalloonGuest{guest("a", 2000, 500, 2000)}, map[fleet.VMID]int{"a": 1400}},
		"scarce: proportional to what each can give": {900, []hypervisor.BalloonGuest{guest("a", 2000, 1000, 2000), guest("b", 1000, 500, 1000)}, map[fleet.VMID]int{"a": 1600, "b": 800}},
		"scarce: limited to the minimums":            {0, []hypervisor.BalloonGuest{guest("a", 1000, 900, 1000), guest("b", 600, 600, 1000)}, map[fleet.VMID]int{"a": 900}},
		"between the thresholds":                     {1900, []hypervisor.BalloonGuest{guest("a", 700, 500, 1000)}, nil},
		"exactly plenty":                             {2000, []hypervisor.BalloonGuest{guest("a", 700, 500, 1000)}, nil},
		"plenty: grow by the excess":                 {2100, []hypervisor.BalloonGuest{guest("a", 700, 500, 1000)}, map[fleet.VMID]int{"a": 800}},
		"plenty: proportional to what each lacks":    {2100, []hypervisor.BalloonGuest{guest("a", 500, 500, 1100), guest("b", 700, 500, 900)}, map[fleet.VMID]int{"a": 575, "b": 725}},
		"plenty: limited to one step":                {9000, []hypervisor.BalloonGuest{guest("a", 1000, 500, 9000)}, map[fleet.VMID]int{"a": 1500}},
		"plenty: limited to the maximum":             {9000, []hypervisor.BalloonGuest{guest("a", 990, 500, 1000)}, map[fleet.VMID]int{"a": 1000}},
		"memory minimum was raised":                  {1500, []hypervisor.BalloonGuest{guest("a", 600, 800, 1000)}, map[fleet.VMID]int{"a": 800}},
		"guest has not shrunk yet":                   {1500, []hypervisor.BalloonGuest{guest("a", 1000, 500, 800)}, nil},
		"guest above its maximum can give more":      {900, []hypervisor.BalloonGuest{guest("a", 1000, 200, 800)}, map[fleet.VMID]int{"a": 200}},
		"guest at its minimum":                       {900, []hypervisor.BalloonGuest{guest("a", 1000, 1000, 1000)}, nil},
	} {
		if got := agent.MemoryShares(c.available, total, c.guests); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// lowMemoryHost is a host whose available memory the test sets.
type lowMemoryHost struct {
	*mock.Host
	percent atomic.Int64
}

func (h *lowMemoryHost) Memory(ctx context.Context) (available, total int64, err error) {
	_, total, err = h.Host.Memory(ctx)
	return total / 100 * h.percent.Load(), total, err
}

// A host that is short of memory shrinks guests down to their memory minimum, reports it, and later grows them again.
func TestGuestsReturnMemoryToHost(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), &lowMemoryHost{Host: mock.New(mock.Options{Name: "host-1"})}
	host.percent.Store(50)
	dir := p.join()
	_, stop := p.startAgent(dir, host, host)
	giver, keeper := newVM("giver"), newVM("keeper")
	giver.Spec.MemoryMiB, giver.Spec.Memory = 4096, fleet.VMMemory{BalloonMiB: 2048, MinMiB: 1024}
	keeper.Spec.MemoryMiB = 4096
	for _, vm := range []*fleet.VM{giver, keeper} {
		p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm})
	}
	becomes := func(when string, want int, do func()) {
		t.Helper()
		p.mu.Lock()
		from := len(p.reports)
		p.mu.Unlock()
		do()
		p.waitStateSince(from, when, func(s wire.State) bool {
			r, ok := reportedVM(s, giver.ID)
			return ok && r.Status.Power == fleet.Running && r.Status.BalloonMiB == want && len(r.Status.Drift) == 0 && len(r.Status.NextBoot) == 0
		})
		if s, _, err := host.VM(t.Context(), keeper.ID); err != nil || s.BalloonMiB != 0 {
			t.Errorf("%s: a guest without a memory minimum is left %d MiB: %v", when, s.BalloonMiB, err)
		}
	}
	becomes("the guest is at its floor", 1024, func() { host.percent.Store(5) })
	becomes("it is at a floor that rose", 1536, func() {
		giver.Spec.Memory.MinMiB, giver.Generation = 1536, 2
		p.runJob(wire.Work{Kind: fleet.VMApply, VM: giver, Epoch: 2})
	})
	becomes("it has all again", 0, func() { host.percent.Store(60) })
	becomes("the next agent takes as well", 1536, func() {
		stop()
		host.percent.Store(9)
		p.startAgent(dir, host, host)
	})
	becomes("and gives back what it has not taken", 0, func() { host.percent.Store(60) })
}
