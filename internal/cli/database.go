package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	databaseRetryInterval = time.Second
	databaseWarnInterval  = time.Minute // interval between log messages while the database is unavailable
)

// waitForDatabase calls open until it succeeds. It retries while the database server is unavailable, because after a
// power failure the portal may start before PostgreSQL. Other errors, such as a wrong password or a missing database,
// are returned immediately.
func waitForDatabase(ctx context.Context, log *slog.Logger, open func() error) error {
	retry := time.NewTicker(databaseRetryInterval)
	defer retry.Stop()
	var lastWarning time.Time
	for {
		err := open()
		if err == nil || !databaseUnavailable(err) {
			return err
		}
		if time.Since(lastWarning) >= databaseWarnInterval {
			lastWarning = time.Now()
			log.Warn("the portal waits for its database", "error", databaseError(err))
		}
		select {
		case <-ctx.Done():
			return err
		case <-retry.C:
		}
	}
}

// databaseUnavailable reports whether the error means that the server cannot be reached, is starting or stopping, or
// has no free connection.
func databaseUnavailable(err error) bool {
	const canceled = "57014"
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		class := pg.Code[:2]
		return (class == "57" || class == "53" || class == "08") && pg.Code != canceled
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return connecting || network || errors.Is(err, io.ErrUnexpectedEOF)
}
