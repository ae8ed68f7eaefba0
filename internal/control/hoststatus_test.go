package control_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// assignManyHosts assigns both pools to 60 more hosts with random statuses.
func (s *projectFixture) assignManyHosts(r *rand.Rand) {
	s.t.Helper()
	states := []fleet.PoolState{fleet.PoolActive, fleet.PoolActive, fleet.PoolActive, fleet.PoolInactive, fleet.PoolFailed, fleet.PoolStalled, ""}
	ages := []time.Duration{0, 0, 0, time.Hour}
	for i := range 60 {
		id := fleet.NewID[fleet.HostID]()
		s.execSQL(`INSERT INTO hosts (id, name, status) VALUES ($1, $2, '{"connected": true}')`, id, fmt.Sprintf("c%02d", i))
		if i%17 != 0 { // some were never online
			s.execSQL(`INSERT INTO host_sessions (host_id, seen_at) VALUES ($1, now() - $2::interval)`, id, ages[r.IntN(len(ages))])
		}
		for _, pool := range []fleet.PoolID{s.nfs, s.local} {
			var status *fleet.PoolStatus
			if state := states[r.IntN(len(states))]; state != "" {
				capacity := []int64{0, 1000, 1 << 40}[r.IntN(3)]
				status = &fleet.PoolStatus{
					State: state, CapacityBytes: capacity, UsedBytes: capacity/100*int64(82+7*r.IntN(3)) + capacity/150, AvailableBytes: r.Int64N(1 << 40), ProvisionedBytes: r.Int64N(1 << 40),
					StoppedOutside: r.IntN(2) == 0, Volumes: []fleet.Volume{{Name: "debian.qcow2"}},
				}
				if state == fleet.PoolFailed {
					status.Error = "no route"
				}
			}
			s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status) VALUES ('pool', $1, $2, $3, $4)`, pool, id, []string{"assign", "release"}[r.IntN(8)/7], status)
		}
		if r.IntN(6) == 0 {
			s.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec, status, observed_generation) VALUES ($1, $2, $3, $4,
				jsonb_build_object('power', 'running', 'cpus', 1, 'memoryMiB', 512, 'firmware', 'bios', 'disks', jsonb_build_array(jsonb_build_object('poolId', $5::text, 'volume', 'a'), jsonb_build_object('poolId', $5::text, 'volume', 'b'))),
				'{"power": "paused", "reason": "I/O error"}', 1)`, fleet.NewID[fleet.VMID](), s.red, id, fmt.Sprintf("paused-%d", i), s.nfs)
		}
	}
}

