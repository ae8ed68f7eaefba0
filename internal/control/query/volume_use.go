package query

import (
	"cmp"
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Use returns the facts that decide which actions the volume allows.
func (v VolumeOn) Use() fleet.VolumeUse {
	return fleet.VolumeUse{Volume: v.Volume, Held: v.inUse, Online: len(v.Hosts) > 0, Work: v.runningWork, Busy: v.runningVM}
}

// withActions adds usage and actions to the volumes of one pool, for actors who may change them.
func withActions(ctx context.Context, q *db.Queries, a fleet.Actor, pool db.Pool, volumes []VolumeOn) ([]VolumeOn, error) {
	var params db.DrivesWithParams
	var domains []string
	for _, v := range volumes {
		if v.IsISO() || v.IsImage() {
			params.Pools, params.Volumes = append(params.Pools, string(v.PoolID)), append(params.Volumes, v.Name)
		}
		for _, d := range v.drives {
			domains = append(domains, string(d.id))
		}
	}
	drives, err := drivesOf(ctx, q, params, domains)
	if err != nil {
		return nil, err
	}
	works, err := q.VolumesAtWork(ctx, string(pool.ID))
	if err != nil {
		return nil, store.Err(err)
	}
	volumes, err = visibleVolumes(ctx, q, a, volumes)
	if err != nil {
		return nil, err
	}
	running, err := runningUsers(ctx, q, volumes)
	if err != nil {
		return nil, err
	}
	exports, err := q.ExportsInPool(ctx, pool.ID)
	if err != nil {
		return nil, store.Err(err)
	}
	for i := range volumes {
		v := &volumes[i]
		if v.VM != nil {
			v.inUse.Disk = v.VM.Name
		}
		v.inUse.Drive, v.inUse.Published, v.runningWork = drives.userOf(*v), v.Published != nil, runningWorkOn(works, *v)
		if v.Published != nil {
			v.inUse.Image = v.Published.Image
		}
		for _, id := range append(slices.Clone(v.UsedBy), v.owner()) {
			v.runningVM = cmp.Or(v.runningVM, running[id])
		}
		v.Orphan = v.Format != fleet.FormatLUN && len(v.Hosts) > 0 && v.VM == nil && len(v.users)+len(v.drives)+len(v.BaseOf) == 0 && v.inUse == fleet.VolumeInUse{} && v.runningWork == ""
		for _, e := range exports {
			if e.Volume == v.Name && (v.hostID == "" || v.hostID == e.HostID) {
				v.FetchUntil, v.Orphan = &e.ExpiresAt, false
			}
		}
		v.Actions = policy.RestrictActions(a, "volume", "", v.Use().Actions())
	}
	return volumes, nil
}

func (v VolumeOn) owner() fleet.VMID {
	if v.VM == nil {
		return ""
	}
	return v.VM.ID
}

// driveUsers are the names of VMs with volumes in their CD-ROM drives, from VM specs and from hosts' reports.
type driveUsers struct {
	bySpec   map[fleet.Volref]string
	byReport map[domainOn]string
}

func drivesOf(ctx context.Context, q *db.Queries, params db.DrivesWithParams, domains []string) (driveUsers, error) {
	d := driveUsers{map[fleet.Volref]string{}, map[domainOn]string{}}
	if len(params.Pools) > 0 {
		rows, err := q.DrivesWith(ctx, params)
		if err != nil {
			return d, store.Err(err)
		}
		for _, r := range rows {
			d.bySpec[fleet.Volref{PoolID: fleet.PoolID(r.PoolID), Volume: r.Volume}] = r.Name
		}
	}
	if len(domains) > 0 {
		rows, err := q.DomainsNamed(ctx, domains)
		if err != nil {
			return d, store.Err(err)
		}
		for _, r := range rows {
			d.byReport[domainOn{r.HostID, r.ID}] = r.Name
		}
	}
	return d, nil
}

// userOf returns the name of a VM with the volume in its drive, or an empty string.
func (d driveUsers) userOf(v VolumeOn) string {
	if name := d.bySpec[fleet.Volref{PoolID: v.PoolID, Volume: v.Name}]; name != "" || len(v.drives) == 0 {
		return name
	}
	return cmp.Or(d.byReport[v.drives[0]], string(v.drives[0].id))
}

// runningUsers returns the names of VMs that use the volumes and are running, or whose power state is unknown.
func runningUsers(ctx context.Context, q *db.Queries, volumes []VolumeOn) (map[fleet.VMID]string, error) {
	var ids []string
	for _, v := range volumes {
		ids = append(ids, store.Texts(v.UsedBy)...)
		if v.VM != nil {
			ids = append(ids, string(v.VM.ID))
		}
	}
	out := map[fleet.VMID]string{}
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := q.DomainsOn(ctx, ids)
	if err != nil {
		return nil, store.Err(err)
	}
	for _, r := range rows {
		out[r.ID] = r.Name
	}
	return out, nil
}

// runningWorkOn returns the running operation on the volume, or with the volume as source, or an empty string.
func runningWorkOn(works []db.VolumesAtWorkRow, v VolumeOn) string {
	for _, w := range works {
		ref, _ := w.Subject.Volume()
		if (ref.IsVolumeOrPartialFile(v.Name) || w.Source == v.Name) && (v.hostID == "" || v.hostID == w.HostID) {
			return w.Kind.Info().Verb
		}
	}
	return ""
}
