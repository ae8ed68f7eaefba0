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

// VolumeUse returns what uses the volume, which determines the allowed actions.
func (v VolumeOn) VolumeUse() fleet.VolumeUse {
	return fleet.VolumeUse{Volume: v.Volume, Held: v.inUse, Online: len(v.Hosts) > 0, Work: v.runningWork, Busy: v.runningVM}
}

// addVolumeActions fills in what uses the volumes of one pool, and the allowed actions. The actor must be permitted to
// change infrastructure.
func addVolumeActions(ctx context.Context, q *db.Queries, a fleet.Actor, pool db.Pool, volumes []VolumeOn) ([]VolumeOn, error) {
	var params db.DrivesWithParams
	var domains []string
	for _, v := range volumes {
		if v.IsISO() || v.IsImage() {
			params.Pools, params.Volumes = append(params.Pools, string(v.PoolID)), append(params.Volumes, v.Name)
		}
		for _, d := range v.driveDomains {
			domains = append(domains, string(d.id))
		}
	}
	drives, err := readVMNamesByDriveVolume(ctx, q, params, domains)
	if err != nil {
		return nil, err
	}
	works, err := q.VolumesAtWork(ctx, string(pool.ID))
	if err != nil {
		return nil, store.UserError(err)
	}
	volumes, err = visibleVolumes(ctx, q, a, volumes)
	if err != nil {
		return nil, err
	}
	running, err := runningVMsUsingVolumes(ctx, q, volumes)
	if err != nil {
		return nil, err
	}
	exports, err := q.ExportsInPool(ctx, pool.ID)
	if err != nil {
		return nil, store.UserError(err)
	}
	for i := range volumes {
		v := &volumes[i]
		if v.VM != nil {
			v.inUse.Disk = v.VM.Name
		}
		v.inUse.Drive, v.inUse.Published, v.runningWork = drives.vmNameForVolume(*v), v.Published != nil, runningOperationOnVolume(works, *v)
		if v.Published != nil {
			v.inUse.Image = v.Published.Image
		}
		for _, id := range append(slices.Clone(v.UsedBy), v.ownerID()) {
			v.runningVM = cmp.Or(v.runningVM, running[id])
		}
		v.Orphan = v.Format != fleet.FormatLUN && len(v.Hosts) > 0 && v.VM == nil && len(v.diskDomains)+len(v.driveDomains)+len(v.BaseOf) == 0 && v.inUse == fleet.VolumeUsers{} && v.runningWork == ""
		for _, e := range exports {
			if e.Volume == v.Name && (v.hostID == "" || v.hostID == e.HostID) {
				v.FetchUntil, v.Orphan = &e.ExpiresAt, false
			}
		}
		v.Actions = policy.RestrictActions(a, "volume", "", v.VolumeUse().Actions())
	}
	return volumes, nil
}

func (v VolumeOn) ownerID() fleet.VMID {
	if v.VM == nil {
		return ""
	}
	return v.VM.ID
}

// vmNamesByDriveVolume are the names of VMs that have a volume in a CD-ROM drive, according to their specs and to hosts'
// reports.
type vmNamesByDriveVolume struct {
	bySpec   map[fleet.Volref]string
	byReport map[domainKey]string
}

func readVMNamesByDriveVolume(ctx context.Context, q *db.Queries, params db.DrivesWithParams, domains []string) (vmNamesByDriveVolume, error) {
	d := vmNamesByDriveVolume{map[fleet.Volref]string{}, map[domainKey]string{}}
	if len(params.Pools) > 0 {
		rows, err := q.DrivesWith(ctx, params)
		if err != nil {
			return d, store.UserError(err)
		}
		for _, r := range rows {
			d.bySpec[fleet.Volref{PoolID: fleet.PoolID(r.PoolID), Volume: r.Volume}] = r.Name
		}
	}
	if len(domains) > 0 {
		rows, err := q.DomainsNamed(ctx, domains)
		if err != nil {
			return d, store.UserError(err)
		}
		for _, r := range rows {
			d.byReport[domainKey{r.HostID, r.ID}] = r.Name
		}
	}
	return d, nil
}

// vmNameForVolume returns the name of a VM with the volume in its drive, or an empty string.
func (d vmNamesByDriveVolume) vmNameForVolume(v VolumeOn) string {
	if name := d.bySpec[fleet.Volref{PoolID: v.PoolID, Volume: v.Name}]; name != "" || len(v.driveDomains) == 0 {
		return name
	}
	return cmp.Or(d.byReport[v.driveDomains[0]], string(v.driveDomains[0].id))
}

// runningVMsUsingVolumes returns the names of those VMs that use the volumes and are not known to be off.
func runningVMsUsingVolumes(ctx context.Context, q *db.Queries, volumes []VolumeOn) (map[fleet.VMID]string, error) {
	var ids []string
	for _, v := range volumes {
		ids = append(ids, store.ToStrings(v.UsedBy)...)
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
		return nil, store.UserError(err)
	}
	for _, r := range rows {
		out[r.ID] = r.Name
	}
	return out, nil
}

// runningOperationOnVolume returns the verb of an unfinished job that changes or reads the volume, or an empty string.
func runningOperationOnVolume(works []db.VolumesAtWorkRow, v VolumeOn) string {
	for _, w := range works {
		ref, _ := w.Subject.Volume()
		if (ref.IsVolumeOrPartialFile(v.Name) || w.Source == v.Name) && (v.hostID == "" || v.hostID == w.HostID) {
			return w.Kind.Info().Verb
		}
	}
	return ""
}
