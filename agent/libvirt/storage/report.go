package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/locks"
	"quantix/agent/libvirt/watch"
	"quantix/agent/pooldir"
	"quantix/agent/state"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// ReadTimeout is how long a caller waits for the state of a pool.
const ReadTimeout = 2 * time.Second

const (
	poolMaxAge          = 5 * time.Second
	poolRefreshInterval = 30 * time.Second
	refreshTimeout      = time.Minute     // limit of a refresh within a job
	minRestartDelay     = 5 * time.Second // time from a failure to the next start; doubles each time
	maxRestartDelay     = 15 * time.Second
)

// Pools manages libvirt's storage pools, and checks each assigned pool on its own connection. libvirt locks a pool
// while it reads the storage, so hanging storage blocks every call for that pool and the list of all pools.
type Pools struct {
	daemon *conn.Daemon
	log    *slog.Logger
	guests GuestReader
	roots  pooldir.PoolRoots
	book   *state.PoolRecords
	locks  locks.ByKey[string] // by pool name; locked by jobs and by pool checks

	mu         sync.Mutex
	all        map[string]*poolWatch
	discovered watch.Value[[]fleet.DiscoveredPool]
}

// NewPools returns the pools of the daemon. roots lists the directories that may hold pools, book records the assigned
// pools, and guests reads the guests of the host.
func NewPools(daemon *conn.Daemon, log *slog.Logger, roots pooldir.PoolRoots, book *state.PoolRecords, guests GuestReader) *Pools {
	return &Pools{daemon: daemon, log: log, roots: roots, book: book, guests: guests}
}

// PoolRecords returns the record of the assigned pools.
func (ps *Pools) PoolRecords() *state.PoolRecords { return ps.book }

// VolumeSize returns the size of the pool's volume in the newest listing of an active pool, or zero.
func (ps *Pools) VolumeSize(pool, volume string) hostfile.DiskSize {
	w := ps.watchOf(pool)
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.reported.Volumes, func(v fleet.Volume) bool { return v.Name == volume })
	if i < 0 || w.reported.State != fleet.PoolActive {
		return hostfile.DiskSize{}
	}
	v := w.reported.Volumes[i]
	return hostfile.DiskSize{Bytes: v.CapacityBytes, Alloc: v.AllocBytes, Presence: hostfile.FilePresent}
}

// poolWatch holds the cached status and volumes of one pool.
type poolWatch struct {
	watch.Value[fleet.PoolStatus]
	dirCheck watch.Value[error] // checks that the directory is the recorded one; see Pools.CheckPoolUsable

	mu           sync.Mutex
	failure      string // the error of the last failed job or refresh; empty after a success
	timedOut     bool   // the last failed job or refresh reached its deadline without an answer
	refreshed    time.Time
	volumes      []fleet.Volume
	appliances   map[string]cachedAppliance
	images       map[string]cachedImage
	total        int    // number of all volumes; volumes has only the first ones
	listingError string // why volumes is an older listing; empty if the listing is current
	reported     fleet.PoolStatus
	lastProbe    fleet.PoolStatus // the result of the last write test: options, file system, durations, error
	restartAt    time.Time        // no restart of the pool before this time
	restartDelay time.Duration
}

// watchOf returns the watch of the pool and creates it if necessary.
func (ps *Pools) watchOf(name string) *poolWatch {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.all == nil {
		ps.all = map[string]*poolWatch{}
	}
	if ps.all[name] == nil {
		ps.all[name] = &poolWatch{}
	}
	return ps.all[name]
}

// ExpirePool makes the next read of the pool, and of the list of pools, check again instead of returning a cached
// result.
func (ps *Pools) ExpirePool(name string) {
	w := ps.watchOf(name)
	w.mu.Lock()
	w.refreshed = time.Time{}
	w.mu.Unlock()
	w.Expire()
	ps.discovered.Expire()
}

