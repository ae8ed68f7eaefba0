package metrics

import (
	"context"
	"hash/maphash"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/timeseries"
)

// provenObjects are objects of a host's samples that all belonged to the host, by the database.
type provenObjects struct {
	hash uint64
	at   time.Time
}

// proofAge is how long samples of the same objects are stored without another look at the database.
const proofAge = time.Minute

// hostObjects are the VMs and pools of a host. all means that all objects of its samples are its own.
type hostObjects struct {
	all bool
	set map[timeseries.Object]bool
}

func (o hostObjects) has(object timeseries.Object) bool {
	return o.all || object.Type == fleet.TypeHost || o.set[object]
}

// ownedObjects returns the objects of each host. It asks the database about hosts whose samples have other objects than
// before, and about all hosts once per proofAge.
func (w *Writer) ownedObjects(ctx context.Context, all []HostSamples) (map[fleet.HostID]hostObjects, error) {
	owned := make(map[fleet.HostID]hostObjects, len(all))
	var ask db.MetricObjectsParams
	hashes := make(map[fleet.HostID]uint64, len(all))
	now := time.Now()
	w.mu.Lock()
	for _, h := range all {
		hash := w.hashObjects(h.Samples)
		if proof, known := w.owners[h.Host]; known && proof.hash == hash && now.Sub(proof.at) < proofAge {
			owned[h.Host] = hostObjects{all: true}
			continue
		}
		hashes[h.Host], owned[h.Host] = hash, hostObjects{set: map[timeseries.Object]bool{}}
		ask.HostIds, ask.VMIDs = append(ask.HostIds, string(h.Host)), append(ask.VMIDs, h.VMs.IDs...)
	}
	w.mu.Unlock()
	if len(ask.HostIds) == 0 {
		return owned, nil
	}
	rows, err := w.store.MetricObjects(ctx, ask)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		owned[r.HostID].set[timeseries.Object{Type: fleet.ResourceType(r.Type), ID: r.ObjectID}] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range all {
		if hash, asked := hashes[h.Host]; asked && owned[h.Host].hasAll(h.Samples) {
			w.owners[h.Host] = provenObjects{hash, now}
		}
	}
	return owned, nil
}

// hasAll reports whether all VMs and pools of the samples are the host's own.
func (o hostObjects) hasAll(s metric.Samples) bool {
	for _, id := range s.VMs.IDs {
		if !o.set[timeseries.Object{Type: fleet.TypeVM, ID: id}] {
			return false
		}
	}
	for _, id := range s.Pools.IDs {
		if !o.set[timeseries.Object{Type: fleet.TypePool, ID: id}] {
			return false
		}
	}
	return true
}

// hashObjects returns a hash of the IDs of VMs and pools.
func (w *Writer) hashObjects(s metric.Samples) uint64 {
	var h maphash.Hash
	h.SetSeed(w.seed)
	for _, ids := range [][]string{s.VMs.IDs, s.Pools.IDs} {
		for _, id := range ids {
			_, _ = h.WriteString(id)
			_ = h.WriteByte(0)
		}
		_ = h.WriteByte(1)
	}
	return h.Sum64()
}
