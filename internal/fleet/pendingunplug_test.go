package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// A faulty host may report any number of modules. Above MaxModules, ModulesToUnplug does not search, because the search
// would take too long.
func TestModulesToUnplugRefusesTooManyModules(t *testing.T) {
	t.Parallel()
	few, many := make([]fleet.Module, fleet.MaxModules), make([]fleet.Module, 1000)
	for i := range few {
		few[i].MiB = 128
	}
	for i := range many {
		many[i].MiB = 2
	}
	if which, ok := fleet.ModulesToUnplug(few, []int{15 * 128}); !ok || len(which) != 15 {
		t.Errorf("15 of 16 modules: %v, %v", which, ok)
	}
	if _, ok := fleet.ModulesToUnplug(many, []int{999}); ok {
		t.Error("more modules than the maximum were searched")
	}
}

// Many pending unplugs are summarized in one sentence.
func TestPendingUnplugTextSummarizesManyUnplugs(t *testing.T) {
	t.Parallel()
	var s fleet.VMStatus
	for i := range 200 {
		s.PendingUnplug = append(s.PendingUnplug, fleet.PendingUnplug{Field: "disks", What: fmt.Sprintf("disk %d", i)})
	}
	if text := s.PendingUnplugText(); !strings.HasSuffix(text, "disk 7 and 192 more; they are removed at the next start.") {
		t.Error(text)
	}
}
