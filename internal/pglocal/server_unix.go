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
	// steadyAfter is how long a server must have run so that the next restart begins with the shortest pause again.
	steadyAfter = time.Minute
	// Shortest and longest pause before a restart.
	firstPause, longestPause = 100 * time.Millisecond, 10 * time.Second
)

// Server is a PostgreSQL server that accepts connections and is restarted if it dies. It is safe for concurrent use.
type Server struct {
	socketDir string // directory of the socket .s.PGSQL.5432; the same after a restart
	log       *slog.Logger
	cancel    context.CancelFunc // stops the supervisor
	done      chan struct{}      // closed when the supervisor has ended

	mu          sync.Mutex
	lock        *os.File // lock on the data directory; nil if another process owns the directory, and after Stop
	keepRunning bool     // Stop leaves the server running
	run         *postmaster
}

// URL is the connection URL for pgx, with the socket's directory as host and without a password.
func (s *Server) URL() string { return databaseURL(s.socketDir, databaseName) }

// Pid is the PID of the current or last postmaster.
func (s *Server) Pid() int { return s.postmaster().pid }

func (s *Server) postmaster() *postmaster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

func start(ctx context.Context, o Options, find programSearch) (*Server, error) {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c, err := newCluster(o)
	if err != nil {
		return nil, startError(err)
	}
	lock, err := c.lockDirectory(limited)
	if err != nil {
		return nil, startError(err)
	}
	s, err := c.openServer(limited, find)
	if err != nil {
		lock.Close()
		return nil, startError(err)
	}
	s.lock = lock
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go s.supervise(ctx, c, find)
	return s, nil
}

func startError(err error) error { return fmt.Errorf("start the private PostgreSQL: %w", err) }

func startOrReuse(ctx context.Context, o Options, find programSearch) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c, err := newCluster(o)
	if err != nil {
		return nil, startError(err)
	}
	var s *Server
	err = poll(ctx, func() (bool, error) {
		lock, err := c.tryLockDirectory()
		if _, owned := errors.AsType[*directoryOwnedError](err); owned {
			s = c.ownersServer(ctx)
			return s != nil, nil
		}
		if err != nil {
			return true, err
		}
		if s, err = c.openServer(ctx, find); err != nil {
			lock.Close()
			return true, err
		}
		s.lock, s.keepRunning = lock, s.run.isAdopted()
		return true, nil
	})
	if err != nil {
		return nil, startError(err)
	}
	s.cancel = func() {}
	close(s.done)
	return s, nil
}

// ownersServer returns the server of the process that owns the directory, or nil while that server does not answer.
func (c *cluster) ownersServer(ctx context.Context) *Server {
	file, ok := readPidFile(c.data)
	if !ok || file.status != "ready" {
		return nil
	}
	run := &postmaster{pid: file.pid, data: c.data, socketDir: file.socketDir, log: c.Log}
	if run.checkServer(ctx) != nil {
		return nil
	}
	return &Server{socketDir: run.socketDir, log: c.Log, run: run, done: make(chan struct{})}
}

// openServer creates the cluster if there is none, and starts or adopts its server.
func (c *cluster) openServer(ctx context.Context, find programSearch) (*Server, error) {
	var err error
	if c.owner, err = dataOwner(c.data); err != nil {
		return nil, err
	}
	if err := c.ensureCluster(ctx, find); err != nil {
		return nil, err
	}
	run, err := c.adoptOrLaunch(ctx, find)
	if err != nil {
		return nil, err
	}
	if err := ensureDatabase(ctx, run.socketDir); err != nil {
		if !run.isAdopted() {
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
			defer cancel()
			err = errors.Join(err, run.stop(stopCtx))
		}
		return nil, err
	}
	c.socketDir = run.socketDir
	return &Server{socketDir: run.socketDir, log: c.Log, run: run, done: make(chan struct{})}, nil
}

// supervise restarts the server whenever it dies, until ctx ends. If the server dies repeatedly, the pauses before
// restarts grow.
func (s *Server) supervise(ctx context.Context, c *cluster, find programSearch) {
	defer close(s.done)
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstPause, longestPause
	for {
		began, run := time.Now(), s.postmaster()
		if !run.awaitEnd(ctx) {
			return
		}
		s.log.Error("the private PostgreSQL has died; starting it again", "dir", c.data, "pid", run.pid)
		if time.Since(began) > steadyAfter {
			pause.Reset()
		}
		if run = c.restart(ctx, find, pause); run == nil {
			return
		}
		s.mu.Lock()
		s.run = run
		s.mu.Unlock()
	}
}

// restart retries until the server runs again, and returns nil if ctx ends first. It never creates a cluster, because
// an empty database would hide the loss of the data.
func (c *cluster) restart(ctx context.Context, find programSearch, pause *backoff.ExponentialBackOff) *postmaster {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.NextBackOff()):
		}
		limited, cancel := context.WithTimeout(ctx, startLimit)
		run, err := c.adoptOrLaunch(limited, find)
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

// Stop shuts the server down fast: it rolls back open transactions and writes all data. It returns when the server has
// ended, and releases the data directory. After a minute, or if ctx ends first, it aborts the server, which recovers at
// its next start. It is no error if the server has stopped before.
func (s *Server) Stop(ctx context.Context) error {
	s.cancel()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	if !s.keepRunning {
		if err := s.run.stop(ctx); err != nil {
			return err
		}
	}
	err := s.lock.Close()
	s.lock = nil
	return err
}
