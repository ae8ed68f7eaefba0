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
	pingTimeout      = 2 * time.Second // for the liveness check of an idle connection
	statementTimeout = "10s"
	// SQLStateReadOnly is PostgreSQL's error code for changes on a read-only server, such as a standby.
	SQLStateReadOnly = "25006"
	// SQLStateQuota is the error code of check_quota. The error's detail has the exceeded limits.
	SQLStateQuota = "QX001"
	// SQLStateDiskFull is PostgreSQL's error code for a full disk.
	SQLStateDiskFull = "53100"
	// idleInTransactionTimeout ends transactions of a portal that hangs, so that their locks are released soon.
	idleInTransactionTimeout = "30s"
)

// Open opens a pool of at most maxConns connections (0 for pgx's default) and pings the server. A connect takes at most
// 5 s and a statement at most 10 s; waiting for a free connection is limited only by the caller's context. If the URL
// names several hosts, the writable one is used. The first change rejected by a standby closes all connections, so that
// new ones find the new primary.
func Open(ctx context.Context, url string, maxConns int) (*pgxpool.Pool, error) {
	return OpenWithSetup(ctx, url, maxConns, nil)
}

// spareConnections is the number of connections that OpenWithSetup keeps idle if it may open at least four times as
// many.
const spareConnections = 4

// OpenWithSetup works like Open for a pool under constant load. It runs ready on each new connection before use, and
// keeps some connections idle for bursts. An error of ready discards the connection.
func OpenWithSetup(ctx context.Context, url string, maxConns int, ready func(context.Context, *pgx.Conn) error) (*pgxpool.Pool, error) {
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
	setUp := addSessionSettings(cfg.ConnConfig.RuntimeParams)
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout) // the server may hang
		defer cancel()
		useFastJSON(conn)
		if err := conn.PgConn().Exec(ctx, setUp).Close(); err != nil || ready == nil {
			return err
		}
		return ready(ctx, conn)
	}
	if ready != nil {
		cfg.MinIdleConns = min(spareConnections, cfg.MaxConns/4)
	}
	cfg.PrepareConn = new(stalePlanDiscarder).discardOutdatedPlans
	leave := resetOnStandby(cfg.ConnConfig)
	countDiskFullErrors(cfg.ConnConfig)
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

// addSessionSettings adds startup parameters to params. Poolers such as PgBouncer reject unknown startup parameters, so
// it returns statements that set the other parameters. Parameters set in the URL take precedence.
func addSessionSettings(params map[string]string) (setUp string) {
	for _, p := range []struct {
		name, value string
		first       bool
	}{
		{"application_name", "quantix", true},
		{"timezone", "UTC", true},
		{"statement_timeout", statementTimeout, false},
		{"jit", "off", false}, // compiling short statements costs more time than it saves
		{"idle_in_transaction_session_timeout", idleInTransactionTimeout, false},
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

// resetOnStandby makes cfg connect to writable servers only. It resets the pool stored in the returned pointer when a
// server becomes read-only.
func resetOnStandby(cfg *pgx.ConnConfig) *atomic.Pointer[pgxpool.Pool] {
	if cfg.ValidateConnect == nil {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	var pool atomic.Pointer[pgxpool.Pool]
	usual := cfg.OnPgError
	cfg.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code != SQLStateReadOnly {
			return usual(conn, err)
		}
		if p := pool.Load(); p != nil {
			p.Reset()
		}
		return false
	}
	return &pool
}

// diskFullErrors counts this process's changes rejected because of a full disk.
var diskFullErrors atomic.Int64

// DiskFullErrors returns the number of changes rejected because of a full disk. An increase means that further changes
// may fail.
func DiskFullErrors() int64 { return diskFullErrors.Load() }

func countDiskFullErrors(cfg *pgx.ConnConfig) {
	usual := cfg.OnPgError
	cfg.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code == SQLStateDiskFull {
			diskFullErrors.Add(1)
		}
		return usual(conn, err)
	}
}

// useFastJSON decodes jsonb with encoding/json v2, which takes less than half the time; a VM list decodes three
// documents per row. Encoding still uses encoding/json.
func useFastJSON(conn *pgx.Conn) {
	codec := &pgtype.JSONBCodec{Marshal: stdjson.Marshal, Unmarshal: func(data []byte, v any) error { return json.Unmarshal(data, v) }}
	conn.TypeMap().RegisterType(&pgtype.Type{Name: "jsonb", OID: pgtype.JSONBOID, Codec: codec})
}
