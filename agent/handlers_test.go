package agent

import (
	"testing"

	"quantix/internal/fleet"
)

func TestEveryJobKindHasHandler(t *testing.T) {
	t.Parallel()
	all := fleet.JobKindsWhere(func(k fleet.JobKindInfo) bool { return !k.OnlyParent && !k.ByPortal })
	for _, k := range all {
		if d := jobHandlers[k]; d.run == nil || d.addStatus == nil || d.recordState == nil {
			t.Errorf("%s lacks a part of its handler: %+v", k, d)
		}
	}
	if len(jobHandlers) != len(all) {
		t.Errorf("%d handlers for %d kinds", len(jobHandlers), len(all))
	}
}
