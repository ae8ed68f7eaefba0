package agentapi

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/wire"
)

// Heartbeats are written in batches. The first heartbeat of a batch waits batchGatherTime for others. Then one
// statement writes all heartbeats, and another one all meters. No user waits for a heartbeat, so the delay is harmless.
const (
	batchGatherTime = 10 * time.Millisecond
	maxHeartbeats   = 500
)

type heartbeatBatcher struct {
	mu        sync.Mutex
	openBatch *heartbeatBatch
}

type heartbeatBatch struct {
	params      db.HeartbeatsParams
	meters      []hostMeasurements // parallel to params
	full        chan struct{}      // closed when the batch has maxHeartbeats members
	done        chan struct{}      // closed when the batch is written
	rows        map[fleet.HostID]db.HeartbeatsRow
	err         error
	meterErrors map[fleet.HostID]error // errors of hosts whose meters could not be written
}

// recordHeartbeat records a heartbeat. It fills in the answer: the heartbeat's time, the report interval, and whether the
// stored digest differs from the host's digest, so that the agent must send a full report.
func (api *API) recordHeartbeat(ctx context.Context, a fleet.Actor, in wire.Report, answer *wire.ReportAnswer) error {
	load := "null"
	if in.Load != nil {
		b, err := json.Marshal(in.Load)
		if err != nil {
			return fleet.Errorf(fleet.Malformed, "The load contains values that are not finite numbers.")
		}
		load = string(b)
	}
	b, first := api.heartbeats.joinBatch(a, in, load)
	if first {
		api.writeHeartbeats(b)
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.err != nil {
		return b.err
	}
	row, known := b.rows[a.HostID]
	if !known || !bytes.Equal(row.Session, hashAgentSession(a)) {
		return sessionEndedError()
	}
	answer.At, answer.Resend, answer.ReportInterval, answer.Maintenance = row.Now, row.Digest != in.Digest, int(row.ReportInterval), row.Maintained
	return b.meterErrors[a.HostID]
}

// reportSentAt returns the earliest time at which the report can have been sent, by the database's clock. If an old
// agent sends no timestamp, the result is in the far future, and the SQL statements use the current time instead.
func reportSentAt(in wire.Report) time.Time {
	if in.Stamp == nil {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return in.Stamp.At.Add(durationFromMilliseconds(in.Stamp.AgoMs))
}

// durationFromMilliseconds converts an agent's duration, limited to the range from zero to one hour.
func durationFromMilliseconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), time.Hour.Milliseconds())) * time.Millisecond
}

func (s *heartbeatBatcher) joinBatch(a fleet.Actor, in wire.Report, load string) (b *heartbeatBatch, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.openBatch == nil {
		s.openBatch, first = &heartbeatBatch{full: make(chan struct{}), done: make(chan struct{})}, true
	}
	b = s.openBatch
	p := &b.params
	p.HostIds, p.Sessions, p.Loads = append(p.HostIds, string(a.HostID)), append(p.Sessions, hashAgentSession(a)), append(p.Loads, load)
	p.Digests, p.Sent = append(p.Digests, in.Digest), append(p.Sent, reportSentAt(in))
	p.LookAges = append(p.LookAges, durationFromMilliseconds(in.StateAgeMs).Seconds())
	b.meters = append(b.meters, measurementsOf(a.HostID, in))
	if len(b.params.HostIds) == maxHeartbeats {
		close(b.full)
		s.openBatch = nil
	}
	return b, first
}

// writeHeartbeats waits for further heartbeats and then writes the batch. It does not use the context of its request,
// because other requests wait for the same batch.
func (api *API) writeHeartbeats(b *heartbeatBatch) {
	timer := time.NewTimer(batchGatherTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.full:
	}
	api.heartbeats.mu.Lock()
	if api.heartbeats.openBatch == b {
		api.heartbeats.openBatch = nil
	}
	api.heartbeats.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	b.err = store.UserError(api.writeHeartbeatBatch(ctx, b))
	close(b.done)
}

func (api *API) writeHeartbeatBatch(ctx context.Context, b *heartbeatBatch) (err error) {
	defer store.RecoverAsError(&err) // other requests wait for the result
	rows, err := api.store.Heartbeats(ctx, b.params)
	if err != nil {
		return err
	}
	b.rows = make(map[fleet.HostID]db.HeartbeatsRow, len(rows))
	for _, r := range rows {
		b.rows[r.HostID] = r
	}
	var proven []hostMeasurements
	for i, m := range b.meters {
		if row, known := b.rows[m.host]; known && bytes.Equal(row.Session, b.params.Sessions[i]) {
			proven = append(proven, m)
		}
	}
	api.writeSamples(ctx, proven...)
	if err := api.writeMeters(ctx, proven...); err == nil || len(proven) == 1 || ctx.Err() != nil {
		return err
	}
	// After a failure, write each host's meters separately, so that an error for one host, such as a deleted host, does
	// not affect the other hosts.
	b.meterErrors = map[fleet.HostID]error{}
	for _, m := range proven {
		if err := api.writeMeters(ctx, m); err != nil {
			b.meterErrors[m.host] = store.UserError(err)
		}
	}
	return nil
}

// assignmentCache caches the pools and networks assigned to each host, so that a heartbeat needs no query for them. It
// reads them again after a change and after assignmentCacheMaxAge.
type assignmentCache struct {
	changes     *notify.Subscription // subscribed to assignmentsChangedKey
	mu          sync.Mutex
	readAt      time.Time // start of the latest read
	stale       bool
	assignments map[fleet.HostID]wire.AssignedObjects
}

const (
	assignmentsChangedKey = "assigned"
	// The cached assignments only determine the objects that a host reports on. Hosts get new assignments as jobs. The
	// cache may therefore be outdated for a short time.
	assignmentCacheMinAge = time.Second
	assignmentCacheMaxAge = 2 * time.Minute
)

func (api *API) assignmentsOfHost(ctx context.Context, host fleet.HostID) (wire.AssignedObjects, error) {
	m := &api.assignmentCache
	now := time.Now()
	m.mu.Lock()
	select {
	case <-m.changes.C:
		m.changes.TakeKeys()
		m.stale = true
	default:
	}
	on, age := m.assignments, now.Sub(m.readAt)
	if m.stale && age >= assignmentCacheMinAge || age >= assignmentCacheMaxAge {
		m.stale, m.readAt = false, now // one request reads the new value, the others use the old one
	} else if on != nil {
		m.mu.Unlock()
		return on[host], nil
	}
	m.mu.Unlock()
	on, err := assign.ReadAssignedObjects(ctx, api.store.Queries)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.stale = true
		return wire.AssignedObjects{}, store.UserError(err)
	}
	m.assignments = on
	return on[host], nil
}
