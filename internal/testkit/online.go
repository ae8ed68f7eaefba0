package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Without agents, hosts send no heartbeats. These intervals are much shorter than fleet.Freshness, so that hosts do not
// become offline on a busy machine.
const (
	onlineTick = 2 * time.Second
	onlineSQL  = `UPDATE host_sessions SET seen_at = now(),
		last_look = CASE WHEN last_look > now() - fresh_for THEN now() ELSE last_look END
	WHERE host_id = ANY (ARRAY(SELECT host_id FROM host_sessions
		WHERE seen_at > now() - fresh_for AND seen_at < now() - fresh_for / 3
			OR seen_at > now() - fresh_for AND last_look > now() - fresh_for AND last_look < now() - fresh_for / 3
		FOR UPDATE SKIP LOCKED))`
)

// KeepOnline refreshes the last-seen time of every host that is online, until the test ends. A host that the test made
// offline stays offline. It writes nothing in the first report interval and fires no triggers.
func KeepOnline(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	conf := pool.Config().ConnConfig
	conf.Tracer = nil // tests that count statements must not count these statements
	conf.RuntimeParams["session_replication_role"] = "replica"
	conn, err := pgx.ConnectConfig(t.Context(), conf)
	if err != nil {
		t.Fatalf("keep hosts online: %v", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-done
	})
	go func() {
		defer close(done)
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		tick := time.NewTicker(onlineTick)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := conn.Exec(ctx, onlineSQL); err != nil && ctx.Err() == nil {
				t.Errorf("keep hosts online: %v", err)
				return
			}
		}
	}()
}
