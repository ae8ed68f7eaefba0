package reconcile

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/delivery"
	"quantix/internal/notify"
	"quantix/internal/testkit"
)

// A claimed message that waited for a slot would be sent twice, because its lease would end meanwhile.
func TestOnlyMessagesThatAreSentNowAreClaimed(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer hanging.Close()
	defer close(release)
	for _, sql := range []string{
		`INSERT INTO channels (id, name, spec, target, signed) SELECT 'c' || i, 'c' || i, jsonb_build_object('kind', 'webhook', 'url', '` + hanging.URL + `'), '', false FROM generate_series(1, 300) i`,
		`INSERT INTO deliveries (id, channel_id, message, summary, events, due_at) SELECT 'd' || i, 'c' || i, '{"test":true}', '', 0, now() FROM generate_series(1, 300) i`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	hub := notify.NewHub()
	c := control.New(pool, control.Options{Hub: hub, Sender: delivery.New(delivery.Settings{NotifyTo: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runDeliveries(ctx, c, hub, slog.New(slog.DiscardHandler)) }()
	defer func() { stop(); <-ended }()
	leased := 0
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		hub.Wake("channels")
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM deliveries WHERE leased_until IS NOT NULL`).Scan(&leased); err != nil {
			t.Fatal(err)
		}
		if leased > maxDeliveries {
			t.Fatalf("%d messages are claimed, %d can be sent at the same time", leased, maxDeliveries)
		}
	}
	if leased < maxDeliveries/2 {
		t.Errorf("%d messages are claimed", leased)
	}
}
