// Package pglocal runs a private PostgreSQL for a portal whose settings contain no database URL.
//
// The server listens only on a Unix socket, in a directory that only the database's system user and root may enter. A
// file lock ensures that one process at a time owns a data directory. The owner restarts a server that dies. The server
// survives the death of its owner. The next owner then adopts the server, or recovers the server's data.
package pglocal

import (
	"context"
	"log/slog"
	"net/url"
	"time"
)

const (
	// userName is the superuser created by initdb; databaseName is the portal's database.
	userName     = "quantix"
	databaseName = "quantix"
	port         = "5432"

	startLimit = 2 * time.Minute // crash recovery of a large database included
	stopLimit  = time.Minute
	// lockWait is how long a start waits for a lock whose holder is exiting.
	lockWait = 2 * time.Second
)

// Options configure a private PostgreSQL.
type Options struct {
	// Dir contains all files of the server: Dir/pgdata (with one log file for each weekday in Dir/pgdata/log),
	// Dir/run (the socket, unless the path is too long or not accessible to the database user),
	// Dir/postgres-start.log (output of the last start) and Dir/pglocal.lock (the owner's PID).
	Dir string
	// Log receives messages of Start, Stop and restarts; nil discards them.
	Log *slog.Logger
	// Unsafe turns off fsync, full_page_writes and synchronous_commit, so that a power failure destroys the database.
	// It is for tests and the demo only. A Start without Unsafe restarts a server that runs with Unsafe.
	Unsafe bool
	// DieWithParent makes the kernel (Linux only) stop the server when the process that started it dies, so that a
	// killed test leaves no server running. Without it, the server outlives that process.
	DieWithParent bool
	// MaxConnections is PostgreSQL's max_connections; 0 means 100. An adopted server keeps the value from its own
	// start.
	MaxConnections int
}

// Start creates the database cluster if there is none, and starts or adopts its server. It returns when the server
// accepts connections and the database "quantix" (UTF8) exists. As root, it runs PostgreSQL as the owner of the data
// directory: the user "postgres", else "nobody". It gives up after two minutes or when ctx ends. If another process
// owns the directory, the error contains that process's PID, and nothing is changed. Until Stop, a server that dies is
// restarted.
func Start(ctx context.Context, o Options) (*Server, error) {
	return start(ctx, o, systemSearch())
}

// StartOrReuse is Start for short-lived programs. If the directory has an owner, StartOrReuse uses the owner's server,
// and Stop does not stop it. If a server runs without an owner, Stop leaves it running, too.
func StartOrReuse(ctx context.Context, o Options) (*Server, error) {
	return startOrReuse(ctx, o, systemSearch())
}

// databaseURL returns a URL with port and TLS mode, so that PGPORT or PGSSLMODE in the environment cannot change them.
func databaseURL(socketDir, database string) string {
	query := url.Values{"host": {socketDir}, "port": {port}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(userName), Path: "/" + database, RawQuery: query.Encode()}
	return u.String()
}
