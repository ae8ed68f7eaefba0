package control_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"quantix/internal/event"
	"quantix/internal/fleet"
)

// eventReader reads the log from its position.
type eventReader struct {
	*projectFixture
	actor fleet.Actor
	at    event.ID
}

// newEventReader returns a reader at the end of the log.
func (s *projectFixture) newEventReader(a fleet.Actor) *eventReader {
	s.t.Helper()
	r := &eventReader{projectFixture: s, actor: a}
	s.settleEvents()
	b, err := s.ReadEvents(s.t.Context(), a, event.Query{})
	if err != nil || b.Next == "" {
		s.t.Fatalf("position %q, error %v", b.Next, err)
	}
	r.at = b.Next
	return r
}

// settleEvents waits until all written events are readable. Transactions of other tests delay them.
func (s *projectFixture) settleEvents() {
	s.t.Helper()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		b, err := s.ReadEvents(s.t.Context(), fleet.SystemActor, event.Query{})
		if err != nil {
			s.t.Fatal(err)
		}
		if !b.Pending {
			return
		}
		if time.Now().After(until) {
			s.t.Fatal("events stay pending")
		}
	}
}

// read returns the next events of some types, of all if there are none, as "type action name state".
func (r *eventReader) read(types ...fleet.ResourceType) (out []string) {
	r.t.Helper()
	r.settleEvents()
	for more := true; more; {
		b, err := r.ReadEvents(r.t.Context(), r.actor, event.Query{After: r.at, Types: types, Limit: 3})
		if err != nil || !b.Known {
			r.t.Fatalf("known %t, error %v", b.Known, err)
		}
		for _, e := range b.Events {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Type, e.Action, e.Name, e.State)))
		}
		r.at, more = b.Next, b.More
	}
	return out
}

