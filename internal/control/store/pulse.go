package store

import (
	"context"
	"sync"
	"time"

	"quantix/db"
)

const (
	readinessTimeout = 2 * time.Second // time limit of one check
	readinessMaxAge  = time.Second     // how long the result of a check is reused
)

// useDiskSpaceSQL needs 1 MiB of disk space until the transaction ends. Without it the readiness check could succeed on
// a full disk, because its row fits into an existing page.
const useDiskSpaceSQL = `CREATE TEMPORARY TABLE room ON COMMIT DROP AS SELECT * FROM generate_series(1, 30000)`

// readinessCheck caches whether the database accepts changes. One check runs at a time.
type readinessCheck struct {
	mu             sync.Mutex
	running        chan struct{} // closed at the end of the running check; nil if none runs
	at             time.Time
	state          error
	diskFullErrors int64 // db.DiskFullErrors at the last check with free disk space
}

// Ready returns an error if the database does not accept changes. It writes at most once a second.
func (s *Store) Ready(ctx context.Context) error {
	p := &s.readiness
	p.mu.Lock()
	if p.running == nil && time.Since(p.at) < readinessMaxAge {
		defer p.mu.Unlock()
		return p.state
	}
	if p.running == nil {
		p.running = make(chan struct{})
		go s.checkReadiness()
	}
	open := p.running
	p.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return UnavailableError(ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// checkReadiness runs one check. After the first failed check it closes all connections once: they may lead to a server
// that hangs or became a standby, and new connections find the primary. It does not close them if all are busy, because
// the check may have failed only for lack of a free connection.
func (s *Store) checkReadiness() {
	ctx, cancel := context.WithTimeout(context.Background(), readinessTimeout)
	defer cancel()
	p := &s.readiness
	full := db.DiskFullErrors()
	p.mu.Lock()
	suspect := full != p.diskFullErrors
	p.mu.Unlock()
	err := s.Pulse(ctx)
	if err == nil && suspect { // a statement failed since the last check because of a full disk
		_, err = s.pool.Exec(ctx, useDiskSpaceSQL)
	}
	err = UserError(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.diskFullErrors = full
	}
	if now := s.pool.Stat(); err != nil && p.state == nil && now.AcquiredConns() < now.MaxConns() {
		s.pool.Reset()
	}
	close(p.running)
	p.running, p.at, p.state = nil, time.Now(), err
}
