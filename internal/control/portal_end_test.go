package control_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// ending is a portal that ends just before a statement of its: nothing more of what it does reaches the database.
type ending struct {
	mu   sync.Mutex
	left int // statements until then
	end  context.CancelFunc
}

// after has it end before the n-th statement from now on; nil: it does not end.
func (e *ending) after(n int, end context.CancelFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left, e.end = n, end
}

// TraceQueryStart implements pgx.QueryTracer.
func (e *ending) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left--; e.left == 0 && e.end != nil {
		e.end()
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (e *ending) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// leastEndings is in how many places a portal ends, at least.
const leastEndings = 25

// A portal may end before any statement of it while a VM with two disks is cloned: each part is done as a whole or not at all, and done again by the next
// portal it comes to the same.
func TestAPortalEndsWhileAVMIsCloned(t *testing.T) {
	s := newShelf(t)
	vm := s.off("web", fleet.Disk{PoolID: s.local, SizeBytes: 1 << 20}, fleet.Disk{PoolID: s.nfs, SizeBytes: 2 << 20})
	ends := &ending{}
	settings := s.pool.Config()
	settings.ConnConfig.Tracer = ends
	settings.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	portal := control.New(pool, control.Options{})
	look := func() string {
		return one[string](&rig{t: t, pool: s.pool}, `SELECT jsonb_build_array(
			(SELECT jsonb_agg(to_jsonb(v) ORDER BY v.id) FROM vms v), (SELECT jsonb_agg(to_jsonb(x) ORDER BY x.id) FROM tasks x),
			(SELECT jsonb_agg(to_jsonb(j) - 'lease_until' ORDER BY j.id) FROM jobs j), (SELECT count(*) FROM audit), (SELECT count(*) FROM made_disks))::text`)
	}
	places := 0
	// survives has a part done, each time by a portal that ends one statement later, until one does not end.
	survives := func(what string, do func(context.Context) error) {
		t.Helper()
		before := look()
		for n := 1; ; n++ {
			ctx, cancel := context.WithCancel(t.Context())
			ends.after(n, cancel)
			err := do(ctx)
			ended := ctx.Err() != nil
			ends.after(0, nil)
			cancel()
			if err == nil {
				return
			}
			if !ended {
				t.Fatalf("%s: %v", what, err)
			}
			if places++; look() != before {
				t.Fatalf("%s, ended before statement %d: there is\n%s\nand was\n%s", what, n, look(), before)
			}
		}
	}
	var clone fleet.VMView
	survives("asked for", func(ctx context.Context) (err error) {
		clone, err = portal.CreateVM(ctx, s.member, control.CreateVM{ProjectID: s.red, Name: "web-2", From: &control.From{VMID: vm.ID}})
		return err
	})
	copies := s.work(s.h1, fleet.VolumeCopy)
	if len(copies) != 2 {
		t.Fatalf("%+v", copies)
	}
	for i, w := range copies {
		s.seq[s.h1]++
		survives("a disk is copied", func(ctx context.Context) error {
			_, _, err := portal.Finish(ctx, s.agents[s.h1], w.ID, wire.Finish{Outcome: wire.Done, Epoch: w.Epoch, Seq: s.seq[s.h1]})
			return err
		})
		s.heard()
		if made := s.work(s.h1, fleet.VMApply); i == 0 && len(made) != 0 {
			t.Fatal("it is made before its disks are whole")
		} else if i == 1 {
			if len(made) != 1 || len(made[0].Made) != 2 {
				t.Fatalf("%+v", made)
			}
			s.seq[s.h1]++
			survives("it is made", func(ctx context.Context) error {
				_, _, err := portal.Finish(ctx, s.agents[s.h1], made[0].ID, wire.Finish{
					Outcome: wire.Done, Epoch: made[0].Epoch, Seq: s.seq[s.h1], Generation: 1, VM: &fleet.VMStatus{Power: fleet.Stopped},
				})
				return err
			})
		}
	}
	tasks, err := s.ListTasks(t.Context(), chief, fleet.Query{Filter: "target:vm:" + string(clone.ID)})
	if err != nil || len(tasks.Items) != 1 || tasks.Items[0].State != fleet.JobDone {
		t.Errorf("%+v %v", tasks.Items, err)
	}
	if now := s.get(clone.ID); now.Phase != fleet.PhaseStopped || strings.Contains(look(), `"queued"`) {
		t.Errorf("in the end it is %s: %s", now.Phase, look())
	}
	if t.Logf("the portal ended in %d places", places); places < leastEndings {
		t.Errorf("it ended in %d places, fewer than %d", places, leastEndings)
	}
}
