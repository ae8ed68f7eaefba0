//go:build unix

package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// stop shuts the server down fast, and aborts it after a minute or when ctx ends.
func (s *postmaster) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err := s.signal(syscall.SIGINT); err != nil {
		return err
	}
	if err := s.waitEnded(ctx); err != nil {
		s.log.Warn("the private PostgreSQL did not stop in time; ending it at once", "pid", s.pid)
		if err := s.signal(syscall.SIGQUIT); err != nil {
			return err
		}
		// A SIGSTOPped process handles signals only after SIGCONT. An error means that the process has already ended.
		_ = s.signal(syscall.SIGCONT)
		quitCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := s.waitEnded(quitCtx); err != nil {
			return fmt.Errorf("stop the private PostgreSQL: the server (pid %d) is still running after SIGQUIT: %w", s.pid, err)
		}
	}
	if filepath.Dir(s.socketDir) != filepath.Dir(s.data) {
		os.RemoveAll(s.socketDir) // a temporary directory, which is empty now
	}
	return nil
}

func (s *postmaster) waitEnded(ctx context.Context) error {
	return poll(ctx, func() (bool, error) { return !s.isAlive(), nil })
}

func (s *postmaster) signal(sig syscall.Signal) error {
	if !s.isAlive() {
		return nil
	}
	err := syscall.Kill(s.pid, sig)
	if err == nil || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return fmt.Errorf("stop the private PostgreSQL (pid %d): %w", s.pid, err)
}
