package query

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Copies are copies of image versions, each with its volume if a host reports one.
type Copies []CopyWithVolume

// CopyWithVolume is a copy of an image version with the volume that hosts report for it. On is nil if no host reports one.
type CopyWithVolume struct {
	fleet.ImageCopy
	VersionID fleet.ImageVersionID
	Shared    bool
	On        *VolumeOn
}

// CopiesOfImage returns the copies of an image with their volumes.
func (b *Queries) CopiesOfImage(ctx context.Context, a fleet.Actor, v fleet.ImageView) (Copies, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	return b.readCopies(ctx, v.Versions)
}

// readCopies reads the copies of the versions and derives their states from the hosts' reports.
func (b *Queries) readCopies(ctx context.Context, versions []fleet.ImageVersion) (Copies, error) {
	of := map[fleet.ImageVersionID]fleet.ImageVersion{}
	var ids []string
	for _, v := range versions {
		of[v.ID] = v
		ids = append(ids, string(v.ID))
	}
	var s statementBuilder
	s.addCondition("c.version_id = ANY (" + s.addKeyArg(ids) + "::text[])")
	copies, err := collectRows(ctx, b, `SELECT c.version_id, c.pool_id, p.name, (p.spec->>'shared')::boolean, COALESCE(c.host_id, ''), COALESCE(h.name, ''), c.volume, c.added_by, c.added_at
		FROM image_copies c JOIN pools p ON p.id = c.pool_id LEFT JOIN hosts h ON h.id = c.host_id`+s.whereClause()+" ORDER BY p.name, h.name, c.volume", &s,
		func(x pgx.CollectableRow) (c CopyWithVolume, err error) {
			err = x.Scan(&c.VersionID, &c.PoolID, &c.PoolName, &c.Shared, &c.HostID, &c.HostName, &c.Volume, &c.AddedBy, &c.AddedAt)
			return c, err
		})
	if err != nil || len(copies) == 0 {
		return copies, err
	}
	var pools []string
	for _, c := range copies {
		pools = append(pools, string(c.PoolID))
	}
	slices.Sort(pools)
	pools = slices.Compact(pools)
	statuses, err := b.readNonDiskVolumeReports(ctx, pools)
	if err != nil {
		return nil, err
	}
	volumes, err := visibleVolumes(ctx, b.store.Queries, fleet.SystemActor, mergeVolumes(statuses))
	if err != nil {
		return nil, err
	}
	type place struct {
		pool   fleet.PoolID
		host   fleet.HostID // empty for any host
		volume string
	}
	on, reachable := map[place]*VolumeOn{}, map[place]bool{}
	for i := range volumes {
		v := &volumes[i]
		if at := (place{v.PoolID, v.hostID, v.Name}); on[at] == nil {
			on[at] = v
		}
	}
	for _, x := range statuses {
		if x.ready {
			reachable[place{pool: x.pool.ID}], reachable[place{pool: x.pool.ID, host: x.host}] = true, true
		}
	}
	for i := range copies {
		c := &copies[i]
		c.On = on[place{c.PoolID, c.HostID, c.Volume}]
		c.deriveCopyState(of[c.VersionID], reachable[place{pool: c.PoolID, host: c.HostID}])
	}
	return copies, b.addRunningOperations(ctx, pools, copies)
}

// deriveCopyState sets the copy's state from its volume. reachable is whether an online host that could have the copy
// has the pool active.
func (c *CopyWithVolume) deriveCopyState(v fleet.ImageVersion, reachable bool) {
	switch on := c.On; {
	case on == nil && reachable:
		c.State, c.Why = fleet.CopyMissing, "The pool "+c.PoolName+" has no file "+c.Volume+"."
	case on == nil || len(on.Hosts) == 0:
		c.State, c.Why = fleet.CopyUnknown, "No online host has the pool "+c.PoolName+" active."
	case on.Published == nil:
		c.State, c.Why = fleet.CopyUnknown, "It was removed from the library meanwhile."
	case on.Published.Stale != "":
		c.State, c.Why = fleet.CopyChanged, on.Published.Stale
	case on.SHA256 != "" && on.SHA256 == v.SHA256:
		c.State = fleet.CopyReady
	default:
		c.State = fleet.CopyUnverified
	}
	if c.On == nil {
		return
	}
	c.AllocBytes, c.SHA256, c.SeenAt = c.On.AllocBytes, c.On.SHA256, c.On.SeenAt
	c.Overlays = slices.Clone(c.On.BaseOf)
}