// recordPoolOutcome records the outcome of a job, a refresh or a restart. The pool's status shows the error until the
// pool is active. A nil err records a success.
func (ps *Pools) recordPoolOutcome(p fleet.Pool, err error) {
	w := ps.watchOf(p.Name)
	w.mu.Lock()
	w.failure, w.timedOut = "", errors.Is(err, context.DeadlineExceeded)
	if err != nil {
		w.failure = err.Error()
		w.restartAt, w.restartDelay = time.Now().Add(max(w.restartDelay, minRestartDelay)), min(2*max(w.restartDelay, minRestartDelay), maxRestartDelay)
	} else {
		w.restartAt, w.restartDelay = time.Time{}, 0
	}
	w.mu.Unlock()
	if record, known := ps.book.RecordOf(p); known && err != nil {
		record.Failing, record.ByOthers = true, false
		ps.recordPool(p, record)
	}
}

// recordPool writes the pool's record to the PoolBook. It only logs a failed write, because the record matters only
// after a restart of the agent.
func (ps *Pools) recordPool(p fleet.Pool, record pooldir.RecordedPool) {
	if err := ps.book.Put(p.Name, record); err != nil {
		ps.log.Error("the record of a storage pool cannot be written", "pool", p.Name, "error", err)
	}
}

// isRestartDue reports whether the wait after the last failed start is over.
func (w *poolWatch) isRestartDue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !time.Now().Before(w.restartAt)
}

// ExpireAll makes the next read of every pool check again instead of returning a cached result.
func (ps *Pools) ExpireAll() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, w := range ps.all {
		w.Expire()
	}
	ps.discovered.Expire()
}

// checkPoolNotHanging returns an error if the pool's storage hangs, because another call would only block one more thread of
// libvirtd.
func (ps *Pools) checkPoolNotHanging(name string) error {
	if s := ps.watchOf(name).State(); s.Running > watch.StalledAfter {
		return fleet.Errorf(fleet.Unavailable, "The pool %s cannot be used now. %s", name, stalledText(s.Began))
	}
	return nil
}

// CheckPoolUsable returns an error if the pool's storage hangs, or if the pool's directory is not the recorded one.
func (ps *Pools) CheckPoolUsable(name string) error {
	if err := ps.checkPoolNotHanging(name); err != nil {
		return err
	}
	record, known := ps.book.RecordNamed(name)
	if !known || record.Place == nil || record.Path == "" {
		return nil // only libvirt knows whether the pool is active
	}
	s := ps.watchOf(name).dirCheck.Read(context.Background(), 0, ReadTimeout, func() (error, error) {
		now, err := pooldir.InspectDir(record.Path)
		return record.CheckDir(now), err
	})
	switch {
	case s.Running > ReadTimeout/2: // a shorter delay belongs to a later, concurrent check
		return fleet.Errorf(fleet.Unavailable, "The pool %s cannot be used now. %s", name, stalledText(s.Began))
	case s.Err != nil:
		return fmt.Errorf("check the pool %s: %w", name, s.Err)
	}
	return s.Value
}

func stalledText(since time.Time) string {
	return fmt.Sprintf("Its storage has not answered since %s UTC.", since.UTC().Format(time.DateTime))
}

// Reports has the pools for the host's report.
type Reports struct {
	Assigned []wire.PoolReport
	Others   []fleet.DiscoveredPool
}

// Report returns the status of the assigned pools and lists all other pools. The pools are read concurrently.
func (ps *Pools) Report(ctx context.Context, pools []fleet.Pool) Reports {
	reports := Reports{Assigned: make([]wire.PoolReport, len(pools))}
	var done sync.WaitGroup
	for i, p := range pools {
		done.Go(func() {
			reports.Assigned[i] = wire.PoolReport{ID: p.ID, Name: p.Name, Status: ps.poolStatus(ctx, p)}
		})
	}
	all := ps.discovered.Read(ctx, poolMaxAge, ReadTimeout, ps.discoveredPools).Value
	done.Wait()
	for _, other := range all {
		if !slices.ContainsFunc(pools, func(p fleet.Pool) bool { return p.Name == other.Name }) {
			reports.Others = append(reports.Others, other)
		}
	}
	slices.SortFunc(reports.Assigned, func(a, b wire.PoolReport) int { return cmp.Compare(a.Name, b.Name) })
	return reports
}

