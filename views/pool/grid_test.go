package pool

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// TestPoolGridHeapAllocationsPerStatusAreBounded limits the allocations for a full page of 50 hosts and 40 pools,
// because its 2,000 statuses take most of the page's time. The limit leaves room for the race detector, under which
// buffer pools reuse less.
func TestPoolGridHeapAllocationsPerStatusAreBounded(t *testing.T) {
	p := GridPage{Actor: fleet.Actor{Role: fleet.RoleAdmin}}
	for i := range MaxGridPools {
		p.States.Pools.Items = append(p.States.Pools.Items, fleet.PoolView{Pool: fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: fmt.Sprintf("pool-%02d", i)}})
	}
	for i := range MaxGridHosts {
		h := fleet.HostView{Phase: fleet.HostOnline}
		h.ID, h.Name = fleet.NewID[fleet.HostID](), fmt.Sprintf("host-%02d", i)
		p.States.Hosts.Items = append(p.States.Hosts.Items, h)
		p.States.Statuses = append(p.States.Statuses, slices.Repeat([]diagram.GridStatus{{State: fleet.PoolActive, Severity: fleet.SeverityOK, UsedPercent: 50}}, MaxGridPools))
	}
	p.Hosts, p.Columns = kit.PageExtentOf(p.States.Hosts), kit.PageExtentOf(p.States.Pools)
	allocs := testing.AllocsPerRun(5, func() {
		if err := PoolGridPage(p).Render(t.Context(), io.Discard); err != nil {
			t.Fatal(err)
		}
	})
	if perStatus := allocs / (MaxGridHosts * MaxGridPools); perStatus > 12 {
		t.Errorf("%.1f allocations per host status", perStatus)
	}
}
