package wire_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestAssignedEqualIgnoresEmptyLists(t *testing.T) {
	t.Parallel()
	pools := []fleet.Pool{{ID: "1", Generation: 1}}
	changed := []fleet.Pool{{ID: "1", Generation: 2}}
	for name, c := range map[string]struct {
		a, b wire.AssignedObjects
		same bool
	}{
		"nothing":               {wire.AssignedObjects{}, wire.AssignedObjects{Pools: []fleet.Pool{}, Networks: []fleet.Network{}}, true},
		"the same pool":         {wire.AssignedObjects{Pools: pools}, wire.AssignedObjects{Pools: []fleet.Pool{pools[0]}}, true},
		"a changed pool":        {wire.AssignedObjects{Pools: pools}, wire.AssignedObjects{Pools: changed}, false},
		"a pool less":           {wire.AssignedObjects{Pools: pools}, wire.AssignedObjects{}, false},
		"one network more":      {wire.AssignedObjects{Pools: pools}, wire.AssignedObjects{Pools: pools, Networks: []fleet.Network{{ID: "2"}}}, false},
		"a network with a spec": {wire.AssignedObjects{Networks: []fleet.Network{{ID: "2"}}}, wire.AssignedObjects{Networks: []fleet.Network{{ID: "2", Spec: &fleet.NetworkSpec{}}}}, false},
	} {
		if got := c.a.Equal(c.b); got != c.same {
			t.Errorf("%s: equal is %v", name, got)
		}
		if got := c.b.Equal(c.a); got != c.same {
			t.Errorf("%s, swapped: equal is %v", name, got)
		}
	}
}
