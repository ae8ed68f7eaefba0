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

// Channel is the PostgreSQL channel that the announcing triggers notify.
const Channel = "quantix"

// Listen feeds the hub from one connection of its own until ctx ends. After each (re)connection every waiter gets Resync,
// because what was announced in between is lost.
func (h *Hub) Listen(ctx context.Context, config *pgx.ConnConfig, log *slog.Logger) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	for {
		err := h.listenOnce(ctx, config, wait.Reset)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the portal is to stop: no failure
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
	// A server that hangs must not keep the next one of the URL from being tried.
	dial, cancel := context.WithTimeout(ctx, time.Duration(2+len(config.Fallbacks))*max(config.ConnectTimeout, time.Second))
	defer cancel()
	conn, err := pgx.ConnectConfig(dial, config.Copy())
	if err != nil {
		return fmt.Errorf("connect for wake-ups: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(dial, "LISTEN "+Channel); err != nil {
		return fmt.Errorf("listen for wake-ups: %w", err)
	}
	connected()
	h.WakeAll()
	for {
		if err := h.next(ctx, conn); err != nil {
			return err
		}
	}
}

// silence is how long no wake-up may come before the server is asked whether it is still the one that others write to.
const silence = 10 * time.Second

// next waits for one wake-up; a server that hangs, or that has become a standby, it leaves after a silence.
func (h *Hub) next(ctx context.Context, conn *pgx.Conn) error {
	quiet, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	n, err := conn.WaitForNotification(quiet)
	switch {
	case err == nil:
		h.hear(n.Payload)
		return nil
	case ctx.Err() != nil || quiet.Err() == nil:
		return err
	}
	probe, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return pgconn.ValidateConnectTargetSessionAttrsReadWrite(probe, conn.PgConn())
}
