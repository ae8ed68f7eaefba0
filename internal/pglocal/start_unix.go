//go:build unix

package pglocal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// cluster is one data directory, with the programs and the system user that run its server.
type cluster struct {
	Options
	dir       string // absolute Options.Dir
	data      string // dir/pgdata
	binDir    string
	owner     owner
	socketDir string // directory of the first start, which restarts use again; empty before the first start
}

func newCluster(o Options) (*cluster, error) {
	if o.Dir == "" {
		return nil, errors.New("the private PostgreSQL needs a data directory")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 100
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	// If this process runs as root, PostgreSQL runs as another user, so other users may enter the directory but not list
	// it. Private files below the directory have their own mode.
	mode := os.FileMode(0o700)
	if os.Getuid() == 0 {
		mode = 0o711
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	return &cluster{Options: o, dir: dir, data: filepath.Join(dir, "pgdata")}, nil
}

// version returns the major version of PostgreSQL that created the cluster.
func (c *cluster) version() (string, error) {
	text, err := os.ReadFile(filepath.Join(c.data, "PG_VERSION"))
	return strings.TrimSpace(string(text)), err
}

func (c *cluster) ensureCluster(ctx context.Context, find programSearch) error {
	_, err := c.version()
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if c.binDir, err = find.find(); err != nil {
		return err
	}
	return c.initdb(ctx)
}

// adoptOrLaunch adopts the server that runs on the cluster, or starts one.
func (c *cluster) adoptOrLaunch(ctx context.Context, find programSearch) (*postmaster, error) {
	run, err := c.adopt(ctx)
	if err != nil || run != nil {
		return run, err
	}
	version, err := c.version()
	if err != nil {
		return nil, err
	}
	if c.binDir, err = find.findVersion(ctx, c.data, version); err != nil {
		return nil, err
	}
	return c.launch(ctx)
}

// queryOnce runs one query on its own connection, with a deadline, because a SIGSTOPped server accepts connections but
// never answers.
func queryOnce(ctx context.Context, socketDir, database string, query func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL(socketDir, database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return query(ctx, conn)
}

func ensureDatabase(ctx context.Context, socketDir string) error {
	err := queryOnce(ctx, socketDir, "postgres", func(ctx context.Context, conn *pgx.Conn) error {
		var exists bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", databaseName).Scan(&exists)
		if err != nil || exists {
			return err
		}
		_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{databaseName}.Sanitize())
		return err
	})
	if err != nil {
		return fmt.Errorf("create the database %s: %w", databaseName, err)
	}
	return nil
}

// poll calls done every 20 ms until it returns true or an error, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
