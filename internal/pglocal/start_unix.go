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
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// cluster is one data directory and all that is needed to run a server on it.
type cluster struct {
	Options
	dir    string // absolute Options.Dir
	data   string // dir/pgdata
	binDir string
	owner  owner
}

func start(ctx context.Context, o Options, find search) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	s, err := startCluster(ctx, o, find)
	if err != nil {
		return nil, fmt.Errorf("start the private PostgreSQL: %w", err)
	}
	return s, nil
}

func startCluster(ctx context.Context, o Options, find search) (*Server, error) {
	c, err := newCluster(o)
	if err != nil {
		return nil, err
	}
	// Two portals that start at once on one directory would both see no server and both make one.
	unlock, err := lockFile(ctx, filepath.Join(c.dir, "pglocal.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()

	if c.owner, err = dataOwner(c.data); err != nil {
		return nil, err
	}
	s, err := c.adopt(ctx)
	if err != nil {
		return nil, err
	}
	if s == nil {
		if s, err = c.create(ctx, find); err != nil {
			return nil, err
		}
	}
	if err := ensureDatabase(ctx, s.socketDir); err != nil {
		return nil, err
	}
	return s, nil
}

func newCluster(o Options) (*cluster, error) {
	if o.Dir == "" {
		return nil, errors.New("no data directory was named")
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
	// Traversable as root, because PostgreSQL runs as another user; what is private below has its own mode.
	mode := os.FileMode(0o700)
	if os.Getuid() == 0 {
		mode = 0o711
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	return &cluster{Options: o, dir: dir, data: filepath.Join(dir, "pgdata")}, nil
}

// create starts a server on a directory on which none runs.
func (c *cluster) create(ctx context.Context, find search) (*Server, error) {
	version, err := os.ReadFile(filepath.Join(c.data, "PG_VERSION"))
	switch {
	case err == nil:
		c.binDir, err = find.findVersion(ctx, c.data, strings.TrimSpace(string(version)))
	case errors.Is(err, os.ErrNotExist):
		if c.binDir, err = find.find(); err == nil {
			err = c.initdb(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	return c.launch(ctx)
}

// lockFile waits for the lock until ctx ends. The kernel drops the lock with the process.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	err = poll(ctx, func() (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("wait for another start on this directory (%s): %w", path, err)
	}
	return func() { f.Close() }, nil
}

// ask runs one question on a connection of its own, with a deadline: a stopped server accepts and then says nothing.
func ask(ctx context.Context, socketDir, database string, question func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL(socketDir, database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return question(ctx, conn)
}

func ensureDatabase(ctx context.Context, socketDir string) error {
	err := ask(ctx, socketDir, "postgres", func(ctx context.Context, conn *pgx.Conn) error {
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

// poll calls done every 20 ms until it is true or fails, or ctx ends.
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
