package control_test

import (
	"fmt"
	"math"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// A host may report absurdly large values. Pages still show totals, without an error.
func TestImplausibleReportsDoNotBreakTotals(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	testkit.Seed(t, pool, 3, 3)
	r := &hostFixture{Control: control.New(pool, control.Options{}), t: t, pool: pool}
	r.execSQL(`UPDATE assignments SET status = status || '{"capacityBytes": 9223372036854775807, "usedBytes": 9223372036854775807, "availableBytes": 9223372036854775807, "provisionedBytes": 9223372036854775807}' WHERE noun = 'pool'`)
	r.execSQL(`UPDATE pools SET spec = spec || '{"shared": false}'`)
	r.execSQL(`UPDATE hosts SET status = jsonb_set(jsonb_set(status, '{inventory,memoryBytes}', '9223372036854775807'), '{inventory,cpu,threads}', '9223372036854775807') `)
	r.execSQL(`UPDATE host_sessions SET last_look = seen_at`)
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

// The storage total counts a file system only once: for several pools on one file system of a host, and for several
// mounts of one export.
func TestSharedFileSystemCountedOnce(t *testing.T) {
	s := newProjectFixture(t)
	total := func(want string) {
		t.Helper()
		o, err := s.Overview(t.Context(), chief)
		if got := fmt.Sprintf("%d of %d", o.StorageUsedBytes, o.StorageBytes); err != nil || got != want {
			t.Errorf("%s used, want %s, %v", got, want, err)
		}
	}
	says := func(pool fleet.PoolID, host fleet.HostID, capacity int, on string) {
		t.Helper()
		s.execSQL(`UPDATE assignments SET status = jsonb_build_object('state', 'active', 'capacityBytes', $3::bigint, 'usedBytes', $3::bigint / 10, 'fileSystem', $4::jsonb)
			WHERE pool_id = $1 AND host_id = $2`, pool, host, capacity, on)
	}
	const disk, nas, other = `{"id": "8:1"}`, `{"id": "nfs nas:/vm", "shared": true}`, `{"id": "8:2"}`
	second := s.addPool("second", `{"kind":"dir","path":"/srv/iso","shared":false}`, s.h1, s.h2)
	mounted := s.addPool("mounted", `{"kind":"dir","path":"/net/vm","shared":false}`, s.h1, s.h2)
	cluster := s.addPool("cluster", `{"kind":"dir","path":"/cluster","shared":true}`, s.h1, s.h2)
	says(s.nfs, s.h1, 5000, nas)
	says(s.nfs, s.h2, 5000, nas)
	says(s.local, s.h1, 100, disk)
	says(second, s.h1, 100, disk)      // the same disk as the pool "local"
	says(second, s.h2, 200, disk)      // a disk of another host
	says(mounted, s.h1, 5000, nas)     // the same export as the pool "nfs"
	says(mounted, s.h2, 5000, nas)     //
	says(cluster, s.h1, 70_000, other) // shared: the hosts report different devices with the same size
	says(cluster, s.h2, 70_000, other)
	total("7530 of 75300")
	// Older agents do not report the file systems of pools. A shared pool then counts once, and a local pool once per
	// host.
	s.execSQL(`UPDATE assignments SET status = status - 'fileSystem'`)
	total("8540 of 85400")
	// Pools of offline hosts and inactive pools do not count.
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, s.h2)
	s.execSQL(`UPDATE assignments SET status = status || '{"state":"failed"}' WHERE pool_id = $1`, cluster)
	total("1020 of 10200")
	s.execSQL(`UPDATE assignments SET status = status || '{"state":"failed"}'`)
	total("0 of 0")
}
