package mock

import (
	"testing"

	"quantix/agent"
	"quantix/agent/hvtest"
)

func TestHostWithoutNICLimitsReportsGap(t *testing.T) {
	t.Parallel()
	for _, can := range []bool{true, false} {
		h := New(Options{Name: "mock-1"})
		h.SetNICLimits(can)
		harness := hvtest.Harness{Network: "default", Open: func(*testing.T) agent.Hypervisor { return h }}
		if gap := hvtest.RunNICLimits(t, harness); gap == can {
			t.Errorf("limits: %t, told as a gap: %t", can, gap)
		}
	}
}
