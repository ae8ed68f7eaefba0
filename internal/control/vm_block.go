package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/publishing"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// checkPoolsForDisks refuses disks in pools that are not published to the project, and disks that the kind of their pool
// does not support. It adapts names of new volumes to the kind. For disks on existing volumes it locks the pool, so that no other VM gets the volume until the transaction
// ends.
func checkPoolsForDisks(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, disks []fleet.Disk) error {
	if err := publishing.CheckPools(ctx, q, a, project, disks); err != nil {
		return err
	}
	ids := store.ToStrings(fleet.VMSpec{Disks: disks}.Pools())
	slices.Sort(ids)
	for _, id := range ids {
		if slices.ContainsFunc(disks, func(d fleet.Disk) bool { return d.Existing && string(d.PoolID) == id }) {
			if _, err := q.LockPool(ctx, fleet.PoolID(id)); err != nil {
				return store.NotFoundError(err, "pool")
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
			continue // placement reports the missing pool
		}
		at := fmt.Sprintf("spec.disks[%d]", i)
		if checkPoolSupportsDisk(a, &checks, at, &disks[i], rows[k]) && disks[i].Existing {
			if err := checkVolumeUnused(ctx, q, &checks, at, disks[:i], disks[i]); err != nil {
				return err
			}
		}
	}
	return checks.Err()
}

// checkPoolSupportsDisk reports whether the kind of the disk's pool supports the disk, and records an error in c if not. It
// adapts the name of a new volume to the kind.
func checkPoolSupportsDisk(a fleet.Actor, c *fleet.Checks, at string, d *fleet.Disk, pool db.Pool) bool {
	is := pool.Spec.Kind.Info()
	switch {
	case !d.Existing && !is.CreatesVolumes:
		c.Add(at+".volume", "Pool %s makes no volumes. Choose an existing volume of its storage.", pool.Name)
	case !d.Existing && !is.FilePool && (d.Image != nil || d.ImageID != ""):
		c.Add(at+".image", "Disks in pool %s begin empty: images can only be copied into file pools.", pool.Name)
	case !is.FilePool && d.Encryption != "":
		c.Add(at+".encryption", "Disks in pool %s are not files, so Quantix cannot encrypt them. Let the storage encrypt them.", pool.Name)
	case !d.Existing:
		if !is.FilePool {
			d.Format = "" // a block volume is always raw
		}
		d.Volume = d.NewVolumeName(d.Volume, pool.Spec.Kind)
		return true
	case d.Existing && is.CreatesVolumes && !d.Shareable:
		c.Add(at+".existing", "Pool %s makes a volume for each disk. Add a new disk, or a shareable disk on an existing raw volume.", pool.Name)
	case d.Existing && !policy.May(a, policy.InfraChange, ""):
		c.Add(at+".volume", "Only those who may change infrastructure may attach an existing volume to a VM.")
	default:
		return true
	}
	return false
}

// checkVolumeUnused refuses a volume that is already a disk of this VM or of another VM.
func checkVolumeUnused(ctx context.Context, q *db.Queries, c *fleet.Checks, at string, before []fleet.Disk, d fleet.Disk) error {
	if slices.ContainsFunc(before, func(o fleet.Disk) bool { return o.Ref() == d.Ref() }) {
		c.Add(at+".volume", "%s is another disk of this VM already.", d.Volume)
		return nil
	}
	text, err := q.VolumeInUse(ctx, db.VolumeInUseParams{PoolID: string(d.PoolID), Volume: d.Volume})
	if err != nil {
		return err
	}
	var users fleet.VolumeUsers
	if err := json.Unmarshal(text, &users); err != nil {
		return fmt.Errorf("read the users of volume %s: %w", d.Volume, err)
	}
	switch {
	case d.Shareable:
		return checkVolumeSharable(ctx, q, c, at, d, users)
	case users.Disk != "":
		c.Add(at+".volume", "%s is a disk of the VM %s already: two VMs that write to one volume destroy its data.", d.Volume, users.Disk)
	}
	return nil
}

// checkVolumeSharable refuses to share a volume that a VM uses exclusively, or that backs other volumes.
func checkVolumeSharable(ctx context.Context, q *db.Queries, c *fleet.Checks, at string, d fleet.Disk, users fleet.VolumeUsers) error {
	switch {
	case users.Published:
		c.Add(at+".volume", "%s is published in the image library. Copy it, and share the copy.", d.Volume)
	case users.CreatedVM != "":
		c.Add(at+".volume", "The VM %s is being made from %s. Wait until that is done.", users.CreatedVM, d.Volume)
	case users.Drive != "":
		c.Add(at+".volume", "The VM %s uses %s in a drive or as a boot file. Remove it there first.", users.Drive, d.Volume)
	}
	all, err := q.VolumeSharers(ctx, db.VolumeSharersParams{PoolID: string(d.PoolID), Volume: d.Volume})
	if err == nil && len(all) > 0 && !all[0].Shares {
		c.Add(at+".volume", "%s is an exclusive disk of the VM %s. Make the disk shareable in that VM first.", d.Volume, all[0].Name)
	}
	return err
}

// checkDisksMadeExclusive refuses to make a shareable disk exclusive if other VMs use its volume, or if its pool creates a
// volume per disk. It locks the pool, so that no other VM gets the volume until the transaction ends.
func checkDisksMadeExclusive(ctx context.Context, q *db.Queries, old fleet.VMView, to fleet.VMSpec) error {
	var checks fleet.Checks
	for i, d := range to.Disks {
		was := slices.IndexFunc(old.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
		if d.Shareable || was < 0 || !old.Spec.Disks[was].Shareable {
			continue
		}
		at := fmt.Sprintf("spec.disks[%d].shareable", i)
		pool, err := q.LockPool(ctx, d.PoolID)
		if err != nil {
			return store.NotFoundError(err, "pool")
		}
		if pool.Spec.Kind.Info().CreatesVolumes {
			checks.Add(at, "The volume %s existed before the VM, and the VM may use it only as a shareable disk. Detach it, and add a new disk to the VM.", d.Volume)
			continue
		}
		all, err := q.VolumeSharers(ctx, db.VolumeSharersParams{PoolID: string(d.PoolID), Volume: d.Volume})
		if err != nil {
			return err
		}
		if k := slices.IndexFunc(all, func(v db.VolumeSharersRow) bool { return v.ID != old.ID }); k >= 0 {
			checks.Add(at, "The VM %s has %s, too: two VMs that write to one volume destroy its data. Detach it there first.", all[k].Name, d.Volume)
		}
	}
	return checks.Err()
}
