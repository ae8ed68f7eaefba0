//go:build unix

package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// adopt returns the server that already runs on the data directory, or nil where none does. One that cannot be used as it
// is (going down, unsafe, its socket's directory swept away) is stopped first.
func (c *cluster) adopt(ctx context.Context) (*Server, error) {
	file, ok := readPidFile(c.data)
	if !ok || !isPostmaster(file.pid, c.data, c.owner.uid) {
		return nil, nil
	}
	s := &Server{pid: file.pid, data: c.data, socketDir: file.socketDir, log: c.Log}
	if file.status == "stopping" {
		return nil, s.waitGone(ctx)
	}
	if file.status == "ready" && !s.hasSocket() {
		c.Log.Warn("the running PostgreSQL has lost its socket; restarting it", "pid", s.pid, "socketDir", s.socketDir)
		return nil, s.Stop(ctx)
	}
	if err := s.waitReady(ctx); err != nil {
		if !s.alive() {
			return nil, nil
		}
		return nil, fmt.Errorf("%w; stop it with: kill -INT %d", err, s.pid)
	}
	careful, err := s.careful(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the running PostgreSQL for its settings: %w", err)
	}
	if !careful && !c.Unsafe {
		c.Log.Warn("the running PostgreSQL does not write safely; restarting it", "pid", s.pid)
		return nil, s.Stop(ctx)
	}
	c.Log.Info("adopted the private PostgreSQL that was running", "dir", c.data, "pid", s.pid)
	return s, nil
}

func (s *Server) hasSocket() bool {
	_, err := os.Stat(filepath.Join(s.socketDir, ".s.PGSQL."+port))
	return !errors.Is(err, os.ErrNotExist)
}

func (s *Server) careful(ctx context.Context) (careful bool, err error) {
	err = ask(ctx, s.socketDir, "postgres", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT current_setting('fsync')::bool AND current_setting('full_page_writes')::bool").Scan(&careful)
	})
	return careful, err
}

// alive is true while the postmaster runs; a process that has ended but was not reaped is gone.
func (s *Server) alive() bool {
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
