package placement_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/placement"
)

// A VM with exclusive NICs is placed on a host with free capacity. A refusal names the VMs that use the capacity.
func TestExclusiveNICsNeedFreeCapacity(t *testing.T) {
	t.Parallel()
	on := func(ids ...fleet.NetworkID) func(*fleet.VMSpec) {
		return func(s *fleet.VMSpec) {
			s.NICs = nil
			for _, id := range ids {
				s.NICs = append(s.NICs, fleet.NIC{NetworkID: id, Network: "default"})
			}
		}
	}
	vfs := func(total, used, allocated int, by ...string) func(*placement.Host) {
		return func(h *placement.Host) {
			c := &placement.NICCapacity{Device: "eth4", Functions: true, Total: total, Used: used, Allocated: allocated, VMNames: by}
			h.NICs = map[fleet.NetworkID]*placement.NICCapacity{"fast": c, "also": c}
		}
	}
	device := func(h *placement.Host) {
		h.NICs = map[fleet.NetworkID]*placement.NICCapacity{"fast": {Device: "eth5", Total: 1, Allocated: 1, VMNames: []string{"web-1"}}}
	}
	const field = "spec.nics[0].network"
	for name, c := range map[string]struct {
		spec           func(*fleet.VMSpec)
		host           func(*placement.Host)
		field, message string
		plain          string
	}{
		"all free":                        {on("fast"), vfs(8, 0, 0), "", "", ""},
		"last free function":              {on("fast"), vfs(8, 7, 7, "a"), "", "", ""},
		"last two on two networks":        {on("fast", "also"), vfs(8, 6, 6, "a"), "", "", ""},
		"none free":                       {on("fast"), vfs(8, 0, 8, "a", "b", "c", "d", "e"), field, "No free virtual function of eth4 on a: 8 of 8 are used by a, b, c and 2 more.", "no free virtual function in network default"},
		"allocated to stopped VMs":        {on("fast"), vfs(2, 1, 2, "a", "b"), field, "2 of 2 are used by a and b.", "no free virtual function in network default"},
		"unmanaged guests also run":       {on("fast"), vfs(2, 2, 1, "a"), field, "2 of 2 are used by a and machines that Quantix did not create.", "no free virtual function in network default"},
		"only unmanaged guests":           {on("fast"), vfs(2, 2, 0), field, "used by machines that Quantix did not create.", "no free virtual function in network default"},
		"fewer functions than used":       {on("fast"), vfs(2, 2, 8, "a"), field, "2 of 2 are used by a.", "no free virtual function in network default"},
		"no functions left on the device": {on("fast"), vfs(0, 0, 1, "a"), field, "eth4 of a has no virtual functions", "no virtual functions in network default"},
		"two NICs for one free function":  {on("fast", "fast"), vfs(1, 0, 0), "spec.nics[1].network", "1 of 1 are used by this VM's other NICs.", "no free virtual function in network default"},
		"two networks on one device":      {on("fast", "also", "fast"), vfs(3, 1, 1, "a"), "spec.nics[2].network", "3 of 3 are used by a and this VM's other NICs.", "no free virtual function in network default"},
		"device already used":             {on("fast"), device, field, "The device eth5 of a is for one NIC alone and is used by web-1.", "no free device in network default"},
		"NICs on another network":         {on("other"), vfs(0, 0, 0), "", "", ""},
		"a host without exclusive NICs":   {on("fast"), func(*placement.Host) {}, "", "", ""},
	} {
		s, h := newSpec(c.spec), newHost("a", 8192, 0, c.host)
		faults := placement.Faults(s, h)
		switch {
		case c.field == "" && len(faults) > 0:
			t.Errorf("%s: %v", name, faults)
		case c.field != "" && (len(faults) != 1 || faults[0].Field != c.field || !strings.Contains(faults[0].Message, c.message) || faults[0].Plain != c.plain):
			t.Errorf("%s: %+v, want %q at %s", name, faults, c.message, c.field)
		}
		if choice := placement.Place(s, []placement.Host{h, newHost("b", 4096, 0, vfs(9, 0, 0))}); choice.Host == nil || (choice.Host.Name == "b") != (c.field != "") {
			t.Errorf("%s: placed on %+v", name, choice.Host)
		}
	}
}
