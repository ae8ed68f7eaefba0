//go:build unix

package pglocal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// steady is how long a server must have run for the next restart to be the first of a row again.
	steady = time.Minute
	// The pause before a restart grows between these.
	firstPause, longestPause = 100 * time.Millisecond, 10 * time.Second
)

// Server is a PostgreSQL that accepts connections, and accepts them again after it died. It is safe for concurrent use.
type Server struct {
	socketDir string // where .s.PGSQL.5432 is; the same for each run
	log       *slog.Logger
	halt      context.CancelFunc // ends keep
	kept      chan struct{}      // closed when keep has ended

	mu    sync.Mutex
	lock  *os.File // of the data directory; nil where it belongs to another process, and after Stop
	leave bool     // Stop leaves the server running
	run   *postmaster
}

// URL is the address for pgx: a URL with the socket's directory as its host and no password.
func (s *Server) URL() string { return databaseURL(s.socketDir, databaseName) }

// Pid is the process id of the postmaster, or of the last one where it has died.
func (s *Server) Pid() int { return s.postmaster().pid }

func (s *Server) postmaster() *postmaster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

func start(ctx context.Context, o Options, find search) (*Server, error) {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c, err := newCluster(o)
	if err != nil {
		return nil, startError(err)
	}
	lock, err := c.claim(limited)
	if err != nil {
		return nil, startError(err)
	}
	s, err := c.open(limited, find)
	if err != nil {
		lock.Close()
		return nil, startError(err)
	}
	s.lock = lock
	ctx, s.halt = context.WithCancel(context.WithoutCancel(ctx))
	go s.keep(ctx, c, find)
	return s, nil
}

func startError(err error) error { return fmt.Errorf("start the private PostgreSQL: %w", err) }

func visit(ctx context.Context, o Options, find search) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c, err := newCluster(o)
	if err != nil {
		return nil, startError(err)
	}
	var s *Server
	err = poll(ctx, func() (bool, error) {
		lock, err := c.tryClaim()
		if _, owned := errors.AsType[*ownedError](err); owned {
			s = c.owners(ctx)
			return s != nil, nil
		}
		if err != nil {
			return true, err
		}
		if s, err = c.open(ctx, find); err != nil {
			lock.Close()
			return true, err
		}
		s.lock, s.leave = lock, s.run.adopted()
		return true, nil
	})
	if err != nil {
		return nil, startError(err)
	}
	s.halt = func() {}
	close(s.kept)
	return s, nil
}

// owners is the server that the directory's owner runs, or nil while it does not answer.
func (c *cluster) owners(ctx context.Context) *Server {
	file, ok := readPidFile(c.data)
	if !ok || file.status != "ready" {
		return nil
	}
	run := &postmaster{pid: file.pid, data: c.data, socketDir: file.socketDir, log: c.Log}
	if run.answers(ctx) != nil {
		return nil
	}
	return &Server{socketDir: run.socketDir, log: c.Log, run: run, kept: make(chan struct{})}
}

// open makes the cluster where there is none and brings its server up.
func (c *cluster) open(ctx context.Context, find search) (*Server, error) {
	var err error
	if c.owner, err = dataOwner(c.data); err != nil {
		return nil, err
	}
	if err := c.ensureCluster(ctx, find); err != nil {
		return nil, err
	}
	run, err := c.bringUp(ctx, find)
	if err != nil {
		return nil, err
	}
	if err := ensureDatabase(ctx, run.socketDir); err != nil {
		if !run.adopted() {
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
			defer cancel()
			err = errors.Join(err, run.stop(stopCtx))
		}
		return nil, err
	}
	c.socketDir = run.socketDir
	return &Server{socketDir: run.socketDir, log: c.Log, run: run, kept: make(chan struct{})}, nil
}

// keep starts the server again whenever it has died, until ctx ends. The pauses between grow while it does not stay.
func (s *Server) keep(ctx context.Context, c *cluster, find search) {
	defer close(s.kept)
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstPause, longestPause
	for {
		began, run := time.Now(), s.postmaster()
		if !run.awaitEnd(ctx) {
			return
		}
		s.log.Error("the private PostgreSQL has died; starting it again", "dir", c.data, "pid", run.pid)
		if time.Since(began) > steady {
			pause.Reset()
		}
		if run = c.bringBack(ctx, find, pause); run == nil {
			return
		}
		s.mu.Lock()
		s.run = run
		s.mu.Unlock()
	}
}

// bringBack tries until the server runs again; nil when ctx ended first. It never makes a cluster: where the data are gone, an
// empty database would pass for them.
func (c *cluster) bringBack(ctx context.Context, find search, pause *backoff.ExponentialBackOff) *postmaster {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.NextBackOff()):
		}
		limited, cancel := context.WithTimeout(ctx, startLimit)
		run, err := c.bringUp(limited, find)
		cancel()
		if err == nil {
			return run
		}
		if ctx.Err() != nil {
			return nil
		}
		c.Log.Error("the private PostgreSQL cannot be started again yet", "dir", c.data, "error", err)
	}
}

// Stop shuts the server down fast (open transactions are rolled back, everything is written), returns when it is gone, and gives
// the data directory back. When ctx ends first, or after a minute, the server is ended at once instead and recovers at its next
// start. Stopping a server that is gone is no error.
func (s *Server) Stop(ctx context.Context) error {
	s.halt()
	<-s.kept
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	if !s.leave {
		if err := s.run.stop(ctx); err != nil {
			return err
		}
	}
	err := s.lock.Close()
	s.lock = nil
	return err
}
