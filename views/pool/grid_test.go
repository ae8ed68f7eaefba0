package pool

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// TestGridAllocationsPerStatusAreBounded bounds the allocations of a full page of 50 hosts and 40 pools. The 2,000 host
// statuses take most of the page's time. The bound leaves room for the race detector, under which buffer pools reuse
// less.
func TestGridAllocationsPerStatusAreBounded(t *testing.T) {
	p := GridPage{Actor: fleet.Actor{Role: fleet.RoleAdmin}}
	for i := range GridPools {
		p.States.Pools.Items = append(p.States.Pools.Items, fleet.PoolView{Pool: fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: fmt.Sprintf("pool-%02d", i)}})
	}
	for i := range GridHosts {
		h := fleet.HostView{Phase: fleet.HostOnline}
		h.ID, h.Name = fleet.NewID[fleet.HostID](), fmt.Sprintf("host-%02d", i)
		p.States.Hosts.Items = append(p.States.Hosts.Items, h)
		p.States.Statuses = append(p.States.Statuses, slices.Repeat([]fleet.GridStatus{{State: fleet.PoolActive, Severity: fleet.SeverityOK, UsedPercent: 50}}, GridPools))
	}
	p.Hosts, p.Side = kit.ExtentOf(p.States.Hosts), kit.ExtentOf(p.States.Pools)
	allocs := testing.AllocsPerRun(5, func() {
		if err := Grid(p).Render(t.Context(), io.Discard); err != nil {
			t.Fatal(err)
		}
	})
	if perStatus := allocs / (GridHosts * GridPools); perStatus > 12 {
		t.Errorf("%.1f allocations per host status", perStatus)
	}
}
