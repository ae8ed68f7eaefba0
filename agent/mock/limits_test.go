package mock

import (
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/hypervisor/conformance"
)

func TestHostWithoutNICLimitsReportsGap(t *testing.T) {
	t.Parallel()
	for _, can := range []bool{true, false} {
		h := New(Options{Name: "mock-1"})
		h.SetNICLimitSupport(can)
		harness := conformance.Harness{ActiveNetwork: "default", Open: func(*testing.T) hypervisor.Hypervisor { return h }}
		if gap := conformance.RunNICLimits(t, harness); gap == can {
			t.Errorf("limits: %t, reported as a gap: %t", can, gap)
		}
	}
}
