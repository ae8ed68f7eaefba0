//go:build unix

package pglocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// directoryOwnedError means that another process owns the directory.
type directoryOwnedError struct {
	dir string
	pid int // 0: the owner has not written its PID
}

func (e *directoryOwnedError) Error() string {
	by := "another process"
	if e.pid != 0 {
		by = fmt.Sprintf("process %d, which is running", e.pid)
	}
	return fmt.Sprintf("the data directory %s belongs to %s; stop that first, or choose another data directory", e.dir, by)
}

// lockDirectory locks the directory for this process until the returned file is closed. The kernel also releases the
// lock when the process ends. lockDirectory waits briefly for an owner that is exiting.
func (c *cluster) lockDirectory(ctx context.Context) (*os.File, error) {
	waitCtx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	var lock *os.File
	err := poll(waitCtx, func() (bool, error) {
		var err error
		lock, err = c.tryLockDirectory()
		if _, owned := errors.AsType[*directoryOwnedError](err); owned {
			return false, nil
		}
		return true, err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("wait for the data directory %s: %w", c.dir, err)
	case err != nil && waitCtx.Err() != nil:
		return c.tryLockDirectory()
	}
	return lock, err
}

// tryLockDirectory is lockDirectory without the wait.
func (c *cluster) tryLockDirectory() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(c.dir, "pglocal.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
		text, _ := os.ReadFile(f.Name()) // the owner's PID for the error
		f.Close()
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return nil, &directoryOwnedError{c.dir, pid}
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("write the owner of the data directory: %w", err)
	}
	return f, nil
}
