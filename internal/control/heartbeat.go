package control

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Heartbeats are written together: the first one of a batch waits beatGather for others, then writes all in one statement.
const (
	beatGather = 2 * time.Millisecond
	beatBatch  = 500
)

type beats struct {
	mu   sync.Mutex
	open *batch
}

type batch struct {
	params db.HeartbeatsParams
	full   chan struct{} // closed when the batch has beatBatch members
	done   chan struct{} // closed when it is written
	digest map[fleet.HostID]string
	err    error
}

// beat notes a sign of life and reports whether the portal holds another digest than the host's, so that it must send all.
func (c *Control) beat(ctx context.Context, a fleet.Actor, in wire.Report) (resend bool, err error) {
	load := "null"
	if in.Load != nil {
		b, err := json.Marshal(in.Load)
		if err != nil {
			return false, fleet.Errorf(fleet.Malformed, "The load holds no plain numbers.")
		}
		load = string(b)
	}
	b, first := c.beats.join(string(a.HostID), hashSession(a), load)
	if first {
		c.writeBeats(b)
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if b.err != nil {
		return false, b.err
	}
	digest, known := b.digest[a.HostID]
	if !known {
		return false, sessionEnded()
	}
	return digest != in.Digest, nil
}

func (s *beats) join(host string, session []byte, load string) (b *batch, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open, first = &batch{full: make(chan struct{}), done: make(chan struct{})}, true
	}
	b = s.open
	b.params.HostIds = append(b.params.HostIds, host)
	b.params.Sessions = append(b.params.Sessions, session)
	b.params.Loads = append(b.params.Loads, load)
	if len(b.params.HostIds) == beatBatch {
		close(b.full)
		s.open = nil
	}
	return b, first
}

// writeBeats gathers, writes and answers one batch. It outlives the request that began it, for others wait on it.
func (c *Control) writeBeats(b *batch) {
	timer := time.NewTimer(beatGather)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.full:
	}
	c.beats.mu.Lock()
	if c.beats.open == b {
		c.beats.open = nil
	}
	c.beats.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	rows, err := c.q.Heartbeats(ctx, b.params)
	b.err = dbError(err)
	b.digest = make(map[fleet.HostID]string, len(rows))
	for _, r := range rows {
		b.digest[r.HostID] = r.Digest
	}
	close(b.done)
}

// assigned remembers which pools are assigned to which hosts, so that a heartbeat asks no query for them.
type assigned struct {
	mu    sync.Mutex
	until time.Time
	pools map[fleet.HostID][]fleet.Pool
}

// assignedFor bounds how old the memory may be. It only decides which pools a host lists; assignments travel as jobs.
const assignedFor = time.Second

func (c *Control) assignedPools(ctx context.Context, host fleet.HostID) ([]fleet.Pool, error) {
	m := &c.assigned
	m.mu.Lock()
	pools, fresh := m.pools, time.Now().Before(m.until)
	if !fresh && pools != nil {
		m.until = time.Now().Add(assignedFor) // one asks, the others go on with what is known
	}
	m.mu.Unlock()
	if fresh {
		return pools[host], nil
	}
	rows, err := c.q.AssignedPools(ctx)
	if err != nil {
		return nil, dbError(err)
	}
	pools = make(map[fleet.HostID][]fleet.Pool)
	for _, r := range rows {
		pools[r.HostID] = append(pools[r.HostID], poolOf(r.Pool))
	}
	m.mu.Lock()
	m.pools, m.until = pools, time.Now().Add(assignedFor)
	m.mu.Unlock()
	return pools[host], nil
}
