package fleet_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/filter"
	"quantix/internal/fleet"
)

func allJobKinds() []fleet.JobKind {
	return fleet.JobKindsWhere(func(fleet.JobKindInfo) bool { return true })
}

func TestJobKindTableIsConsistent(t *testing.T) {
	t.Parallel()
	rights := []fleet.Permission{fleet.MayUseVMs, fleet.MayChangeVMs, fleet.MayChangeInfra}
	verbs := map[string]fleet.JobKind{}
	for _, k := range allJobKinds() {
		is := k.Info()
		if is.Name != k || is.Verb == "" || (is.Limit <= 0) != (is.OnlyParent || is.ByPortal) || is.Type.Info().Plural == "" || !slices.Contains(rights, is.Permission) {
			t.Errorf("%s is incomplete: %+v", k, is)
		}
		if other, taken := verbs[is.Verb]; taken {
			t.Errorf("%s and %s have the same verb %q", k, other, is.Verb)
		}
		verbs[is.Verb] = k
		if prefix, _, _ := strings.Cut(string(k), "."); !is.Background && prefix != is.Type.Info().Label {
			t.Errorf("%s has the type %s", k, is.Type)
		}
		if is.SingleShot && is.SingleShotWithData || is.SingleShot && is.TakesSlot || is.WaitsForGuest && (is.TakesSlot || is.InterruptsWaits) || is.WhyNotCancellable != "" && is.WhyNotCancellableOnceBegun != "" {
			t.Errorf("%s is inconsistent: %+v", k, is)
		}
		if is.UsesGuest && (is.Type != fleet.TypeVM || is.AppliesSpec || is.TakesSlot || !is.WaitsForGuest) {
			t.Errorf("%s is an inconsistent guest job: %+v", k, is)
		}
		if is.Power != "" && !is.NewestOnly {
			t.Errorf("%s requests a power state, but is not NewestOnly", k)
		}
		if is.Stoppable && (is.CancelledAtOnce || is.WhyNotCancellableOnceBegun != "" || is.WhyNotCancellable != "") || is.LeftoverText != "" && !is.Stoppable {
			t.Errorf("%s has inconsistent cancellation: %+v", k, is)
		}
		for _, why := range []string{is.WhyNotCancellable, is.WhyNotCancellableOnceBegun, is.LeftoverText} {
			if why != "" && !strings.HasSuffix(why, ".") {
				t.Errorf("reason of %s is not a sentence: %q", k, why)
			}
		}
	}
	if fleet.JobKind("vm.teleport").IsKnown() || !fleet.VMStart.IsKnown() || len(allJobKinds()) != 75 {
		t.Errorf("the kinds are %v", allJobKinds())
	}
}

func TestIsSingleShotOnlyForUnrepeatableJobKinds(t *testing.T) {
	t.Parallel()
	for _, k := range allJobKinds() {
		once := slices.Contains([]fleet.JobKind{fleet.VMReboot, fleet.VMReset, fleet.VMExec, fleet.ConsoleOpen, fleet.UploadOpen, fleet.VolumeRead, fleet.DiscoveredReboot, fleet.DiscoveredReset, fleet.HostReboot, fleet.HostShutdown, fleet.HostAgentRestart, fleet.HostAgentUpgrade, fleet.HostReset}, k)
		if k.IsSingleShot(fleet.JobArgs{}) != once || k.IsSingleShot(fleet.JobArgs{DeleteDisks: true}) != (once || slices.Contains([]fleet.JobKind{fleet.VMDelete, fleet.VolumeWipe, fleet.VolumeDelete}, k)) {
			t.Errorf("%s: single-shot %v, with data %v", k, k.IsSingleShot(fleet.JobArgs{}), k.IsSingleShot(fleet.JobArgs{DeleteDisks: true}))
		}
	}
}

func TestTaskFilterAcceptsEveryVisibleKind(t *testing.T) {
	t.Parallel()
	for _, k := range allJobKinds() {
		if _, err := filter.Parse(fleet.TaskKeys, "kind:"+string(k)); (err != nil) != k.Info().Background {
			t.Errorf("kind:%s: %v", k, err)
		}
	}
}
