//go:build ordeal

package control_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/notify"
)

// pageData is the part of the pages' data that is computed from many hosts.
type pageData struct {
	Pool        fleet.PoolHealth
	Counts      query.PoolCounts
	PoolHosts   []fleet.HostID
	More        bool // whether the pool has hosts on a next page
	Network     fleet.NetworkHealth
	NetHosts    []fleet.HostID
	Hosts       map[fleet.HostPhase]int
	Overview    fleet.Overview
	ListedPools []fleet.PoolHealth
	Unknown     []string // names of VMs
	Running     []string
}

// loadPages reads the data of the pages of the pool and the network. A Control that was used before answers from its
// caches; a new Control reads the database.
func loadPages(t *testing.T, c *control.Control, pool fleet.PoolID, network fleet.NetworkID) (l pageData) {
	t.Helper()
	ctx := t.Context()
	want := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for phase, names := range map[string]*[]string{"unknown": &l.Unknown, "running": &l.Running} {
		vms, err := c.ListVMs(ctx, chief, fleet.Query{Filter: "state:" + phase})
		want(err)
		for _, v := range vms.Items {
			*names = append(*names, v.Name)
		}
	}
	p, page, err := c.PoolMatrix(ctx, chief, pool, fleet.Query{Limit: 25})
	want(err)
	for _, h := range page.Items {
		l.PoolHosts = append(l.PoolHosts, h.HostID)
	}
	if page, err := c.PoolHosts(ctx, chief, pool, fleet.Query{Limit: -7}); err != nil || len(page.Items) != 100 {
		t.Errorf("a page with an invalid limit: %d hosts, %v", len(page.Items), err)
	}
	n, err := c.GetNetwork(ctx, chief, network)
	want(err)
	for _, h := range n.Hosts {
		l.NetHosts = append(l.NetHosts, h.HostID)
	}
	if len(page.Items) != 25 || page.Next == "" {
		t.Errorf("%d of many hosts are shown, and then: %q", len(page.Items), page.Next)
	}
	l.Pool, l.Network, l.More = p.Health, n.Health, page.Next != ""
	l.Counts, err = c.PoolCounts(ctx, chief, pool)
	want(err)
	hosts, err := c.HostTotals(ctx, chief)
	l.Hosts = hosts.Phases
	want(err)
	l.Overview, err = c.Overview(ctx, chief)
	want(err)
	l.Overview.CountedAt = time.Time{}
	for i := range l.Overview.Attention {
		if at := &l.Overview.Attention[i]; at.Severity != fleet.SeverityUnknown {
			at.At = nil // the last report of an online host keeps changing
		}
	}
	all, err := c.ListPools(ctx, chief, fleet.Query{})
	want(err)
	for _, v := range all.Items {
		l.ListedPools = append(l.ListedPools, v.Health)
	}
	return l
}

// Totals over many hosts are cached. Soon after a change, pages show the same data that a new portal reads from the
// database. The cache sends a wake-up after its refresh, because the change's own wake-up came before the refresh.
func TestCachedTotalsRefreshedAfterChanges(t *testing.T) {
	s := newProjectFixture(t)
	network := fleet.NewID[fleet.NetworkID]()
	s.execSQL(`INSERT INTO networks (id, name, kind) VALUES ($1, 'lan', 'libvirt')`, network)
	s.execSQL(`INSERT INTO hosts (id, name, status) SELECT '00000000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'w' || lpad(n::text, 4, '0'), '{"connected": true}' FROM generate_series(1, 1200) n`)
	s.execSQL(`INSERT INTO host_sessions (host_id, seen_at) SELECT id, now() FROM hosts WHERE name LIKE 'w%'`)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at) SELECT 'pool', $1, id, 'assign',
		jsonb_build_object('state', 'active', 'capacityBytes', 1000, 'usedBytes', 100, 'availableBytes', 900, 'volumes', '[{"name": "a"}]'::jsonb), 1, now() FROM hosts WHERE name LIKE 'w%'`, s.nfs)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', $1, id, '{"active": true, "bridge": "lan0"}' FROM hosts`, network)
	s.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec, status, observed_generation) SELECT '00000000-0000-7000-9000-' || right(h.id, 12), $1, h.id, 'on-' || h.name,
		'{"power": "running", "cpus": 1, "memoryMiB": 512, "firmware": "bios"}', '{"power": "running", "cpus": 1, "memoryMiB": 512}', 1 FROM hosts h WHERE h.name IN ('w0600', 'w0700')`, s.red)

	hub := notify.NewHub() // not connected to PostgreSQL, so it gets only the cache's own wake-ups
	c := control.New(s.pool, control.Options{Hub: hub})
	sub := hub.Subscribe("pool:*", "net:*")
	defer sub.Close()
	for _, now := range []struct{ what, sql string }{
		{"all is well", ""},
		{"a fuller storage", `UPDATE assignments SET status = jsonb_set(status, '{availableBytes}', '700') || '{"usedBytes": 300}' WHERE noun = 'pool' AND host_id LIKE '0000%'`},
		{"another kind of network", `UPDATE assignments SET status = status || '{"forward": "nat"}' WHERE noun = 'net' AND host_id LIKE '0000%'`},
		{"a silent host", `UPDATE host_sessions SET seen_at = now() - interval '1 hour' WHERE host_id = '00000000-0000-7000-8000-000000000700'`},
		{"a failed host status", `UPDATE assignments SET status = '{"state": "failed", "error": "no route"}' WHERE noun = 'pool' AND host_id = '00000000-0000-7000-8000-000000000900'`},
		{"a network that is off", `UPDATE assignments SET status = '{"active": false}' WHERE noun = 'net' AND host_id = '00000000-0000-7000-8000-000000000901'`},
		{"a nearly full storage", `UPDATE assignments SET status = jsonb_set(status, '{availableBytes}', '50') || '{"usedBytes": 950}' WHERE noun = 'pool'`},
		{"it is well again", `UPDATE assignments SET status = jsonb_set(status, '{availableBytes}', '900') || '{"usedBytes": 100, "state": "active"}' WHERE noun = 'pool'`},
		{"a host that has lost it", `DELETE FROM assignments WHERE host_id = '00000000-0000-7000-8000-000000000003'`},
		{"a pool that few have now", `DELETE FROM assignments WHERE noun = 'pool' AND host_id > '00000000-0000-7000-8000-000000000099' AND host_id <= '00000000-0000-7000-8000-000000001200'`},
	} {
		if now.sql != "" {
			loadPages(t, c, s.nfs, network)
			s.execSQL(now.sql)
			loadPages(t, c, s.nfs, network) // caches the state before the host is deleted
		}
		want := loadPages(t, control.New(s.pool, control.Options{}), s.nfs, network)
		timeout := time.After(20 * time.Second)
		for woken := now.sql == ""; ; {
			diff := "nobody was woken"
			if woken {
				if diff = cmp.Diff(want, loadPages(t, c, s.nfs, network)); diff == "" {
					break
				}
			}
			select {
			case <-sub.C:
				woken = true
			case <-timeout:
				t.Fatalf("%s: database (-) and pages (+):\n%s", now.what, diff)
			}
		}
	}
}
