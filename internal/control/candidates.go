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

// namedVolumes reads the images and ISOs that the spec names. Those that the actor may not use are not there for it, and the
// disk of a VM is no image.
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
	var cells []cell
	for _, r := range rows {
		var v fleet.Volume
		if err := json.Unmarshal(r.Found, &v); err != nil {
			return nil, fmt.Errorf("read volume %s: %w", r.Volume, err)
		}
		if k := slices.IndexFunc(pools, func(p db.Pool) bool { return string(p.ID) == r.PoolID }); k >= 0 {
			cells = append(cells, cell{pool: pools[k], host: r.HostID, status: &fleet.PoolStatus{State: fleet.PoolActive, Volumes: []fleet.Volume{v}}})
		}
	}
	known, err := judged(ctx, q, a, mergeVolumes(cells))
	if err != nil {
		return nil, err
	}
	var kept []namedVolume
	used := map[fleet.Volref]*VMRef{}
	for _, v := range known {
		ref := fleet.Volref{PoolID: v.PoolID, Volume: v.Name}
		switch {
		case v.VM != nil:
			used[ref] = v.VM
		case v.usableBy(a):
			kept = append(kept, namedVolume{Volume: v.Volume, ref: ref, host: v.on, shared: v.Shared})
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
