package reconcile

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/control/hosts"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/testkit"
)

// The wake-up of a label change must run the assignment by label long before its next periodic run.
func TestRelabelledHostGetsAssignments(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	hub := notify.NewHub()
	ctx, stop := context.WithCancel(t.Context())
	c := control.New(pool, control.Options{Hub: hub})
	chief := fleet.Actor{UserID: fleet.UserID("chief"), Name: "chief", Role: fleet.RoleAdmin}
	passed := make(chan struct{}, 100)
	ended := make(chan struct{}, 2)
	go func() { hub.Listen(ctx, pool.Config().ConnConfig, slog.New(slog.DiscardHandler)); ended <- struct{}{} }()
	go func() {
		p := labelReconciler(c)
		run := p.run
		p.period = time.Hour
		p.run = func(ctx context.Context, a fleet.Actor) error { err := run(ctx, a); passed <- struct{}{}; return err }
		_ = p.runLoop(ctx, hub, slog.New(slog.DiscardHandler))
		ended <- struct{}{}
	}()
	t.Cleanup(func() { stop(); <-ended; <-ended })
	host := fleet.NewID[fleet.HostID]()
	if _, err := pool.Exec(t.Context(), `INSERT INTO hosts (id, name) VALUES ($1, 'h1')`, host); err != nil {
		t.Fatal(err)
	}
	made, err := c.CreatePool(t.Context(), chief, storage.CreatePool{Name: "fast", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/fast"}, Selector: "rack=4"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.UpdateHost(t.Context(), chief, host, hosts.UpdateHost{Spec: fleet.HostSpec{Schedulable: true, Roles: fleet.DefaultHostSpec().Roles, Labels: map[string]string{"rack": "4"}}}); err != nil {
		t.Fatal(err)
	}
	for late := time.After(30 * time.Second); ; {
		var has bool
		if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM assignments WHERE object_id = $1 AND host_id = $2 AND asked = 'assign')`, made.ID, host).Scan(&has); err != nil {
			t.Fatal(err)
		}
		if has {
			return
		}
		select {
		case <-passed:
		case <-late:
			t.Fatal("the host has no pool")
		}
	}
}
