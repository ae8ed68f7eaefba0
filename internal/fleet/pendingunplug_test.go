package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// What a host says of modules costs nobody's time: of more than a guest can have there is no choice.
func TestFewModulesAreChosenAmong(t *testing.T) {
	t.Parallel()
	few, many := make([]fleet.Module, fleet.MaxModules), make([]fleet.Module, 1000)
	for i := range few {
		few[i].MiB = 128
	}
	for i := range many {
		many[i].MiB = 2
	}
	if which, ok := fleet.GivenBack(few, []int{15 * 128}); !ok || len(which) != 15 {
		t.Errorf("of 16 modules 15 are %v, %v", which, ok)
	}
	if _, ok := fleet.GivenBack(many, []int{999}); ok {
		t.Error("999 MiB are made of modules of 2")
	}
}

// What many devices a guest holds on to is told in a sentence all the same.
func TestWhatIsHeldIsASentence(t *testing.T) {
	t.Parallel()
	var s fleet.VMStatus
	for i := range 200 {
		s.PendingUnplug = append(s.PendingUnplug, fleet.PendingUnplug{Field: "disks", What: fmt.Sprintf("disk %d", i)})
	}
	if said := s.StillHeld(); !strings.HasSuffix(said, "disk 7 and 192 more; they go at the next start.") {
		t.Error(said)
	}
}
