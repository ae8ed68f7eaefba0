package agent

import (
	"testing"

	"quantix/internal/fleet"
)

func TestEveryJobKindHasHandler(t *testing.T) {
	t.Parallel()
	all := fleet.KindsWhere(func(fleet.JobKindInfo) bool { return true })
	for _, k := range all {
		if d := handlers[k]; d.do == nil || d.observe == nil || d.record == nil {
			t.Errorf("%s lacks a part of its handler: %+v", k, d)
		}
	}
	if len(handlers) != len(all) {
		t.Errorf("%d handlers for %d kinds", len(handlers), len(all))
	}
}
