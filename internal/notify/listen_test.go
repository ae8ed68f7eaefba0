package notify_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"quantix/internal/notify"
	"quantix/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// waitForKey waits until the subscription is woken for key.
func waitForKey(t *testing.T, s *notify.Subscription, key string) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case <-s.C:
			if slices.Contains(s.TakeKeys(), key) {
				return
			}
		case <-late:
			t.Fatalf("no wake-up for %q", key)
		}
	}
}

func TestListenerReconnectsAndResyncsAfterLostConnection(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	exec := func(sql string) int64 {
		t.Helper()
		tag, err := pool.Exec(t.Context(), sql)
		if err != nil {
			t.Fatal(err)
		}
		return tag.RowsAffected()
	}
	config := pool.Config().ConnConfig
	config.RuntimeParams["application_name"] = "listener"
	h := notify.NewHub()
	s := h.Subscribe("vm:1")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Listen(ctx, config, slog.New(slog.DiscardHandler)) }()
	waitForKey(t, s, notify.ResyncKey)
	exec(`NOTIFY quantix, 'vm:1'`)
	waitForKey(t, s, "vm:1")

	killed := exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'listener' AND datname = current_database()`)
	if killed != 1 {
		t.Fatalf("%d listeners terminated", killed)
	}
	waitForKey(t, s, notify.ResyncKey)
	exec(`NOTIFY quantix, 'vm:1'`)
	waitForKey(t, s, "vm:1")

	stop()
	if err := <-ended; err != nil {
		t.Errorf("stop failed: %v", err)
	}
}
