package reconcile

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/testkit"
)

// testNotifier executes SQL and wakes the hub as PostgreSQL's triggers would.
type testNotifier struct {
	t    *testing.T
	pool *pgxpool.Pool
	hub  *notify.Hub
}

func (x testNotifier) execAndWake(sql string, wakes ...string) {
	x.t.Helper()
	if _, err := x.pool.Exec(x.t.Context(), sql); err != nil {
		x.t.Fatal(err)
	}
	for _, key := range wakes {
		x.hub.Wake(key)
	}
}

func TestVMCountersFollowChanges(t *testing.T) {
	t.Parallel()
	x := testNotifier{t, testkit.DB(t), notify.NewHub()}
	x.execAndWake(`INSERT INTO projects (id, name) VALUES ('p', 'p'), ('q', 'q')`)
	x.execAndWake(`INSERT INTO hosts (id, name) VALUES ('h1', 'h1'), ('h2', 'h2')`)
	x.execAndWake(`INSERT INTO host_sessions (host_id, seen_at) SELECT id, now() FROM hosts`)
	testkit.KeepOnline(t, x.pool)
	x.execAndWake(`INSERT INTO vms (id, project_id, host_id, name, spec, status, observed_generation)
		SELECT 'vm' || n, 'p', 'h1', 'vm' || n, '{"power":"running","cpus":2,"memoryMiB":512}', '{"power":"running","cpus":2,"memoryMiB":512}', 1 FROM generate_series(1, 9) n`)
	var log bytes.Buffer
	c := control.New(x.pool, control.Options{Hub: x.hub})
	n := newVMCounter(c, x.hub, slog.New(slog.NewTextHandler(&log, nil)))
	chief := fleet.Actor{UserID: "chief", Role: fleet.RoleAdmin}
	look := func(when string, found int, want map[fleet.Phase]int, projects ...int) {
		t.Helper()
		if err := n.countChanges(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
		got, err := c.VMTotals(t.Context(), chief)
		if err != nil {
			t.Fatal(err)
		}
		for phase, n := range got.Phases {
			if n == 0 {
				delete(got.Phases, phase)
			}
		}
		if diff := cmp.Diff(want, got.Phases); diff != "" || got.Discovered != found {
			t.Errorf("%s: %d discovered, want %d (-want +got):\n%s", when, got.Discovered, found, diff)
		}
		page, err := c.ListProjects(t.Context(), chief, fleet.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range page.Items {
			if p.VMs != projects[i] {
				t.Errorf("%s: project %s has %d VMs, want %d", when, p.Name, p.VMs, projects[i])
			}
		}
	}
	running := func(n int) map[fleet.Phase]int { return map[fleet.Phase]int{fleet.PhaseRunning: n} }
	look("at first", 0, running(9), 9, 0)
	x.execAndWake(`UPDATE vms SET status = jsonb_set(status, '{power}', '"stopped"'), spec = jsonb_set(spec, '{power}', '"stopped"') WHERE id = 'vm1'`, "vm:vm1")
	x.execAndWake(`DELETE FROM vms WHERE id = 'vm2'`, "vm:vm2")
	x.execAndWake(`UPDATE vms SET project_id = 'q', host_id = 'h2' WHERE id = 'vm3'`, "vm:vm3")
	x.execAndWake(`INSERT INTO found_vms (host_id, id, name, status) VALUES ('h1', 'f1', 'f1', '{}'), ('h2', 'f2', 'f2', '{}')`, "host:h1", "host:h2")
	x.execAndWake(`INSERT INTO vms (id, project_id, host_id, name, spec) VALUES ('new', 'q', 'h2', 'new', '{"power":"running","cpus":2,"memoryMiB":512}')`, "vm:new")
	look("after changes", 2, map[fleet.Phase]int{fleet.PhaseRunning: 7, fleet.PhaseStopped: 1, fleet.PhaseCreating: 1}, 7, 2)
	x.execAndWake(`DELETE FROM found_vms WHERE host_id = 'h2'`, "host:h2")
	x.execAndWake(`DELETE FROM vms WHERE id = 'new'`, "vm:new", "vm:never-was")
	look("after deletions", 1, map[fleet.Phase]int{fleet.PhaseRunning: 7, fleet.PhaseStopped: 1}, 7, 1)

	x.execAndWake(`DELETE FROM vms WHERE id IN ('vm4', 'vm5')`) // without a wake-up
	look("after a change without a wake-up", 1, map[fleet.Phase]int{fleet.PhaseRunning: 7, fleet.PhaseStopped: 1}, 7, 1)
	for i := range 5000 {
		x.hub.Wake(fmt.Sprintf("vm:other-%d", i))
	}
	look("after too many wake-ups at once", 1, map[fleet.Phase]int{fleet.PhaseRunning: 7, fleet.PhaseStopped: 1}, 7, 1)
	n.lastFullCount = n.lastFullCount.Add(-fullCountInterval)
	look("after an hour", 1, map[fleet.Phase]int{fleet.PhaseRunning: 5, fleet.PhaseStopped: 1}, 5, 1)
	if log.Len() > 0 {
		t.Errorf("VMs with a pending wake-up are suspect: %s", &log)
	}
	x.execAndWake(`SELECT 1`, "vm:vm4") // the wake-up was only late
	look("a moment later", 1, map[fleet.Phase]int{fleet.PhaseRunning: 5, fleet.PhaseStopped: 1}, 5, 1)
	if got := log.String(); !strings.Contains(got, "vms=1 one=vm5") {
		t.Errorf("log: %q", got)
	}
	x.execAndWake(`DELETE FROM vms WHERE id = 'vm6'`)
	x.hub.WakeAll() // as after a lost connection
	look("after wake-ups were lost", 1, map[fleet.Phase]int{fleet.PhaseRunning: 4, fleet.PhaseStopped: 1}, 4, 1)
	n.lastFullCount = n.lastFullCount.Add(-fullCountInterval)
	look("after an hour without lost wake-ups", 1, map[fleet.Phase]int{fleet.PhaseRunning: 4, fleet.PhaseStopped: 1}, 4, 1)
	look("a moment later", 1, map[fleet.Phase]int{fleet.PhaseRunning: 4, fleet.PhaseStopped: 1}, 4, 1)
	if got := log.String(); strings.Count(got, "\n") != 1 {
		t.Errorf("log: %q", got)
	}
}

// Changes, counts of changed resources and full counts run concurrently; the final counts must be correct.
func TestPartialAndFullVMCountsAgree(t *testing.T) {
	t.Parallel()
	x := testNotifier{t, testkit.DB(t), notify.NewHub()}
	x.execAndWake(`INSERT INTO projects (id, name) VALUES ('p', 'p')`)
	x.execAndWake(`INSERT INTO hosts (id, name) SELECT 'h' || n, 'h' || n FROM generate_series(0, 3) n`)
	x.execAndWake(`INSERT INTO host_sessions (host_id, seen_at) SELECT id, now() FROM hosts`)
	testkit.KeepOnline(t, x.pool)
	x.execAndWake(`INSERT INTO vms (id, project_id, host_id, name, spec, status, observed_generation)
		SELECT 'vm' || n, 'p', 'h' || n % 4, 'vm' || n, '{"power":"running","cpus":1,"memoryMiB":512}', '{"power":"running","cpus":1,"memoryMiB":512}', 1 FROM generate_series(1, 400) n`)
	c := control.New(x.pool, control.Options{Hub: x.hub})
	n := newVMCounter(c, x.hub, slog.New(slog.DiscardHandler))
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 60 {
				id := 1 + (w*97+i*7)%400
				sql := []string{
					`UPDATE vms SET status = jsonb_set(status, '{power}', '"stopped"'), spec = jsonb_set(spec, '{power}', '"stopped"') WHERE id = 'vm%d'`,
					`UPDATE vms SET host_id = 'h0' WHERE id = 'vm%d'`, `DELETE FROM vms WHERE id = 'vm%d'`,
				}[i%3]
				x.execAndWake(fmt.Sprintf(sql, id), fmt.Sprintf("vm:vm%d", id))
			}
		})
	}
	for i := range 40 {
		n.countAll = i%10 == 9
		if err := n.countChanges(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	if err := n.countChanges(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if other, err := c.RefreshCounters(t.Context(), fleet.SystemActor); err != nil || len(other) > 0 {
		t.Errorf("wrong counts: %v, %v", other, err)
	}
}
