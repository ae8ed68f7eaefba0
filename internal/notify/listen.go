package notify

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// PostgresChannel is the PostgreSQL channel of the triggers' notifications.
const PostgresChannel = "quantix"

// Listen feeds the hub from its own database connection until ctx ends. After each (re)connection every subscriber gets
// ResyncKey, because notifications in between are lost.
func (h *Hub) Listen(ctx context.Context, config *pgx.ConnConfig, log *slog.Logger) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	for {
		err := h.listenOnce(ctx, config, wait.Reset)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // ctx ended: a regular stop
		}
		log.Warn("wake-ups are interrupted; reconnecting", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait.NextBackOff()):
		}
	}
}

func (h *Hub) listenOnce(ctx context.Context, config *pgx.ConnConfig, connected func()) error {
	// The timeout allows the client to try the next server in the URL if a server hangs.
	dial, cancel := context.WithTimeout(ctx, time.Duration(2+len(config.Fallbacks))*max(config.ConnectTimeout, time.Second))
	defer cancel()
	conn, err := pgx.ConnectConfig(dial, config.Copy())
	if err != nil {
		return fmt.Errorf("connect for wake-ups: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(dial, "LISTEN "+PostgresChannel); err != nil {
		return fmt.Errorf("listen for wake-ups: %w", err)
	}
	connected()
	h.WakeAll()
	for {
		if err := h.waitForWakeUp(ctx, conn); err != nil {
			return err
		}
	}
}

// probeInterval is the time without a wake-up after which Listen checks that the server is still the primary.
const probeInterval = 10 * time.Second

// waitForWakeUp waits for one wake-up. It fails if the server hangs or has become a standby.
func (h *Hub) waitForWakeUp(ctx context.Context, conn *pgx.Conn) error {
	quiet, cancel := context.WithTimeout(ctx, probeInterval)
	defer cancel()
	n, err := conn.WaitForNotification(quiet)
	switch {
	case err == nil:
		h.receivePayload(n.Payload)
		return nil
	case ctx.Err() != nil || quiet.Err() == nil:
		return err
	}
	probe, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return pgconn.ValidateConnectTargetSessionAttrsReadWrite(probe, conn.PgConn())
}