// poolStatus returns the pool's recent status. A pool that has not answered for watch.StalledAfter is reported as
// stalled, with the sizes last read.
func (ps *Pools) poolStatus(ctx context.Context, p fleet.Pool) fleet.PoolStatus {
	w := ps.watchOf(p.Name)
	s := w.Read(ctx, poolMaxAge, ReadTimeout, func() (fleet.PoolStatus, error) { return ps.checkPool(p, w) })
	st := w.smoothSizes(s.Value)
	switch {
	case s.Running > watch.StalledAfter && s.Known && st.State == fleet.PoolFailed && st.Error != "":
		// While a restart of the pool hangs, the error of the earlier failure is more useful than the state "stalled".
	case !s.Known && w.hasFailure():
		return w.inactiveStatus(fleet.PoolStatus{MountPath: p.Spec.Path})
	case s.Running > watch.StalledAfter:
		st.State, st.Error = fleet.PoolStalled, stalledText(s.Began)
	case !s.Known && s.Err != nil:
		st.State, st.Error = fleet.PoolStalled, s.Err.Error()
	case !s.Known:
		st.State, st.Error = fleet.PoolStalled, "The host has not yet answered about this pool."
	case s.Err != nil:
		st.Error = strings.TrimSpace(st.Error + " The host could not check the pool again, so this status is an earlier one: " + s.Err.Error())
	}
	return st
}

// hasFailure reports whether the last job or refresh failed before its deadline.
func (w *poolWatch) hasFailure() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure != "" && !w.timedOut
}

// smoothSizes smooths the sizes, which always fluctuate on storage in use; see hostfile.SteadySize.
func (w *poolWatch) smoothSizes(st fleet.PoolStatus) fleet.PoolStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.reported; st.State == fleet.PoolActive && old.State == fleet.PoolActive && old.CapacityBytes == st.CapacityBytes {
		st.UsedBytes = hostfile.SteadySize(old.UsedBytes, st.UsedBytes, st.CapacityBytes)
		st.AvailableBytes = hostfile.SteadySize(old.AvailableBytes, st.AvailableBytes, st.CapacityBytes)
		st.Volumes = slices.Clone(st.Volumes)
		for i := range st.Volumes {
			v := &st.Volumes[i]
			if k := slices.IndexFunc(old.Volumes, func(o fleet.Volume) bool { return o.Path == v.Path }); k >= 0 {
				v.AllocBytes = hostfile.SteadySize(old.Volumes[k].AllocBytes, v.AllocBytes, 0)
			}
		}
	}
	st.ProvisionedBytes = UnallocatedBytes(st.Volumes)
	w.reported = st
	return st
}

// UnallocatedBytes returns how much the listed volumes may still grow, in bytes. ISOs do not grow.
func UnallocatedBytes(volumes []fleet.Volume) (n int64) {
	for _, v := range volumes {
		if !v.IsISO() {
			n += max(0, v.CapacityBytes-v.AllocBytes)
		}
	}
	return n
}

// SeenInactive reports whether the newest check found the pool inactive. It returns false for a pool that hangs or was
// never checked.
func (ps *Pools) SeenInactive(name string) bool {
	ps.mu.Lock()
	w := ps.all[name]
	ps.mu.Unlock()
	if w == nil {
		return false
	}
	s := w.State()
	return s.Known && s.Err == nil && s.Running < watch.StalledAfter && s.Value.State == fleet.PoolInactive
}
