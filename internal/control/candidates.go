package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/placement"
)

// candidates reads what placement asks about hosts: of all, or of one that somebody has named. Until the transaction ends, the
// pools of the spec are released from no host.
func candidates(ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostID, spec fleet.VMSpec) ([]placement.Host, error) {
	ids := poolsOf(spec)
	if err := q.HoldPools(ctx, ids); err != nil {
		return nil, err
	}
	pools, err := q.PoolsForWork(ctx, ids)
	if err != nil {
		return nil, err
	}
	volumes, err := namedVolumes(ctx, q, a, spec, pools)
	if err != nil {
		return nil, err
	}
	rows, err := q.Candidates(ctx, db.CandidatesParams{Pools: ids, Host: string(host)})
	if err != nil {
		return nil, err
	}
	committed := map[fleet.HostID]int64{}
	sums, err := q.CommittedMemory(ctx, string(host))
	if err != nil {
		return nil, err
	}
	for _, sum := range sums {
		committed[sum.HostID] = sum.Mib
	}
	toCome, err := disksToCome(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	hosts := make([]placement.Host, len(rows))
	for i, r := range rows {
		h := placement.Host{
			ID: r.ID, Name: r.Name, Phase: hostPhase(r.SeenAt, r.LookedAt, reported(r.Reported, r.Connected), r.Conflict, r.Now), Error: cmp.Or(r.Error, fleet.NoLook),
			MemoryMiB: r.MemoryBytes >> 20, CommittedMiB: committed[r.ID], Networks: r.Networks,
			Pools: map[fleet.PoolID]placement.Pool{}, Volumes: map[fleet.Volref]fleet.Volume{},
		}
		for _, f := range r.Firmwares {
			h.Firmwares = append(h.Firmwares, fleet.Firmware(f))
		}
		if err := json.Unmarshal(r.Pools, &h.Pools); err != nil {
			return nil, fmt.Errorf("read the pools of host %s: %w", r.Name, err)
		}
		for _, p := range pools {
			if on := h.Pools[p.ID]; p.DeletedAt == nil {
				on.Name, on.FreeBytes = p.Name, on.FreeBytes-toCome.of(p, r.ID)
				h.Pools[p.ID] = on
			}
		}
		for _, v := range volumes {
			if v.shared || v.host == r.ID {
				h.Volumes[v.ref] = v.Volume
			}
		}
		hosts[i] = h
	}
	return hosts, nil
}

// coming is what disks that are asked for and not made yet will take, by pool and host.
type coming map[fleet.PoolID]map[fleet.HostID]int64

func disksToCome(ctx context.Context, q *db.Queries, pools []string) (coming, error) {
	out := coming{}
	if len(pools) == 0 {
		return out, nil
	}
	rows, err := q.DisksToCome(ctx, pools)
	for _, r := range rows {
		id := fleet.PoolID(r.PoolID)
		if out[id] == nil {
			out[id] = map[fleet.HostID]int64{}
		}
		out[id][r.HostID] += r.Bytes
	}
	return out, err
}

// of is what will be taken of the pool as this host sees it: of a shared one, by all hosts.
func (c coming) of(p db.Pool, host fleet.HostID) int64 {
	if !p.Spec.Shared {
		return c[p.ID][host]
	}
	var n int64
	for _, bytes := range c[p.ID] {
		n += bytes
	}
	return n
}

// namedVolume is an image or ISO that a spec names, as one host reports it.
type namedVolume struct {
	fleet.Volume
	ref    fleet.Volref
	host   fleet.HostID
	shared bool // what one host sees of a shared pool is there for all
}

// namedVolumes reads the images and ISOs that the spec names. Those that the actor may not see are not there for it, and the
// disk of another VM is no image.
func namedVolumes(ctx context.Context, q *db.Queries, a fleet.Actor, spec fleet.VMSpec, pools []db.Pool) ([]namedVolume, error) {
	var ask db.VolumesNamedParams
	for _, ref := range volumesOf(spec) {
		ask.Pools, ask.Volumes = append(ask.Pools, string(ref.PoolID)), append(ask.Volumes, ref.Volume)
	}
	if len(ask.Pools) == 0 {
		return nil, nil
	}
	rows, err := q.VolumesNamed(ctx, ask)
	if err != nil {
		return nil, err
	}
	of := map[fleet.PoolID]db.Pool{}
	for _, p := range pools {
		of[p.ID] = p
	}
	found, lines, shared := make([]namedVolume, len(rows)), make([]VolumeOn, len(rows)), map[fleet.Volref][]string{}
	for i, r := range rows {
		v := namedVolume{ref: fleet.Volref{PoolID: fleet.PoolID(r.PoolID), Volume: r.Volume}, host: r.HostID}
		if err := json.Unmarshal(r.Found, &v.Volume); err != nil {
			return nil, fmt.Errorf("read volume %s: %w", r.Volume, err)
		}
		pool := of[v.ref.PoolID]
		v.shared = pool.Spec.Shared
		found[i], lines[i] = v, volumeOn(pool, v.host, v.Volume)
		if v.shared {
			shared[v.ref] = append(shared[v.ref], lines[i].paths...)
		}
	}
	for i, v := range found {
		if v.shared { // one file, wherever a host says that it is
			lines[i].paths = shared[v.ref]
		}
	}
	owners, err := ownersOf(ctx, q, lines)
	if err != nil {
		return nil, err
	}
	kept, used := found[:0], map[fleet.Volref]*VMRef{}
	for i, v := range found {
		switch owner, seen := owners.of(a, lines[i]); {
		case seen && owner != nil:
			used[v.ref] = owner
		case seen:
			kept = append(kept, v)
		}
	}
	for ref, owner := range used { // a VM that one host found does not use the files of other hosts
		if !slices.ContainsFunc(kept, func(v namedVolume) bool { return v.ref == ref }) {
			return nil, fleet.Errorf(fleet.Conflict, "%s is a disk of the VM %s. Choose an image that no VM uses.", ref.Volume, owner.Name)
		}
	}
	return kept, nil
}

// volumesOf lists the volumes that a spec reads from.
func volumesOf(spec fleet.VMSpec) []fleet.Volref {
	var refs []fleet.Volref
	for _, d := range spec.Disks {
		if d.Image != nil {
			refs = append(refs, *d.Image)
		}
	}
	if spec.ISO != nil {
		refs = append(refs, *spec.ISO)
	}
	return refs
}
