package vm

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/rendered"
	"quantix/views/kit"
)

// TestMigrateDialogStaysSmallInLargeFleet checks that the dialog stays small in a fleet of thousands of hosts: a
// searchable choice of targets, and only the first refused hosts with reasons.
func TestMigrateDialogStaysSmallInLargeFleet(t *testing.T) {
	t.Parallel()
	targets := []fleet.MigrationTarget{{HostID: "good", HostName: "good", Method: fleet.MethodCold, Allowed: true}, {HostID: "full", HostName: "full", PoolID: "p", PoolName: "ssd", Reason: "No room.", Reasons: []string{"No room.", "Its CPU is another."}, Room: true}}
	for i := range 2000 {
		targets = append(targets, fleet.MigrationTarget{HostID: "bad", HostName: fmt.Sprintf("bad-%d", i), Reason: "Its CPU is another.", Reasons: []string{"Its CPU is another."}})
	}
	p := MigratePage{VM: reportedVM(fleet.PhaseStopped), Targets: targets, To: kit.SelectChoices{Options: MigrationTargetOptions(targets)}}
	text := rendered.Text(t, MigrateDialog(p))
	if n := strings.Count(text, "Its CPU is another."); n != maxRefusedTargets {
		t.Errorf("%d hosts have a reason", n)
	}
	for _, want := range []string{"full, pool ssd No room. Its CPU is another.", "1991 more targets not suitable.", "good: Cold, disks stay in shared pools"} {
		if !strings.Contains(text, want) {
			t.Errorf("the dialog lacks %q: %s", want, text)
		}
	}
	if strings.Contains(text, "bad-9:") || len(p.To.Options) != 2 {
		t.Errorf("the targets are %v", p.To.Options)
	}
}
