package inbox

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// sign is a host's sign of life.
type sign struct {
	fleet.Actor
	load, digest string
	sent         time.Time
	lookAge      time.Duration
}

// beat notes a sign of life and says when that was, and whether the portal holds another digest than the host's, so that it must
// send all.
func (box *Inbox) beat(ctx context.Context, a fleet.Actor, in wire.Report) (now time.Time, resend bool, err error) {
	load := "null"
	if in.Load != nil {
		b, err := json.Marshal(in.Load)
		if err != nil {
			return now, false, fleet.Errorf(fleet.Malformed, "The load holds no plain numbers.")
		}
		load = string(b)
	}
	row, err := box.beats.do(ctx, sign{a, load, in.Digest, sentAt(in), milliseconds(in.LookedAgoMs)})
	switch {
	case err != nil:
		return now, false, store.Err(err)
	case row == nil:
		return now, false, sessionEnded()
	}
	return row.Now, row.Digest != in.Digest, nil
}

// writeBeats writes many hosts' signs of life; a host without an answer has another session.
func (box *Inbox) writeBeats(ctx context.Context, _ time.Duration, all []sign) ([]*db.HeartbeatsRow, error) {
	var p db.HeartbeatsParams
	for _, s := range all {
		p.HostIds, p.Sessions, p.Loads = append(p.HostIds, string(s.HostID)), append(p.Sessions, hashSession(s.Actor)), append(p.Loads, s.load)
		p.Digests, p.Sent, p.LookAges = append(p.Digests, s.digest), append(p.Sent, s.sent), append(p.LookAges, s.lookAge.Seconds())
	}
	rows, err := box.store.Heartbeats(ctx, p)
	if err != nil {
		return nil, err
	}
	of := make(map[fleet.HostID]*db.HeartbeatsRow, len(rows))
	for i := range rows {
		of[rows[i].HostID] = &rows[i]
	}
	out := make([]*db.HeartbeatsRow, len(all))
	for i, s := range all {
		out[i] = of[s.HostID]
	}
	return out, nil
}

// sentAt is when a report was sent, by the clock of the database, or earlier. Of one that does not tell, it is in the far future:
// what is later than the database's present counts as that.
func sentAt(in wire.Report) time.Time {
	if in.Stamp == nil {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return in.Stamp.At.Add(milliseconds(in.Stamp.AgoMs))
}

// milliseconds is what an agent measured, within reason.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), time.Hour.Milliseconds())) * time.Millisecond
}

// assigned remembers which pools are assigned to which hosts, so that a heartbeat asks no query for them.
type assigned struct {
	mu    sync.Mutex
	until time.Time
	pools map[fleet.HostID][]fleet.Pool
}

// assignedFor bounds how old the memory may be. It only decides which pools a host lists; assignments travel as jobs.
const assignedFor = time.Second

func (box *Inbox) assignedPools(ctx context.Context, host fleet.HostID) ([]fleet.Pool, error) {
	m := &box.assigned
	m.mu.Lock()
	pools, fresh := m.pools, time.Now().Before(m.until)
	if !fresh && pools != nil {
		m.until = time.Now().Add(assignedFor) // one asks, the others go on with what is known
	}
	m.mu.Unlock()
	if fresh {
		return pools[host], nil
	}
	rows, err := box.store.AssignedPools(ctx)
	if err != nil {
		return nil, store.Err(err)
	}
	pools = make(map[fleet.HostID][]fleet.Pool)
	for _, r := range rows {
		pools[r.HostID] = append(pools[r.HostID], store.PoolOf(r.Pool))
	}
	m.mu.Lock()
	m.pools, m.until = pools, time.Now().Add(assignedFor)
	m.mu.Unlock()
	return pools[host], nil
}
