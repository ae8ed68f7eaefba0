package db

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrTransactionPooler is returned by CheckSessionMode for a pooler that may use another server connection for each
// transaction.
var ErrTransactionPooler = errors.New("the database URL leads to a connection pooler in transaction mode, which loses wake-ups and locks between transactions; " +
	"set pool_mode = session for this database (PgBouncer), or name PostgreSQL itself")

// wakeUpTimeout is the time limit for a notification, long enough for a busy machine.
const wakeUpTimeout = 10 * time.Second

// CheckSessionMode verifies that connections to url keep their server process: one of two connections must receive a
// notification from the other. It returns ErrTransactionPooler otherwise.
func CheckSessionMode(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("read the database URL: %w", err)
	}
	cfg.ConnectTimeout = connectTimeout
	if err := checkSessionMode(ctx, cfg); err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	return nil
}

func checkSessionMode(ctx context.Context, cfg *pgx.ConnConfig) error {
	resetOnStandby(cfg)
	ctx, cancel := context.WithTimeout(ctx, 4*wakeUpTimeout)
	defer cancel()
	received := make(chan struct{}, 1)
	cfg.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { received <- struct{}{} }
	listener, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer listener.Close(context.WithoutCancel(ctx))
	cfg.OnNotification = nil
	sender, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer sender.Close(context.WithoutCancel(ctx))

	channel := "quantix_" + strings.ToLower(rand.Text())
	mine, err := serverProcessID(ctx, listener, "LISTEN "+channel)
	if err != nil {
		return err
	}
	other, err := serverProcessID(ctx, sender, "BEGIN")
	if err != nil {
		return err
	}
	if mine == other {
		return ErrTransactionPooler
	}
	if err := sender.PgConn().Exec(ctx, "NOTIFY "+channel+"; COMMIT").Close(); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, wakeUpTimeout)
	defer cancel()
	if err := listener.PgConn().WaitForNotification(wait); err != nil && wait.Err() == nil {
		return err
	}
	if len(received) == 0 {
		return ErrTransactionPooler
	}
	return nil
}

// serverProcessID runs a statement and returns the process ID of the connection's server.
func serverProcessID(ctx context.Context, conn *pgx.Conn, sql string) (string, error) {
	if err := conn.PgConn().Exec(ctx, sql).Close(); err != nil {
		return "", err
	}
	results, err := conn.PgConn().Exec(ctx, "SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}
