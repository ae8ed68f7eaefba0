package query

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/fleet"
)

// NamedVolume is one host's report on an image, ISO or existing volume that a spec refers to.
type NamedVolume struct {
	fleet.Volume
	Ref    fleet.Volref
	Host   fleet.HostID
	Shared bool // whether the report of one host holds for all hosts of a shared pool
}

// NamedVolumes reads the hosts' reports on images, ISOs and existing volumes that the spec refers to. It omits volumes
// that the actor may not use. If a volume is a VM's disk, it returns a conflict.
func NamedVolumes(ctx context.Context, q *db.Queries, a fleet.Actor, spec fleet.VMSpec, pools []db.Pool) ([]NamedVolume, error) {
	var params db.VolumesNamedParams
	for _, ref := range volumesOfSpec(spec) {
		params.Pools, params.Volumes = append(params.Pools, string(ref.PoolID)), append(params.Volumes, ref.Volume)
	}
	if len(params.Pools) == 0 {
		return nil, nil
	}
	rows, err := q.VolumesNamed(ctx, params)
	if err != nil {
		return nil, err
	}
	var statuses []poolVolumeReport
	for _, r := range rows {
		var v fleet.Volume
		if err := json.Unmarshal(r.Found, &v); err != nil {
			return nil, fmt.Errorf("read volume %s: %w", r.Volume, err)
		}
		if k := slices.IndexFunc(pools, func(p db.Pool) bool { return string(p.ID) == r.PoolID }); k >= 0 {
			statuses = append(statuses, poolVolumeReport{pool: pools[k], host: r.HostID, volumes: []fleet.Volume{v}})
		}
	}
	known, err := visibleVolumes(ctx, q, a, mergeVolumes(statuses))
	if err != nil {
		return nil, err
	}
	var usable []NamedVolume
	used := map[fleet.Volref]*VMRef{}
	for _, v := range known {
		ref := fleet.Volref{PoolID: v.PoolID, Volume: v.Name}
		switch {
		case v.VM != nil && v.VM.diskShareable && isShareableDisk(spec, ref) && v.readableByActor(a):
			usable = append(usable, NamedVolume{Volume: v.Volume, Ref: ref, Host: v.hostID, Shared: v.Shared})
		case v.VM != nil:
			used[ref] = v.VM
		case v.readableByActor(a):
			usable = append(usable, NamedVolume{Volume: v.Volume, Ref: ref, Host: v.hostID, Shared: v.Shared})
		}
	}
	for ref, owner := range used { // an owner on one host does not use volumes of the same name on other hosts
		if !slices.ContainsFunc(usable, func(v NamedVolume) bool { return v.Ref == ref }) {
			return nil, fleet.Errorf(fleet.Conflict, "%s is a disk of the VM %s. Choose a volume that no VM uses.", ref.Volume, owner.Name)
		}
	}
	return usable, nil
}

func isShareableDisk(spec fleet.VMSpec, ref fleet.Volref) bool {
	return slices.ContainsFunc(spec.Disks, func(d fleet.Disk) bool { return d.Shareable && d.Ref() == ref })
}

// volumesOfSpec lists the volumes that the spec's disks and drives clone or use.
func volumesOfSpec(spec fleet.VMSpec) []fleet.Volref {
	var refs []fleet.Volref
	for _, d := range spec.Disks {
		if d.Image != nil {
			refs = append(refs, *d.Image)
		}
		if d.Existing {
			refs = append(refs, d.Ref())
		}
	}
	for _, m := range spec.Media() {
		if m.Kind != fleet.MediumFolder {
			refs = append(refs, m.Volref)
		}
	}
	return refs
}
