package locks

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
)

// Files serializes jobs on the same file. A job that changes or deletes the file takes its lock exclusively; a job
// that reads it or gives it to a VM shares the lock.
type Files struct {
	mu   sync.Mutex
	held map[string]*fileLock
}

type fileLock struct {
	readers         int
	heldExclusively bool
	released        chan struct{} // closed when the lock becomes free
}

// LockShared takes a shared lock on the file. It waits for the lock, at most until ctx ends.
func (l *Files) LockShared(ctx context.Context, path string) (unlock func(), err error) {
	return l.lockFile(ctx, path, false)
}

// LockExclusive takes an exclusive lock on the file. It waits for the lock, at most until ctx ends.
func (l *Files) LockExclusive(ctx context.Context, path string) (unlock func(), err error) {
	return l.lockFile(ctx, path, true)
}

func (l *Files) lockFile(ctx context.Context, path string, alone bool) (unlock func(), err error) {
	path = filepath.Clean(path)
	for {
		unlock, freed := l.TryLockFile(path, alone)
		if unlock != nil {
			return unlock, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another job on %s: %w", filepath.Base(path), ctx.Err())
		}
	}
}

// TryLockFile takes the lock if possible. Otherwise it returns a channel that is closed when the lock becomes free.
func (l *Files) TryLockFile(path string, alone bool) (unlock func(), freed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]*fileLock{}
	}
	f := l.held[path]
	switch {
	case f == nil:
		f = &fileLock{released: make(chan struct{})}
		l.held[path] = f
	case f.heldExclusively || alone:
		return nil, f.released
	}
	f.heldExclusively = alone
	f.readers++
	return sync.OnceFunc(func() { l.releaseLock(path, f) }), nil
}

func (l *Files) releaseLock(path string, f *fileLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.readers--; f.readers > 0 {
		return
	}
	delete(l.held, path)
	close(f.released)
}

// Unlockers releases several locks.
type Unlockers []func()

// Unlock calls all functions.
func (u Unlockers) Unlock() {
	for _, f := range u {
		f()
	}
}
