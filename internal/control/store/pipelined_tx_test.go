package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// pipelinedFixture is a store whose hub is not connected to PostgreSQL, so it receives only wake-ups that the store
// itself sends.
type pipelinedFixture struct {
	*store.Store
	t    *testing.T
	pool *pgxpool.Pool
	sub  *notify.Subscription
}

func newPipelinedFixture(t *testing.T, keys ...string) *pipelinedFixture {
	t.Helper()
	hub, pool := notify.NewHub(), testkit.DB(t)
	return &pipelinedFixture{Store: store.New(pool, hub), t: t, pool: pool, sub: hub.Subscribe(keys...)}
}

// receivedWakeUps returns the wake-up keys received so far.
func (q *pipelinedFixture) receivedWakeUps() []string {
	select {
	case <-q.sub.C:
		return q.sub.TakeKeys()
	default:
		return nil
	}
}

func (q *pipelinedFixture) countTasks() (n int) {
	q.t.Helper()
	if err := q.pool.QueryRow(q.t.Context(), `SELECT count(*) FROM tasks`).Scan(&n); err != nil {
		q.t.Fatal(err)
	}
	return n
}

// addTask adds a task, which sends a wake-up.
func addTask(ctx context.Context, q *db.Queries) (fleet.TaskID, error) {
	id := fleet.NewID[fleet.TaskID]()
	_, err := q.NoteDone(ctx, db.NoteDoneParams{ID: id, Kind: fleet.VMApply, Subject: "vm:1", SubjectName: "web", CreatedBy: "somebody"})
	return id, err
}

func TestPipelinedTransactionSendsWakeUpsAfterCommit(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]bool{"with Last": true, "without Last": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newPipelinedFixture(t, "tasks", "vm:1")
			err := q.RunPipelinedTx(t.Context(), 0, func(tx store.PipelinedTx) error {
				if _, err := addTask(t.Context(), tx.Queries); err != nil {
					return err
				}
				if wakeUps, seen := q.receivedWakeUps(), q.countTasks(); wakeUps != nil || seen != 0 {
					t.Errorf("before the commit: wake-ups %q and %d tasks", wakeUps, seen)
				}
				if last {
					_, err := addTask(t.Context(), tx.QueriesWithCommit())
					return err
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			want := 1
			if last {
				want = 2
			}
			if got := q.countTasks(); got != want {
				t.Errorf("%d tasks, want %d", got, want)
			}
			if got, want := q.receivedWakeUps(), []string{"tasks", "vm:1"}; !slices.Equal(got, want) {
				t.Errorf("wake-ups %q, want %q", got, want)
			}
		})
	}
}

func TestPipelinedTransactionSendsWakeUpsOfDeferredTriggers(t *testing.T) {
	t.Parallel()
	parent, child := fleet.NewID[fleet.TaskID](), fleet.NewID[fleet.TaskID]()
	project := fleet.NewID[fleet.ProjectID]() // only the parent belongs to the project, so no other task wakes its key
	q := newPipelinedFixture(t, "tasks:"+string(project))
	if _, err := q.pool.Exec(t.Context(), `INSERT INTO projects (id, name) VALUES ($1, 'lab')`, project); err != nil {
		t.Fatal(err)
	}
	steps := db.AddStepsParams{
		ID: &parent, ProjectID: &project, Kind: string(fleet.VMStart), CreatedBy: "somebody", Name: "1 VM",
		Ids: []string{string(child)}, Subjects: []string{""}, Names: []string{"web"}, Projects: []string{""}, Errors: []string{""},
	}
	if err := q.AddSteps(t.Context(), steps); err != nil {
		t.Fatal(err)
	}
	err := q.RunPipelinedTx(t.Context(), 0, func(tx store.PipelinedTx) error {
		return tx.QueriesWithCommit().RefuseTask(t.Context(), db.RefuseTaskParams{ID: child, Error: "no"})
	})
	if err != nil {
		t.Fatal(err)
	}
	now, err := q.GetTask(t.Context(), db.GetTaskParams{ID: parent, AllProjects: true})
	if err != nil || now.Task.State != fleet.JobFailed {
		t.Errorf("the parent is %q (%v)", now.Task.State, err)
	}
	if got := q.receivedWakeUps(); got == nil {
		t.Error("no wake-up for the parent")
	}
}

func TestFailedPipelinedTransactionRollsBack(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, fail := range map[string]func(ctx context.Context, tx store.PipelinedTx) error{
		"error of the caller": func(ctx context.Context, tx store.PipelinedTx) error {
			_, err := addTask(ctx, tx.Queries)
			return errors.Join(err, no)
		},
		"failing statement": func(ctx context.Context, tx store.PipelinedTx) error {
			id, err := addTask(ctx, tx.Queries)
			if err != nil {
				return err
			}
			_, err = tx.NoteDone(ctx, db.NoteDoneParams{ID: id})
			return err
		},
		"failing last statement": func(ctx context.Context, tx store.PipelinedTx) error {
			id, err := addTask(ctx, tx.Queries)
			if err != nil {
				return err
			}
			_, err = tx.QueriesWithCommit().NoteDone(ctx, db.NoteDoneParams{ID: id})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newPipelinedFixture(t, "tasks")
			if err := q.RunPipelinedTx(t.Context(), 0, func(tx store.PipelinedTx) error { return fail(t.Context(), tx) }); err == nil {
				t.Error("it did not fail")
			}
			if wakeUps, seen := q.receivedWakeUps(), q.countTasks(); wakeUps != nil || seen != 0 {
				t.Errorf("wake-ups %q and %d tasks after the failure", wakeUps, seen)
			}
			if idle := q.pool.Stat(); idle.TotalConns() != idle.IdleConns() || idle.TotalConns() == 0 {
				t.Errorf("%d connections, %d idle", idle.TotalConns(), idle.IdleConns())
			}
			if err := q.RunPipelinedTx(t.Context(), 0, func(tx store.PipelinedTx) error { _, err := addTask(t.Context(), tx.QueriesWithCommit()); return err }); err != nil || q.countTasks() != 1 {
				t.Errorf("next transaction: %v", err)
			}
		})
	}
}

