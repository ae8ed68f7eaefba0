// Package pglocal runs a private PostgreSQL for a portal that was given no database URL.
//
// The server listens on a Unix socket only, in a directory that nobody but the database's user (and root) may enter.
// It belongs to the data directory, and the directory to one process at a time: its owner, who holds the lock there. The
// owner starts the server again where it dies. The server survives the death of the owner, and the next one adopts it where
// it still runs, or recovers it where it does not.
package pglocal

import (
	"context"
	"log/slog"
	"net/url"
	"time"
)

const (
	// userName is the superuser that initdb makes; databaseName is the database that every caller gets.
	userName     = "quantix"
	databaseName = "quantix"
	port         = "5432"

	startLimit = 2 * time.Minute // crash recovery of a large database included
	stopLimit  = time.Minute
	// lockPatience is how long a start waits for the lock of an owner that is just going, or that only looks in.
	lockPatience = 2 * time.Second
)

// Options say where a private PostgreSQL lives and how careful it is.
type Options struct {
	// Dir is the parent of all that the server keeps: Dir/pgdata (with its own log, one file a weekday, under
	// Dir/pgdata/log), Dir/run (the socket, unless that path is too long or out of the database user's reach),
	// Dir/postgres-start.log (what the last start said) and Dir/pglocal.lock (the owner's process id).
	Dir string
	// Log receives what Start, Stop and the restarts between them decide; nil is silent.
	Log *slog.Logger
	// Unsafe turns off fsync, full_page_writes and synchronous_commit. A power failure then destroys the database:
	// for tests and the demo only. A server found running unsafely is restarted by a Start without Unsafe.
	Unsafe bool
	// DieWithParent asks the kernel (Linux only) to shut the server down at once when the process that started it dies,
	// so that a killed test leaves nothing behind. Without it the server outlives its starter.
	DieWithParent bool
	// MaxConnections is PostgreSQL's max_connections; 0 means 100. An adopted server keeps the number it was started with.
	MaxConnections int
}

// Start makes the database cluster if there is none, starts it or adopts the one that runs, and returns once it accepts
// connections and the database "quantix" (UTF8) exists. As root it runs PostgreSQL as the owner of the data directory,
// which is "postgres" where that user exists, or else "nobody". It gives up after two minutes, or when ctx ends. Where the
// directory belongs to another process it fails with that one's id and touches nothing. Until Stop, a server that dies is
// started again.
func Start(ctx context.Context, o Options) (*Server, error) {
	return start(ctx, o, systemSearch())
}

// Visit is Start for a program that only looks in. Where the directory has an owner, the server is the owner's, and Stop
// leaves it alone; where a server runs without one, Stop leaves that running too.
func Visit(ctx context.Context, o Options) (*Server, error) {
	return visit(ctx, o, systemSearch())
}

// databaseURL names the port and TLS mode too, so that PGPORT or PGSSLMODE in the environment cannot change them.
func databaseURL(socketDir, database string) string {
	query := url.Values{"host": {socketDir}, "port": {port}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(userName), Path: "/" + database, RawQuery: query.Encode()}
	return u.String()
}
