package db

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	connectTimeout   = 5 * time.Second
	pingTimeout      = 2 * time.Second // for an idle connection to show that its server is there
	statementTimeout = "10s"
	// ReadOnly is PostgreSQL's code for a change on a server that takes none: a standby, or a primary that has become one.
	ReadOnly = "25006"
	// DiskFull is PostgreSQL's code for a change that its disk has no room for.
	DiskFull = "53100"
	// idleInTransaction ends a transaction whose portal hangs, so that its locks do not outlive it for long.
	idleInTransaction = "30s"
)

// Open makes a pool of at most maxConns connections (0: pgx's default) and checks that the server answers. A connect takes
// at most 5 s and a statement 10 s; waiting for a free connection lasts as long as the caller's context. Of the hosts that the
// URL names it takes the one that can be written to; the first refused write drops all connections, so that the next ones
// find the new primary.
func Open(ctx context.Context, url string, maxConns int) (*pgxpool.Pool, error) {
	return OpenReady(ctx, url, maxConns, nil)
}

// spare is how many connections OpenReady keeps idle, where it may have four times as many.
const spare = 4

// OpenReady is Open for who is asked all the time: ready is done on each connection before it serves, and some of them wait for
// those who come at once. What ready makes of it is its own: an error gives the connection up.
func OpenReady(ctx context.Context, url string, maxConns int, ready func(context.Context, *pgx.Conn) error) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	if maxConns > 0 {
		cfg.MaxConns = int32(maxConns)
	}
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	cfg.HealthCheckPeriod = 15 * time.Second
	cfg.MaxConnIdleTime = 5 * time.Minute
	cfg.PingTimeout = pingTimeout
	setUp := settings(cfg.ConnConfig.RuntimeParams)
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout) // the server may hang now
		defer cancel()
		readFast(conn)
		if err := conn.PgConn().Exec(ctx, setUp).Close(); err != nil || ready == nil {
			return err
		}
		return ready(ctx, conn)
	}
	if ready != nil {
		cfg.MinIdleConns = min(spare, cfg.MaxConns/4)
	}
	cfg.PrepareConn = new(replanner).prepare
	leave := leaveStandby(cfg.ConnConfig)
	noteFullDisk(cfg.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	leave.Store(pool)
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return pool, nil
}

// settings adds to the parameters that the connection begins with, and returns the statements that set the others: a pooler
// such as PgBouncer refuses to begin with those. What the URL sets stays.
func settings(params map[string]string) (setUp string) {
	for _, p := range []struct {
		name, value string
		first       bool
	}{
		{"application_name", "quantix", true},
		{"timezone", "UTC", true},
		{"statement_timeout", statementTimeout, false},
		{"jit", "off", false}, // statements are short; compiling one costs more than it saves
		{"idle_in_transaction_session_timeout", idleInTransaction, false},
	} {
		switch _, set := params[p.name]; {
		case set:
		case p.first:
			params[p.name] = p.value
		default:
			setUp += fmt.Sprintf("SET %s = '%s';", p.name, p.value)
		}
	}
	return setUp
}

// leaveStandby connects to servers that take changes only, and drops the pool that is stored into the answer when one takes
// none any more.
func leaveStandby(cfg *pgx.ConnConfig) *atomic.Pointer[pgxpool.Pool] {
	if cfg.ValidateConnect == nil {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	var pool atomic.Pointer[pgxpool.Pool]
	usual := cfg.OnPgError
	cfg.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code != ReadOnly {
			return usual(conn, err)
		}
		if p := pool.Load(); p != nil {
			p.Reset()
		}
		return false
	}
	return &pool
}

// fullDisks counts the changes that a full disk has refused to this process.
var fullDisks atomic.Int64

// FullDisks is how many changes a full disk has refused to this process: whoever sees it rise must doubt that others are taken.
func FullDisks() int64 { return fullDisks.Load() }

func noteFullDisk(cfg *pgx.ConnConfig) {
	usual := cfg.OnPgError
	cfg.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code == DiskFull {
			fullDisks.Add(1)
		}
		return usual(conn, err)
	}
}

// readFast decodes jsonb with the second version of Go's own package, which takes less than half the time: a list of VMs is
// three documents a row. Documents are written as everywhere else, by encoding/json.
func readFast(conn *pgx.Conn) {
	codec := &pgtype.JSONBCodec{Marshal: stdjson.Marshal, Unmarshal: func(data []byte, v any) error { return json.Unmarshal(data, v) }}
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "jsonb", OID: pgtype.JSONBOID, Codec: codec})
}
