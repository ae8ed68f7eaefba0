package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/notify"
	"quantix/internal/testkit"
)

// startListening returns another portal's hub and a subscription of it, after the hub has begun to listen.
func startListening(t *testing.T, pool *pgxpool.Pool, keys ...string) (*notify.Hub, *notify.Subscription) {
	t.Helper()
	h := notify.NewHub()
	s := h.Subscribe(append(keys, "last")...)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Listen(ctx, pool.Config().ConnConfig, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() { stop(); <-ended })
	waitForKey(t, s, notify.ResyncKey)
	h.Wake("") // sent only after all subscriptions have their first Resync
	takeSorted(s)
	return h, s
}

// receiveUntil collects the keys of wake-ups until key arrives.
func receiveUntil(t *testing.T, s *notify.Subscription, key string) (keys []string) {
	t.Helper()
	late := time.After(20 * time.Second)
	for !slices.Contains(keys, key) {
		select {
		case <-s.C:
			keys = append(keys, s.TakeKeys()...)
		case <-late:
			t.Fatalf("no wake-up for %q", key)
		}
	}
	return keys
}

func TestNotifyWakesOwnHubAtOnceAndOtherHubsOnce(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	own, ownSub := startListening(t, pool, "vm:1", "host:*")
	_, others := startListening(t, pool, "vm:1", "host:*")
	other := notify.NewNotifier(own, pool)
	other.Notify("vm:1", "host:2")
	if got, want := takeSorted(ownSub), []string{"host:2", "vm:1"}; !slices.Equal(got, want) {
		t.Errorf("own hub received %q at once, want %q", got, want)
	}
	receiveUntil(t, others, "host:2")
	other.Notify("last")
	receiveUntil(t, others, "last") // after "last" both hubs have received all earlier keys
	if _, err := pool.Exec(t.Context(), `NOTIFY quantix, 'vm:1'`); err != nil {
		t.Fatal(err)
	}
	if got, want := receiveUntil(t, ownSub, "vm:1"), []string{"last", "vm:1"}; !slices.Equal(got, want) {
		t.Errorf("own hub received %q, want %q: the portal's own keys must not come back", got, want)
	}
}

func TestNotifySplitsLargeKeySets(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	_, others := startListening(t, pool, "host:*")
	want := make([]string, 200) // fewer than a subscription's limit, larger than one NOTIFY
	for i := range want {
		want[i] = fmt.Sprintf("host:%0100d", i)
	}
	other := notify.NewNotifier(notify.NewHub(), pool)
	other.Notify(want...)
	var got []string
	late := time.After(20 * time.Second)
	for len(got) < len(want) {
		select {
		case <-others.C:
			got = append(got, others.TakeKeys()...)
		case <-late:
			t.Fatalf("%d keys of %d received", len(got), len(want))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("received %d keys that were not sent", len(got))
	}
}

func TestFailedNotifyResyncsOtherHubs(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	_, others := startListening(t, pool, "vm:1")
	config := pool.Config()
	refused := errors.New("refused")
	var refuses atomic.Bool
	asked := make(chan struct{}, 8)
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		if !refuses.Load() {
			return nil
		}
		asked <- struct{}{}
		return refused
	}
	refuses.Store(true)
	failingPool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(failingPool.Close)
	other := notify.NewNotifier(notify.NewHub(), failingPool)
	other.Notify("vm:1")
	<-asked
	refuses.Store(false)
	late := time.After(20 * time.Second)
	for {
		other.Notify("host:9") // the next notification
		select {
		case <-others.C:
			if got := others.TakeKeys(); slices.Contains(got, notify.ResyncKey) {
				return
			}
		case <-asked:
		case <-time.After(20 * time.Millisecond):
		case <-late:
			t.Fatal("other hubs got no resync")
		}
	}
}
