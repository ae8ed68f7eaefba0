package reconcile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestHostLivenessChangesNotifyPages(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	testkit.KeepOnline(t, pool)
	quiet, well := fleet.NewID[fleet.HostID](), fleet.NewID[fleet.HostID]()
	for _, id := range []fleet.HostID{quiet, well} {
		exec(`INSERT INTO hosts (id, name) VALUES ($1::text, $1::text)`, id)
		exec(`INSERT INTO host_sessions (host_id, seen_at) VALUES ($1, now())`, id)
	}
	exec(`INSERT INTO projects (id, name) VALUES ('p', 'p')`)
	exec(`INSERT INTO vms (id, project_id, host_id, name, spec) SELECT 'of-' || id, 'p', id, 'of-' || id, '{"cpus":1,"memoryMiB":128}' FROM hosts`)
	hub := notify.NewHub()
	pages := hub.Subscribe("host:*", "vm:*")
	live := livenessReconciler{control: control.New(pool, control.Options{Hub: hub}), hub: hub}
	look := func(when string, want ...string) {
		t.Helper()
		if err := live.compareLiveness(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
		got := pages.TakeKeys()
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	look("first run")
	look("without a change")
	exec(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, quiet)
	look("after a host went offline", "host:"+string(quiet), "vm:of-"+string(quiet))
	look("while the host is offline")
	exec(`UPDATE host_sessions SET seen_at = now() WHERE host_id = $1`, quiet)
	look("after the host came online", "host:"+string(quiet), "vm:of-"+string(quiet))
	exec(`UPDATE host_sessions SET last_look = now() - interval '31 seconds' WHERE host_id = $1`, quiet)
	look("after the online host's inventory became stale", "host:"+string(quiet), "vm:of-"+string(quiet))
	exec(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, quiet)
	look("after the stale host went offline", "host:"+string(quiet))
}

func TestFailedPassLoggedOnceAndRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var log bytes.Buffer
		runs, began := 0, time.Now()
		p := reconciler{"count sheep", time.Minute, nil, func(_ context.Context, a fleet.Actor) error {
			if runs++; runs == 5 {
				stop()
			}
			if !a.System {
				t.Error("the pass does not run as the system actor")
			}
			if runs == 3 {
				return nil
			}
			return errors.New("no sheep")
		}}
		if err := p.runLoop(ctx, notify.NewHub(), slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Errorf("stop failed: %v", err)
		}
		if runs != 5 || time.Since(began) != 4*time.Minute {
			t.Errorf("%d runs in %v", runs, time.Since(began))
		}
		if lines := strings.Count(log.String(), "no sheep"); lines != 2 {
			t.Errorf("%d log lines for two failures:\n%s", lines, log.String())
		}
	})
}

func TestRateLimitedPassKeepsMinimumInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs, began := 0, time.Now()
		run := withMinInterval(time.Second, func(context.Context, fleet.Actor) error { runs++; return nil })
		for range 3 {
			if err := run(t.Context(), fleet.SystemActor); err != nil {
				t.Error(err)
			}
		}
		if runs != 3 || time.Since(began) != 2*time.Second {
			t.Errorf("%d runs in %v", runs, time.Since(began))
		}
		ended, stop := context.WithCancel(t.Context())
		stop()
		if err := run(ended, fleet.SystemActor); err == nil || runs != 3 {
			t.Errorf("runs after the end: %v", err)
		}
	})
}
