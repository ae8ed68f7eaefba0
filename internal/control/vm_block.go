package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// disksInKinds refuses disks that their pools' kinds cannot have, and names those as the kinds do. A volume that is given to a VM as it is
// is nobody else's: until the transaction ends its pool is locked.
func disksInKinds(ctx context.Context, q *db.Queries, a fleet.Actor, disks []fleet.Disk) error {
	ids := store.Texts(fleet.VMSpec{Disks: disks}.Pools())
	slices.Sort(ids)
	for _, id := range ids {
		if slices.ContainsFunc(disks, func(d fleet.Disk) bool { return d.Existing && string(d.PoolID) == id }) {
			if _, err := q.LockPool(ctx, fleet.PoolID(id)); err != nil {
				return store.NotFound(err, "pool")
			}
		}
	}
	rows, err := q.PoolsForWork(ctx, ids)
	if err != nil {
		return err
	}
	var checks fleet.Checks
	for i := range disks {
		k := slices.IndexFunc(rows, func(p db.Pool) bool { return p.ID == disks[i].PoolID })
		if k < 0 {
			continue // placement says that there is none
		}
		if err := diskInKind(ctx, q, a, &checks, fmt.Sprintf("spec.disks[%d]", i), disks, i, rows[k]); err != nil {
			return err
		}
	}
	return checks.Err()
}

func diskInKind(ctx context.Context, q *db.Queries, a fleet.Actor, c *fleet.Checks, at string, disks []fleet.Disk, i int, pool db.Pool) error {
	d, is := &disks[i], pool.Spec.Kind.Is()
	switch {
	case !d.Existing && !is.Makes:
		c.Add(at+".volume", "Pool %s makes no volumes: choose one of those that its storage has.", pool.Name)
	case !d.Existing && !is.Files && (d.Image != nil || d.ImageID != ""):
		c.Add(at+".image", "Disks in pool %s begin empty: images are copied into pools of files alone.", pool.Name)
	case !d.Existing && !is.Files:
		d.Volume = strings.TrimSuffix(d.Volume, ".qcow2") + ".raw"
	case d.Existing && is.Makes:
		c.Add(at+".existing", "Pool %s makes a volume for each disk. Ask for a new one.", pool.Name)
	case d.Existing && !policy.May(a, policy.InfraChange, ""):
		c.Add(at+".volume", "Only those who run the hosts give a VM a volume that is there already.")
	case d.Existing:
		return volumeFree(ctx, q, c, at, disks[:i], *d)
	}
	return nil
}

// volumeFree refuses a volume that another disk is, of this VM or of any.
func volumeFree(ctx context.Context, q *db.Queries, c *fleet.Checks, at string, before []fleet.Disk, d fleet.Disk) error {
	if slices.ContainsFunc(before, func(o fleet.Disk) bool { return o.Ref() == d.Ref() }) {
		c.Add(at+".volume", "%s is another disk of this VM already.", d.Volume)
		return nil
	}
	text, err := q.VolumeHeld(ctx, db.VolumeHeldParams{PoolID: string(d.PoolID), Volume: d.Volume})
	if err != nil {
		return err
	}
	var held fleet.VolumeHeld
	if err := json.Unmarshal(text, &held); err != nil {
		return fmt.Errorf("read who has the volume %s: %w", d.Volume, err)
	}
	if held.Disk != "" {
		c.Add(at+".volume", "%s is a disk of the VM %s already: two guests on one volume destroy it.", d.Volume, held.Disk)
	}
	return nil
}

// fits refuses to make what the pool's kind cannot have.
func (j volumeJob) fits(spec fleet.PoolSpec) error {
	is := spec.Kind.Is()
	var checks fleet.Checks
	switch {
	case !is.Makes:
		return fleet.Errorf(fleet.Conflict, "No volumes are made in a pool of kind %q: it has those that its storage has.", string(spec.Kind))
	case !is.Files && (j.kind == fleet.VolumeFetch || j.kind == fleet.VolumeUpload):
		return fleet.Errorf(fleet.Conflict, "Images come into pools of files alone, and this one is of kind %q.", string(spec.Kind))
	case !is.Files && j.order.Format != "raw":
		checks.Add("format", "Volumes of a pool of kind %q are raw.", string(spec.Kind))
	}
	return checks.Err()
}
