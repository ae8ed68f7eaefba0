package load

import (
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/timeseries"
)

// The samples have a value for each VM, pool and host, vary from sample to sample, and stay within plausible bounds.
func TestSamplesVaryAndStayPlausible(t *testing.T) {
	t.Parallel()
	s := NewSampler("host")
	vms, pools := []SampledVM{{"vm-1", 4 << 30}, {"vm-2", 8 << 30}}, []string{"pool-1"}
	at := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	known := map[fleet.MetricValue]bool{}
	for range 8640 {
		at = at.Add(10 * time.Second)
		in := s.Samples(at, 10, vms, pools)
		for i, v := range in.VMs.Values["cpu.usage"] {
			known[v] = true
			used, resident := in.VMs.Values["memory.guestUsed"][i], in.VMs.Values["memory.resident"][i]
			if v < 0 || v > 100 || used <= 0 || used > resident || float64(resident) > float64(vms[i].MemoryBytes) {
				t.Fatalf("CPU %v, %v bytes used of %v at %v", v, used, resident, at)
			}
		}
		if layout, row := timeseries.NewRow("host", in, func(timeseries.Object) bool { return true }); len(layout.Tables) != 3 || len(row) < 2*len(fleet.VMMetrics) {
			t.Fatalf("%d tables, %d bytes", len(layout.Tables), len(row))
		}
	}
	if len(known) < 10_000 {
		t.Errorf("a day has only %d different values", len(known))
	}
}