// For any reports, the pool health that PostgreSQL computes equals the health that Go computes from all host statuses.
// Pages list each host status once, those that need attention first.
func TestPoolHealthInSQLMatchesHostStatuses(t *testing.T) {
	s := newProjectFixture(t)
	seed := rand.Uint64()
	s.assignManyHosts(rand.New(rand.NewPCG(seed, 0)))
	for _, pool := range []fleet.PoolID{s.nfs, s.local} {
		v := s.poolView(chief, pool)
		list := func(filter string) []fleet.PoolHost {
			t.Helper()
			statuses, err := query.ReadAllPages(t.Context(), chief, fleet.Query{Filter: filter}, func(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.PoolHost], error) {
				q.Limit = 7
				return s.PoolHosts(ctx, a, pool, q)
			})
			if err != nil {
				t.Fatal(err)
			}
			return statuses
		}
		statuses := list("")
		var groups []policy.PoolHealthGroup
		var first fleet.PoolSpace
		named := "~"
		for _, c := range statuses {
			g := policy.PoolHealthGroup{PoolHealthKey: policy.NewPoolHealthKey(c, time.Now()), Hosts: 1}
			if c.Status != nil {
				g.Space = c.Status.Space()
			}
			if c.State == fleet.PoolActive && c.HostName < named {
				named, first = c.HostName, g.Space
			}
			groups = append(groups, g)
			if c.PausedVMs > 1 {
				t.Errorf("a VM with two disks in %s counts as %d", v.Name, c.PausedVMs)
			}
		}
		if diff := cmp.Diff(policy.PoolHealth(v.Spec, groups, first), v.Health); diff != "" {
			t.Errorf("seed %d: the host statuses of %s (-), and PostgreSQL's total (+):\n%s", seed, v.Name, diff)
		}
		if len(statuses) != v.Health.Hosts || len(v.Hosts) != fleet.HostStatusesListed || v.Health.SeverityCounts.All() != len(statuses) {
			t.Errorf("seed %d: %d host statuses of %+v, %d listed", seed, len(statuses), v.Health, len(v.Hosts))
		}
		rank := func(c fleet.PoolHost) int {
			if c.State == fleet.PoolInactive && c.Status.StoppedOutside { // a pool that others stopped needs attention
				return 1
			}
			return map[fleet.Severity]int{fleet.SeverityBad: 0, fleet.SeverityUnknown: 2, fleet.SeverityWarn: 3, fleet.SeverityOK: 4}[c.Severity]
		}
		if !slices.IsSortedFunc(statuses, func(x, y fleet.PoolHost) int { return (rank(x)-rank(y))*10 + strings.Compare(x.HostName, y.HostName) }) {
			t.Errorf("seed %d: %s is not in order", seed, v.Name)
		}
		for tone, n := range map[fleet.Severity]int{fleet.SeverityOK: v.Health.SeverityCounts.OK, fleet.SeverityWarn: v.Health.SeverityCounts.Warn, fleet.SeverityBad: v.Health.SeverityCounts.Bad, fleet.SeverityUnknown: v.Health.SeverityCounts.Unknown} {
			if got := list("health:" + string(tone)); len(got) != n || slices.ContainsFunc(got, func(c fleet.PoolHost) bool { return c.Severity != tone }) {
				t.Errorf("seed %d: %s: the counter says %d %s, the filter gives %d", seed, v.Name, n, tone, len(got))
			}
			if got := list("-health:" + string(tone)); len(got) != len(statuses)-n {
				t.Errorf("seed %d: %s: all but %s are %d", seed, v.Name, tone, len(got))
			}
		}
		if got := list("name:c0*"); len(got) != 10 || slices.ContainsFunc(got, func(c fleet.PoolHost) bool { return !strings.HasPrefix(c.HostName, "c0") }) {
			t.Errorf("seed %d: %d hosts of %s by name", seed, len(got), v.Name)
		}
		back, err := s.PoolHosts(t.Context(), chief, pool, fleet.Query{Limit: 7})
		if err == nil {
			back, err = s.PoolHosts(t.Context(), chief, pool, fleet.Query{Limit: 7, After: back.Next})
		}
		if err == nil {
			back, err = s.PoolHosts(t.Context(), chief, pool, fleet.Query{Limit: 7, Before: back.Prev})
		}
		if err != nil || !slices.EqualFunc(back.Items, statuses[:7], func(x, y fleet.PoolHost) bool { return x.HostID == y.HostID }) {
			t.Errorf("seed %d: paging forward and back does not return to the start: %v", seed, err)
		}
	}
	all, err := s.ListPoolsInFull(t.Context(), chief, fleet.Query{})
	for _, v := range all.Items {
		if shown := s.poolView(chief, v.ID); !slices.EqualFunc(v.Hosts, shown.Hosts, func(x, y fleet.PoolHost) bool { return x.HostID == y.HostID && x.PoolID == y.PoolID }) {
			t.Errorf("seed %d: the list of pools has other hosts of %s than the pool's page", seed, v.Name)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// See TestPoolHealthInSQLMatchesHostStatuses; this is the same test for networks.
func TestNetworkHealthInSQLMatchesHostStatuses(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`INSERT INTO networks (id, name, kind) VALUES ('00000000-0000-7000-8000-000000000001', 'lan', 'libvirt')`)
	for i := range 60 {
		id := fleet.NewID[fleet.HostID]()
		s.execSQL(`INSERT INTO hosts (id, name, status) VALUES ($1, $2, '{"connected": true}')`, id, fmt.Sprintf("c%02d", i))
		s.execSQL(`INSERT INTO host_sessions (host_id, seen_at) VALUES ($1, now() - CASE WHEN $2 THEN interval '0' ELSE interval '1 hour' END)`, id, i%5 != 0)
		var status *fleet.NetworkStatus
		if i%7 != 0 {
			status = &fleet.NetworkStatus{Active: i%3 != 0, Forward: []string{"nat", "", "route"}[i%3], Subnets: []string{"10.0.0.0/24"}}
			if i%11 == 0 {
				status.Error = "no bridge"
			}
		}
		s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', '00000000-0000-7000-8000-000000000001', $1, $2)`, id, status)
	}
	const lan = fleet.NetworkID("00000000-0000-7000-8000-000000000001")
	v, err := s.GetNetwork(t.Context(), chief, lan)
	if err != nil {
		t.Fatal(err)
	}
	list := func(filter string) []fleet.NetworkHost {
		t.Helper()
		statuses, err := query.ReadAllPages(t.Context(), chief, fleet.Query{Filter: filter}, func(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkHost], error) {
			q.Limit = 7
			return s.NetworkHosts(ctx, a, lan, q)
		})
		if err != nil {
			t.Fatal(err)
		}
		return statuses
	}
	statuses := list("")
	var groups []policy.NetworkHealthGroup
	for _, c := range statuses {
		groups = append(groups, policy.NetworkHealthGroup{State: c.StateAt(time.Now()), Active: c.Status != nil && c.Status.Active, Hosts: 1})
	}
	want := policy.NetworkHealth(groups)
	want.Forwards, want.Subnets = []string{"", "nat", "route"}, []string{"10.0.0.0/24"}
	if diff := cmp.Diff(want, v.Health); diff != "" || len(statuses) != 60 || want.Active == 0 || want.Active == 60 {
		t.Errorf("%d host statuses (-), and PostgreSQL's total (+):\n%s", len(statuses), diff)
	}
	rank := map[fleet.Severity]int{fleet.SeverityBad: 0, fleet.SeverityUnknown: 1, fleet.SeverityWarn: 2, fleet.SeverityOK: 3}
	if !slices.IsSortedFunc(statuses, func(x, y fleet.NetworkHost) int {
		return (rank[x.State.Severity()]-rank[y.State.Severity()])*10 + strings.Compare(x.HostName, y.HostName)
	}) {
		t.Error("the host statuses are not in order")
	}
	for tone, n := range map[fleet.Severity]int{fleet.SeverityOK: v.Health.SeverityCounts.OK, fleet.SeverityWarn: v.Health.SeverityCounts.Warn, fleet.SeverityBad: v.Health.SeverityCounts.Bad, fleet.SeverityUnknown: v.Health.SeverityCounts.Unknown} {
		if got := list("health:" + string(tone)); len(got) != n || n == 0 {
			t.Errorf("the counter says %d %s, the filter gives %d", n, tone, len(got))
		}
	}
	all, err := s.ListNetworksInFull(t.Context(), chief, fleet.Query{Filter: "name:lan"})
	if err != nil || len(all.Items) != 1 || !slices.EqualFunc(all.Items[0].Hosts, v.Hosts, func(x, y fleet.NetworkHost) bool { return x.HostID == y.HostID }) {
		t.Errorf("the list of networks has other hosts than the network's page: %v", err)
	}
}
