//go:build unix

package pglocal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// watchEvery is how often an adopted server is checked, because its exit is not signalled: it is not a child process.
const watchEvery = time.Second

// postmaster is a running PostgreSQL server.
type postmaster struct {
	pid       int
	data      string          // the data directory
	socketDir string          // where .s.PGSQL.5432 is
	exited    <-chan struct{} // closed when the process has been reaped; nil for an adopted server
	log       *slog.Logger
}

// isAdopted reports whether another process started the server.
func (s *postmaster) isAdopted() bool { return s.exited == nil }

// adopt returns the server that runs on the data directory, or nil if there is none. It first stops a server that
// cannot be used: one that shuts down, runs with Unsafe, or has lost its socket directory.
func (c *cluster) adopt(ctx context.Context) (*postmaster, error) {
	file, ok := readPidFile(c.data)
	if !ok || !isPostmaster(file.pid, c.data, c.owner.uid) {
		return nil, nil
	}
	s := &postmaster{pid: file.pid, data: c.data, socketDir: file.socketDir, log: c.Log}
	if file.status == "stopping" {
		return nil, s.waitEnded(ctx)
	}
	if file.status == "ready" && (!s.hasSocket() || (c.socketDir != "" && s.socketDir != c.socketDir)) {
		c.Log.Warn("the running PostgreSQL has no socket where it is looked for; restarting it", "pid", s.pid, "socketDir", s.socketDir)
		return nil, s.stop(ctx)
	}
	if err := s.waitReady(ctx); err != nil {
		if !s.isAlive() {
			return nil, nil
		}
		return nil, fmt.Errorf("%w; stop it with: kill -INT %d", err, s.pid)
	}
	safe, err := s.isCrashSafe(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the settings of the running PostgreSQL: %w", err)
	}
	if !safe && !c.Unsafe {
		c.Log.Warn("the running PostgreSQL does not write safely; restarting it", "pid", s.pid)
		return nil, s.stop(ctx)
	}
	c.Log.Info("adopted the private PostgreSQL that was running", "dir", c.data, "pid", s.pid)
	return s, nil
}

func (s *postmaster) hasSocket() bool {
	_, err := os.Stat(filepath.Join(s.socketDir, ".s.PGSQL."+port))
	return !errors.Is(err, os.ErrNotExist)
}

func (s *postmaster) isCrashSafe(ctx context.Context) (safe bool, err error) {
	err = queryOnce(ctx, s.socketDir, "postgres", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT current_setting('fsync')::bool AND current_setting('full_page_writes')::bool").Scan(&safe)
	})
	return safe, err
}

// awaitEnd returns true when the server has ended, or false if ctx ends first.
func (s *postmaster) awaitEnd(ctx context.Context) bool {
	if s.exited != nil {
		select {
		case <-s.exited:
			return true
		case <-ctx.Done():
			return false
		}
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for s.isAlive() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// isAlive reports whether the postmaster runs. A zombie does not count.
func (s *postmaster) isAlive() bool {
	if s.exited != nil {
		select {
		case <-s.exited:
			return false
		default:
			return true
		}
	}
	return isRunning(s.pid)
}