// addRunningOperations fills in Work, the unfinished operation on each copy.
func (b *Queries) addRunningOperations(ctx context.Context, pools []string, copies Copies) error {
	rows, err := b.store.WorkOnVolumes(ctx, pools)
	if err != nil {
		return store.UserError(err)
	}
	works := map[string][]db.VolumesAtWorkRow{}
	for _, r := range rows {
		works[r.PoolID] = append(works[r.PoolID], db.VolumesAtWorkRow{Subject: r.Subject, Kind: r.Kind, HostID: r.HostID, State: r.State, Source: r.Source})
	}
	for i := range copies {
		c := &copies[i]
		c.Work = runningOperationOnVolume(works[string(c.PoolID)], VolumeOn{Volume: fleet.Volume{Name: c.Volume}, hostID: c.HostID})
		if c.Work != "" && (c.State == fleet.CopyMissing || c.State == fleet.CopyUnknown) {
			c.State, c.Why = fleet.CopyInProgress, "A host is at it: "+strings.ToLower(c.Work)+"."
		}
	}
	return nil
}

// addImageCopies fills in the copies of the versions and the names of VMs created from them.
func (b *Queries) addImageCopies(ctx context.Context, versions []fleet.ImageVersion) error {
	if len(versions) == 0 {
		return nil
	}
	copies, err := b.readCopies(ctx, versions)
	if err != nil {
		return err
	}
	var ids []string
	for _, v := range versions {
		ids = append(ids, string(v.ID))
	}
	if err := b.addBackedVMs(ctx, copies); err != nil {
		return err
	}
	created, err := b.store.ImagesCreated(ctx, ids)
	if err != nil {
		return store.UserError(err)
	}
	names, of := map[string][]string{}, map[fleet.ImageVersionID][]*CopyWithVolume{}
	for _, m := range created {
		names[m.VersionID] = m.Names
	}
	for i := range copies {
		of[copies[i].VersionID] = append(of[copies[i].VersionID], &copies[i])
	}
	for i := range versions {
		v := &versions[i]
		v.Copies = []fleet.ImageCopy{}
		if all, known := names[string(v.ID)]; known {
			v.VMs = all
		}
		for _, c := range of[v.ID] {
			v.Copies = append(v.Copies, c.ImageCopy)
			v.Usable, v.Verified = v.Usable || c.Usable(), v.Verified || c.State == fleet.CopyReady
		}
		for k := range v.Copies {
			v.Copies[k].Actions = v.CopyActions(v.Copies[k])
		}
	}
	return nil
}

// addBackedVMs fills in the VMs with disks that are backed by each copy, including disks not created yet.
func (b *Queries) addBackedVMs(ctx context.Context, copies Copies) error {
	on, err := overlaysOf(ctx, b.store.Queries, copies)
	for i := range copies {
		c := &copies[i]
		c.Overlays = append(c.Overlays, on[i]...)
		slices.Sort(c.Overlays)
		c.Overlays = slices.Compact(c.Overlays)
	}
	return err
}

func overlaysOf(ctx context.Context, q *db.Queries, copies Copies) ([][]string, error) {
	var params db.OverlaysOnParams
	for _, c := range copies {
		params.Pools, params.Volumes, params.Hosts = append(params.Pools, string(c.PoolID)), append(params.Volumes, c.Volume), append(params.Hosts, string(c.HostID))
	}
	out := make([][]string, len(copies))
	if len(copies) == 0 {
		return out, nil
	}
	rows, err := q.OverlaysOn(ctx, params)
	for _, r := range rows {
		for i, c := range copies {
			if string(c.PoolID) != r.PoolID || c.Volume != r.Volume || string(c.HostID) != r.Host {
				continue
			}
			for _, name := range r.Names {
				out[i] = append(out[i], "VM "+name)
			}
		}
	}
	return out, store.UserError(err)
}

// VMsBackedByCopy returns the VMs with disks backed by the copy, according to their specs. Disks not created yet count too.
func VMsBackedByCopy(ctx context.Context, q *db.Queries, c fleet.ImageCopy) ([]string, error) {
	on, err := overlaysOf(ctx, q, Copies{{ImageCopy: c}})
	return on[0], err
}
