package control_test

import (
	"math"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// However much a host claims to have, what all of them add up to is shown: nobody's word takes a page from the others.
func TestNoHostsClaimsBreakTheSums(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	testkit.Seed(t, pool, 3, 3)
	r := &rig{Control: control.New(pool, control.Options{}), t: t, pool: pool}
	r.exec(`UPDATE assignments SET status = status || '{"capacityBytes": 9223372036854775807, "usedBytes": 9223372036854775807, "availableBytes": 9223372036854775807, "promisedBytes": 9223372036854775807}' WHERE noun = 'pool'`)
	r.exec(`UPDATE pools SET spec = spec || '{"shared": false}'`)
	r.exec(`UPDATE hosts SET status = jsonb_set(jsonb_set(status, '{inventory,memoryBytes}', '9223372036854775807'), '{inventory,cpu,threads}', '9223372036854775807') `)
	r.exec(`UPDATE host_sessions SET last_look = seen_at`)
	pools, err := r.ListPools(t.Context(), chief, fleet.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pools.Items {
		if p.Health.CapacityBytes != math.MaxInt64 {
			t.Errorf("%s has %d bytes", p.Name, p.Health.CapacityBytes)
		}
		if _, err := r.GetPool(t.Context(), chief, p.ID); err != nil {
			t.Error(err)
		}
	}
	o, err := r.Overview(t.Context(), chief)
	if err != nil || o.MemoryBytes != math.MaxInt64 || o.StorageBytes != math.MaxInt64 {
		t.Errorf("%d bytes of memory and %d of storage, %v", o.MemoryBytes, o.StorageBytes, err)
	}
	if _, err := r.ListHosts(t.Context(), chief, fleet.Query{}); err != nil {
		t.Error(err)
	}
}
