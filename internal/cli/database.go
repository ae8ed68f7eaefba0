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
	databaseRetry = time.Second
	databaseTell  = time.Minute // how often the log says that the database is still away
)

// waitForDatabase opens a database, again and again while its server is away: after a power failure nobody says in which order the two
// start. What no waiting mends (a wrong password, a database that does not exist) it returns at once.
func waitForDatabase(ctx context.Context, log *slog.Logger, open func() error) error {
	retry := time.NewTicker(databaseRetry)
	defer retry.Stop()
	var told time.Time
	for {
		err := open()
		if err == nil || !databaseAway(err) {
			return err
		}
		if time.Since(told) >= databaseTell {
			told = time.Now()
			log.Warn("the portal waits for its database", "error", databaseError(err))
		}
		select {
		case <-ctx.Done():
			return err
		case <-retry.C:
		}
	}
}

// databaseAway reports whether the server cannot be reached, is starting or stopping, or has no room for another connection.
func databaseAway(err error) bool {
	const canceled = "57014"
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		class := pg.Code[:2]
		return (class == "57" || class == "53" || class == "08") && pg.Code != canceled
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return connecting || network || errors.Is(err, io.ErrUnexpectedEOF)
}