func (r *eventReader) want(when string, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.read()); diff != "" {
		r.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// A transaction that began earlier and commits later must not be skipped by readers.
func TestEventsWaitForOlderTransactions(t *testing.T) {
	s := newProjectFixture(t)
	r := s.newEventReader(fleet.SystemActor)
	begin := func(name string) pgx.Tx {
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `INSERT INTO projects (id, name) VALUES ($1, $2)`, fleet.NewID[fleet.ProjectID](), name); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	first, second := begin("first"), begin("second")
	if err := second.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := s.ReadEvents(t.Context(), fleet.SystemActor, event.Query{After: r.at})
	if err != nil || len(b.Events) > 0 || !b.Pending {
		t.Errorf("while the older transaction is open: %+v (%v)", b, err)
	}
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.want("after both transactions", "project created first", "project created second")
}

func TestEventsOfConcurrentTransactionsAreReadOnce(t *testing.T) {
	s := newProjectFixture(t)
	r := s.newEventReader(fleet.SystemActor)
	const writers, each = 6, 60
	var work sync.WaitGroup
	failed := make(chan error, writers)
	for w := range writers {
		work.Go(func() {
			for n := range each {
				err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), `INSERT INTO clusters (id, name) VALUES ($1, $1)`, fmt.Sprintf("w%d-%03d", w, n)); err != nil {
						return err
					}
					time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond) // transactions end in another order than they began
					if n%7 == 3 {
						return errRolledBack
					}
					return nil
				})
				if err != nil && !errors.Is(err, errRolledBack) {
					failed <- err
					return
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { work.Wait(); close(ended) }()
	var got []string
	for done := false; !done; {
		select {
		case <-ended:
			done = true
			s.settleEvents()
		case err := <-failed:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
		for more := true; more; {
			b, err := s.ReadEvents(t.Context(), fleet.SystemActor, event.Query{After: r.at, Types: []fleet.ResourceType{fleet.TypeCluster}, Limit: 10})
			if err != nil || !b.Known {
				t.Fatalf("known %t, error %v", b.Known, err)
			}
			for _, e := range b.Events {
				got = append(got, e.Name)
			}
			r.at, more = b.Next, b.More
		}
	}
	var want []string
	for w := range writers {
		var mine []string
		for n := range each {
			if n%7 != 3 {
				mine = append(mine, fmt.Sprintf("w%d-%03d", w, n))
			}
		}
		want = append(want, mine...)
		if of := slices.DeleteFunc(slices.Clone(got), func(name string) bool { return name[:2] != mine[0][:2] }); !slices.Equal(of, mine) {
			t.Errorf("writer %d: events %q", w, of)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

var errRolledBack = errors.New("rolled back")

func TestEventsDescribeChanges(t *testing.T) {
	s := newProjectFixture(t)
	vm := s.createVM("web", fleet.Stopped)
	s.reportPower(vm.ID, fleet.Stopped)
	r := s.newEventReader(fleet.SystemActor)
	for _, step := range []struct {
		sql  string
		args []any
		want []string
	}{
		{`UPDATE vms SET description = 'new' WHERE id = $1`, []any{vm.ID}, []string{"vm changed web"}},
		{`UPDATE vms SET description = 'new', report_seq = report_seq + 1 WHERE id = $1`, []any{vm.ID}, nil},
		{`UPDATE vms SET status = status || '{"disks": [{"target": "vda", "path": "/a", "sizeBytes": 10, "allocBytes": 1}]}' WHERE id = $1`, []any{vm.ID}, []string{"vm changed web"}},
		{`UPDATE vms SET status = status || '{"balloonMiB": 5, "disks": [{"target": "vda", "path": "/a", "sizeBytes": 10, "allocBytes": 2}]}' WHERE id = $1`, []any{vm.ID}, nil},
		{`UPDATE vms SET status = status || '{"disks": [{"target": "vdb", "path": "/a", "sizeBytes": 10, "allocBytes": 2}]}' WHERE id = $1`, []any{vm.ID}, []string{"vm changed web"}},
		{`UPDATE host_sessions SET seen_at = now(), load = '{"cpuPercent": 5}'`, nil, nil},
		{`UPDATE hosts SET spec = spec || '{"schedulable": false}' WHERE id = $1`, []any{s.h1}, []string{"host changed h1"}},
		{`UPDATE assignments SET status = status || '{"usedBytes": 77}' WHERE pool_id = $1 AND host_id = $2`, []any{s.nfs, s.h1}, nil},
		{`UPDATE assignments SET status = status || '{"state": "inactive"}' WHERE pool_id = $1 AND host_id = $2`, []any{s.nfs, s.h1}, []string{"pool changed nfs"}},
		{`INSERT INTO tasks (id, kind, subject, subject_name, created_by) VALUES ('t1', 'vm.start', 'vm:1', 'web', 'ann')`, nil, []string{"task created web queued"}},
		{`UPDATE tasks SET progress = 50, note = 'half' WHERE id = 't1'`, nil, nil},
		{`UPDATE tasks SET state = 'done', ended_at = now() WHERE id = 't1'`, nil, []string{"task changed web done"}},
		{`DELETE FROM tasks WHERE id = 't1'`, nil, nil},
		{`INSERT INTO alarm_rules (id, name, spec) VALUES ('r1', 'Rule', '{}')`, nil, []string{"alarm-rule created Rule"}},
		{`INSERT INTO alarms (id, rule_id, subject, subject_name, cause, severity, text, plain) VALUES ('a1', 'r1', 'host:1', 'h1', 'c', 'info', 't', 'p')`, nil, nil},
		{`UPDATE alarms SET raised_at = now() WHERE id = 'a1'`, nil, []string{"alarm created h1 open"}},
		{`UPDATE alarms SET value = 3, text = 't3' WHERE id = 'a1'`, nil, nil},
		{`UPDATE alarms SET acknowledged_at = now() WHERE id = 'a1'`, nil, []string{"alarm changed h1 acknowledged"}},
		{`UPDATE alarms SET cleared_at = now() WHERE id = 'a1'`, nil, []string{"alarm changed h1 cleared"}},
		{`INSERT INTO images (id, name, created_by) VALUES ('i1', 'debian', 'ann')`, nil, []string{"image created debian"}},
		{`INSERT INTO image_grants (image_id, granted_by) VALUES ('i1', 'ann')`, nil, []string{"image changed debian"}},
		{`DELETE FROM images WHERE id = 'i1'`, nil, []string{"image deleted debian"}},
		{`INSERT INTO networks (id, name, kind) VALUES ('n1', 'lan', 'bridge')`, nil, []string{"network created lan"}},
		{`INSERT INTO network_grants (network_id) VALUES ('n1')`, nil, []string{"network changed lan"}},
		{`DELETE FROM networks WHERE id = 'n1'`, nil, []string{"network deleted lan"}},
		{`INSERT INTO pools (id, name, spec) VALUES ('p1', 'fast', '{"kind":"dir","path":"/a"}')`, nil, []string{"pool created fast"}},
		{`INSERT INTO pool_grants (pool_id, granted_by) VALUES ('p1', 'ann')`, nil, []string{"pool changed fast"}},
		{`DELETE FROM pool_grants WHERE pool_id = 'p1'`, nil, []string{"pool changed fast"}},
		{`INSERT INTO pool_grants (pool_id, granted_by) VALUES ('p1', 'ann')`, nil, []string{"pool changed fast"}},
		{`DELETE FROM pools WHERE id = 'p1'`, nil, []string{"pool deleted fast"}},
		{`INSERT INTO clusters (id, name) VALUES ('c1', 'rack')`, nil, []string{"cluster created rack"}},
		{`UPDATE clusters SET name = 'rack 1' WHERE id = 'c1'`, nil, []string{"cluster changed rack 1"}},
		{`DELETE FROM clusters WHERE id = 'c1'`, nil, []string{"cluster deleted rack 1"}},
		{`INSERT INTO users (id, name, role, password_hash) VALUES ('u1', 'ann', 'viewer', '')`, nil, []string{"user created ann"}},
		{`UPDATE users SET last_seen_at = now() WHERE id = 'u1'`, nil, nil},
		{`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, 'f1', 'old', '{}')`, []any{s.h1}, []string{"found created old"}},
		{`DELETE FROM vms WHERE id = $1`, []any{vm.ID}, []string{"vm deleted web"}},
	} {
		s.execSQL(step.sql, step.args...)
		r.want(step.sql, step.want...)
	}
}

func TestHostLivenessIsLoggedOnce(t *testing.T) {
	s := newProjectFixture(t)
	pass := func() {
		t.Helper()
		if err := s.LogHostLiveness(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	r := s.newEventReader(fleet.SystemActor)
	pass()
	r.want("without a change")
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour' WHERE host_id = $1`, s.h1)
	pass()
	pass()
	r.want("offline", "host changed h1")
	s.execSQL(`UPDATE host_sessions SET seen_at = now() WHERE host_id = $1`, s.h1)
	pass()
	r.want("online", "host changed h1")
}

func TestTenantReadsEventsOfOwnProjectOnly(t *testing.T) {
	s := newProjectFixture(t)
	shop, bank := s.createProject("shop"), s.createProject("bank")
	ann := s.addProjectMember("ann", shop, fleet.RoleMember)
	r := s.newEventReader(ann)
	insertVM := func(id string, project fleet.ProjectID) {
		s.execSQL(`INSERT INTO vms (id, project_id, host_id, heard, attention, name, spec) VALUES ($1, $2, $3, '', false, $1, '{"cpus": 1, "memoryMiB": 1}')`, id, project, s.h1)
	}
	insertTask := func(id string, project *fleet.ProjectID, user fleet.UserID) {
		s.execSQL(`INSERT INTO tasks (id, kind, subject, subject_name, project_id, created_by, user_id) VALUES ($1, 'vm.start', 'task:' || $1::text, $1, $2, 'x', $3)`, id, project, user)
	}
	for _, p := range []fleet.ProjectID{shop, bank} {
		name := map[fleet.ProjectID]string{shop: "shop-", bank: "bank-"}[p]
		insertVM(name+"vm", p)
		insertTask(name+"task", &p, "mia")
		s.execSQL(`INSERT INTO alarm_rules (id, name, spec) VALUES ($1, $1, '{}')`, name+"rule")
		s.execSQL(`INSERT INTO alarms (id, rule_id, subject, subject_name, project_id, cause, severity, text, plain, raised_at) VALUES ($1, $2, 'vm:1', $1, $3, 'c', 'info', 't', 'p', now())`, name+"alarm", name+"rule", p)
		s.execSQL(`INSERT INTO security_groups (id, project_id, name, spec) VALUES ($1, $2, $1, '{}')`, name+"group", p)
		s.execSQL(`DELETE FROM vms WHERE id = $1`, name+"vm")
	}
	insertTask("many of ann", nil, ann.UserID)
	insertTask("many of mia", nil, "mia")
	s.execSQL(`INSERT INTO alarms (id, rule_id, subject, subject_name, cause, severity, text, plain, raised_at) VALUES ('a', 'shop-rule', 'host:1', 'h1', 'c', 'info', 't', 'p', now())`)
	s.execSQL(`UPDATE hosts SET spec = spec || '{"schedulable": false}' WHERE id = $1`, s.h1)
	s.execSQL(`INSERT INTO security_groups (id, name, spec) VALUES ('all', 'all', '{}')`)
	s.execSQL(`UPDATE pools SET name = 'nfs2' WHERE id = $1`, s.nfs)
	s.execSQL(`INSERT INTO images (id, name, project_id, created_by) VALUES ('i1', 'hidden', $1, 'x'), ('i2', 'published', $1, 'x')`, bank)
	s.execSQL(`INSERT INTO image_grants (image_id, project_id, granted_by) VALUES ('i2', $1, 'x'), ('i1', $2, 'x')`, shop, bank)
	s.execSQL(`DELETE FROM images WHERE id = 'i1'`)
	r.want("as a member of shop", "vm created shop-vm", "task created shop-task queued", "alarm created shop-alarm open", "secgroup created shop-group", "vm deleted shop-vm",
		"task created many of ann queued", "secgroup created all", "pool changed nfs2", "image created published", "image changed published")

	s.execSQL(`DELETE FROM images WHERE id = 'i2'`)
	r.want("deletion of a published image", "image deleted published")
	s.execSQL(`DELETE FROM flavors WHERE id = ANY ($1)`, []string{string(s.flavor("of-shop", 1, 256, 0, shop)), string(s.flavor("of-bank", 1, 256, 0, bank))})
	r.want("deletion of a published flavor", "flavor deleted of-shop")
	if _, err := s.ReadEvents(t.Context(), ann, event.Query{Types: []fleet.ResourceType{fleet.TypeHost}}); fleet.CodeOf(err) != fleet.Forbidden {
		t.Errorf("events of hosts: %v", err)
	}
	if _, err := s.ReadEvents(t.Context(), ann, event.Query{Project: bank}); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("events of another project: %v", err)
	}
	insertVM("late", shop)
	ann.Projects = map[fleet.ProjectID]fleet.Role{bank: fleet.RoleViewer} // moved to another project before the read
	r.actor = ann
	r.want("after leaving the project")
}

func TestEventFilters(t *testing.T) {
	s := newProjectFixture(t)
	shop := s.createProject("shop")
	r := s.newEventReader(fleet.SystemActor)
	s.execSQL(`INSERT INTO tasks (id, kind, subject, subject_name, project_id, created_by) VALUES ('t1', 'vm.start', 'vm:1', 'one', $1, 'x'), ('t2', 'vm.start', 'vm:2', 'two', NULL, 'x')`, shop)
	s.execSQL(`INSERT INTO clusters (id, name) VALUES ('c1', 'rack')`)
	start := r.at
	if got := r.read(fleet.TypeTask); !slices.Equal(got, []string{"task created one queued", "task created two queued"}) {
		t.Errorf("tasks: %q", got)
	}
	r.at = start
	if got := r.read(fleet.TypeVM, fleet.TypeCluster); !slices.Equal(got, []string{"cluster created rack"}) {
		t.Errorf("VMs and clusters: %q", got)
	}
	b, err := s.ReadEvents(t.Context(), fleet.SystemActor, event.Query{After: start, Project: shop})
	if err != nil || len(b.Events) != 1 || b.Events[0].Name != "one" || b.Events[0].ProjectID != shop {
		t.Errorf("of the project: %+v (%v)", b, err)
	}
	var checks fleet.Checks
	types := event.ParseTypes(&checks, "type", []string{"network", "vm", "teapot"})
	if !slices.Equal(types, []fleet.ResourceType{fleet.TypeNetwork, fleet.TypeVM}) || checks.Err() == nil {
		t.Errorf("types %q, %v", types, checks.Err())
	}
}

func TestOldEventsAreDeletedAndTheirIDsUnknown(t *testing.T) {
	s := newProjectFixture(t)
	old := s.newEventReader(fleet.SystemActor)
	prune := func() {
		t.Helper()
		if err := s.PruneEvents(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	known := func(id event.ID) bool {
		t.Helper()
		s.settleEvents()
		b, err := s.ReadEvents(t.Context(), fleet.SystemActor, event.Query{After: id})
		if err != nil || b.Next == "" {
			t.Fatalf("next %q, error %v", b.Next, err)
		}
		return b.Known
	}
	s.execSQL(`INSERT INTO clusters (id, name) VALUES ('c1', 'one')`)
	prune()
	if !known(old.at) || known(event.ID(fleet.NewID[string]())) || known("7") {
		t.Error("only the ID of a kept event is known")
	}
	s.execSQL(`UPDATE events SET at = now() - interval '25 hours'`)
	last := s.newEventReader(fleet.SystemActor)
	prune()
	if known(old.at) || !known(last.at) {
		t.Error("the newest event stays, and the others are deleted")
	}
	s.execSQL(`INSERT INTO clusters (id, name) VALUES ('c2', 'two')`)
	last.want("after the deletion", "cluster created two")

	s.execSQL(`UPDATE events SET transaction = (transaction::text::bigint + 1000000000)::text::xid8`) // as restored from a dump of another server
	prune()
	if known(last.at) {
		t.Error("events of another server are kept")
	}
	anew := s.newEventReader(fleet.SystemActor)
	s.execSQL(`INSERT INTO clusters (id, name) VALUES ('c3', 'three')`)
	anew.want("after a restore", "cluster created three")
}

func TestEventsAreReadByIndex(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`INSERT INTO events (type, object_id, name) SELECT 'vm', n::text, 'x' FROM generate_series(1, 20000) n`)
	r := s.newEventReader(fleet.SystemActor)
	s.execSQL(`INSERT INTO clusters (id, name) VALUES ('c1', 'one')`)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s.settleEvents()
	began := time.Now()
	for range 50 {
		if b, err := s.ReadEvents(ctx, fleet.SystemActor, event.Query{After: r.at}); err != nil || len(b.Events) != 1 {
			t.Fatalf("%+v (%v)", b, err)
		}
	}
	t.Logf("one read takes %s", time.Since(began)/50)
}

// Members of projects get events of exactly the pools, networks, images, templates and flavors that the lists show them.
func TestEventsOfGrantedObjectsFollowTheLists(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`UPDATE pool_grants SET project_id = $1 WHERE pool_id = $2`, s.blue, s.local)
	s.execSQL(`DELETE FROM pool_grants WHERE pool_id = $1`, s.addPool("unpublished", `{"kind":"dir","path":"/srv/x","shared":false}`, s.h1))
	s.execSQL(`INSERT INTO networks (id, name, kind) VALUES ('n1', 'closed', 'bridge'), ('n2', 'granted', 'bridge'), ('n3', 'public', 'bridge'), ('n4', 'gone', 'libvirt'), ('n5', 'of others', 'bridge')`)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', n, $1, '{"active":true}' FROM unnest(ARRAY['n1', 'n2', 'n3', 'n5']) n`, s.h1)
	s.execSQL(`INSERT INTO network_grants (network_id, project_id) VALUES ('n2', $1), ('n3', NULL), ('n5', $2)`, s.red, s.blue)
	s.execSQL(`INSERT INTO templates (id, project_id, name, created_by) VALUES ('t1', $1, 'own', 'x'), ('t2', $2, 'granted', 'x'), ('t3', $2, 'hidden', 'x')`, s.red, s.blue)
	s.execSQL(`INSERT INTO template_grants (template_id, project_id, granted_by) VALUES ('t1', $1, 'x'), ('t2', NULL, 'x'), ('t3', $2, 'x')`, s.red, s.blue)
	s.execSQL(`INSERT INTO images (id, name, created_by, template_id) VALUES ('i1', 'disk of a template', 'x', 't2'), ('i2', 'unpublished', 'x', NULL)`)
	s.flavor("secret", 1, 256, 0)
	s.flavor("red", 1, 256, 0, s.red)
	s.flavor("public", 1, 256, 0, "")
	for _, a := range []fleet.Actor{s.member, s.blueMember, {UserID: "vera", Name: "vera", Role: fleet.RoleViewer}} {
		r := s.newEventReader(a)
		for _, table := range []string{"pools", "networks", "templates", "images", "flavors"} {
			s.execSQL(`UPDATE ` + table + ` SET name = name || '.'`)
		}
		got := r.read()
		var want []string
		networks, err := s.ListNetworks(t.Context(), a, fleet.Query{})
		templates, err2 := s.ListTemplates(t.Context(), a, fleet.Query{})
		images, err3 := s.ListImages(t.Context(), a, fleet.Query{})
		pools, err4 := s.ListPools(t.Context(), a, fleet.Query{})
		sizes, err5 := s.ListFlavors(t.Context(), a)
		if err := errors.Join(err, err2, err3, err4, err5); err != nil {
			t.Fatal(err)
		}
		for _, v := range sizes {
			want = append(want, "flavor changed "+v.Name)
		}
		for _, v := range pools.Items {
			want = append(want, "pool changed "+v.Name)
		}
		for _, v := range networks.Items {
			want = append(want, "network changed "+v.Name)
		}
		for _, v := range templates.Items {
			want = append(want, "template changed "+v.Name)
		}
		for _, v := range images.Items {
			want = append(want, "image changed "+v.Name)
		}
		got = slices.DeleteFunc(got, func(e string) bool { return strings.HasPrefix(e, "network changed gone") }) // only its row remains, which no list shows
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", a.Name, diff)
		}
	}
}
