package libvirt

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
)

// fileLocks serializes jobs on the same file. A job that changes or deletes the file takes its lock exclusively; a job
// that reads it or gives it to a VM shares the lock.
type fileLocks struct {
	mu   sync.Mutex
	held map[string]*fileLock
}

type fileLock struct {
	readers int
	alone   bool
	freed   chan struct{} // closed when the lock becomes free
}

// share takes a shared lock on the file. It waits for the lock, at most until ctx ends.
func (l *fileLocks) share(ctx context.Context, path string) (unlock func(), err error) {
	return l.take(ctx, path, false)
}

// alone takes an exclusive lock on the file. It waits for the lock, at most until ctx ends.
func (l *fileLocks) alone(ctx context.Context, path string) (unlock func(), err error) {
	return l.take(ctx, path, true)
}

func (l *fileLocks) take(ctx context.Context, path string, alone bool) (unlock func(), err error) {
	path = filepath.Clean(path)
	for {
		unlock, freed := l.try(path, alone)
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

// try takes the lock if possible. Otherwise it returns a channel that is closed when the lock becomes free.
func (l *fileLocks) try(path string, alone bool) (unlock func(), freed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]*fileLock{}
	}
	f := l.held[path]
	switch {
	case f == nil:
		f = &fileLock{freed: make(chan struct{})}
		l.held[path] = f
	case f.alone || alone:
		return nil, f.freed
	}
	f.alone = alone
	f.readers++
	return sync.OnceFunc(func() { l.free(path, f) }), nil
}

func (l *fileLocks) free(path string, f *fileLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.readers--; f.readers > 0 {
		return
	}
	delete(l.held, path)
	close(f.freed)
}

// unlockers releases several locks.
type unlockers []func()

func (u unlockers) unlock() {
	for _, f := range u {
		f()
	}
}