func TestStatementAfterCommitIsRefused(t *testing.T) {
	t.Parallel()
	q := newPipelinedFixture(t)
	err := q.RunPipelinedTx(t.Context(), 0, func(tx store.PipelinedTx) error {
		if _, err := addTask(t.Context(), tx.QueriesWithCommit()); err != nil {
			return err
		}
		_, err := addTask(t.Context(), tx.Queries)
		return err
	})
	if err == nil || q.countTasks() != 1 {
		t.Errorf("got error %v and %d tasks", err, q.countTasks())
	}
}

func TestPipelinedTransactionIsRetriedAfterDeadlock(t *testing.T) {
	t.Parallel()
	q := newPipelinedFixture(t, "tasks")
	tries := 0
	err := q.RunPipelinedTx(t.Context(), 0, func(tx store.PipelinedTx) error {
		tries++
		if _, err := addTask(t.Context(), tx.Queries); err != nil {
			return err
		}
		if tries == 1 {
			return q.deadlockError()
		}
		return nil
	})
	if err != nil || tries != 2 || q.countTasks() != 1 {
		t.Errorf("got error %v after %d tries, %d tasks", err, tries, q.countTasks())
	}
}

// deadlockError returns PostgreSQL's deadlock error.
func (q *pipelinedFixture) deadlockError() error {
	_, err := q.pool.Exec(q.t.Context(), `DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$`)
	return err
}

// Statements of DeferredQueries are sent with the next other statement or with the commit. If one of them fails, the
// transaction fails.
func TestDeferredStatementsAreSentWithNextStatement(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ fails, last bool }{
		"before Last":               {last: true},
		"before the commit":         {},
		"failing before Last":       {fails: true, last: true},
		"failing before the commit": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newPipelinedFixture(t)
			if _, err := q.pool.Exec(t.Context(), `INSERT INTO hosts (id, name) VALUES ('h', 'h')`); err != nil {
				t.Fatal(err)
			}
			testkit.TaskWithJob{Host: "h", Kind: fleet.VMApply, Subject: "vm:1"}.Add(t, q.pool)
			err := q.RunPipelinedTx(t.Context(), 0, func(tx store.PipelinedTx) error {
				pipelined := tx.DeferredQueries()
				if err := pipelined.CancelWaitingOf(t.Context(), db.CancelWaitingOfParams{Subject: "vm:1", Kinds: []string{string(fleet.VMApply)}}); err != nil {
					return err
				}
				if c.fails {
					if err := pipelined.SettleVMs(t.Context(), db.SettleVMsParams{Statuses: []string{"no JSON"}}); err != nil {
						return err
					}
				}
				if _, err := addTask(t.Context(), pipelined); err == nil {
					t.Error("a statement with a result was accepted")
				}
				if !c.last {
					return nil
				}
				_, err := addTask(t.Context(), tx.QueriesWithCommit())
				return err
			})
			if (err != nil) != c.fails {
				t.Errorf("unexpected result: %v", err)
			}
			var waiting bool
			if err := q.pool.QueryRow(t.Context(), `SELECT state = 'queued' FROM jobs`).Scan(&waiting); err != nil || waiting != c.fails {
				t.Errorf("job still queued: %v, %v", waiting, err)
			}
		})
	}
}

// After the warm-up of a new connection, the statements of claims and results are prepared. The warm-up changes nothing
// and sends no wake-up. On a database without tables it returns no error.
func TestWarmUpPreparesStatementsOfNewConnection(t *testing.T) {
	t.Parallel()
	q := newPipelinedFixture(t, "tasks", "jobs")
	pool, err := db.OpenWithSetup(t.Context(), q.pool.Config().ConnString(), 8, store.WarmUpConnection)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var parsed []string
	rows, err := pool.Query(t.Context(), `SELECT substring(statement FROM 'name: (\w+)') FROM pg_prepared_statements WHERE statement LIKE '-- name: %'`)
	if err == nil {
		parsed, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"CheckForWork", "ClaimJobs", "LockResults", "SettleVMs", "SettleAssignments", "EndJobs"} {
		if !slices.Contains(parsed, name) {
			t.Errorf("%s is not prepared: %q", name, parsed)
		}
	}
	if woken := q.receivedWakeUps(); woken != nil {
		t.Errorf("unexpected wake-ups %q", woken)
	}
	empty := testkit.EmptyDatabaseURL(t)
	none, err := db.OpenWithSetup(t.Context(), empty, 8, store.WarmUpConnection)
	if err != nil {
		t.Fatalf("a database without tables: %v", err)
	}
	none.Close()
}
