package control

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ImageFile identifies a volume that is published as an image, or withdrawn from the library.
type ImageFile struct {
	PoolID fleet.PoolID
	Volume string
	HostID fleet.HostID // the file's host, for a local pool; empty: all hosts with the file
}

// PublishImage adds a volume to the library as an image with the volume's name, and publishes the image to every
// project.
func (c *Control) PublishImage(ctx context.Context, a fleet.Actor, in ImageFile) error {
	files, err := c.volumesUsableAsImage(ctx, a, in)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(files, func(v query.VolumeOn) bool { return !v.OfferedToAnyProject(nil) }) {
		return nil // already published to all
	}
	for _, v := range files { // projects see an image with all its copies, so publishing the file would publish the image
		if v.Published != nil && v.Published.Stale == "" {
			return fleet.Errorf(fleet.Conflict, "%s is a copy of the image %s already. Publish that image instead.", v.Name, v.Published.Image)
		}
	}
	return assign.PoolType.ChangeObject(ctx, c.store, a, string(in.PoolID), func(q *db.Queries, pool assign.AssignableObject) error {
		if err := checkNoOverlays(ctx, q, in); err != nil {
			return err
		}
		if _, err := removeImageCopies(ctx, q, in); err != nil { // a stale copy describes a file that has been replaced
			return err
		}
		byFacts := map[string]fleet.ImageVersionID{} // files with equal checksums are copies of one version
		for _, v := range files {
			if err := checkVolumeIdle(ctx, q, v); err != nil {
				return err
			}
			key := fmt.Sprint(v.Format, v.CapacityBytes)
			version, found := byFacts[key]
			if !found {
				id, err := addPublicImage(ctx, q, a, v.Name)
				if err != nil {
					return err
				}
				if version, err = addImageVersion(ctx, q, a, fleet.ImageVersion{ImageID: id, Format: v.Format, CapacityBytes: v.CapacityBytes, Source: "a file of pool " + pool.Name}); err != nil {
					return err
				}
				byFacts[key] = version
			}
			if err := addImageCopy(ctx, q, a, version, v); err != nil {
				return err
			}
		}
		return store.Audit(ctx, q, a, "image.publish", pool.Subject(), pool.Name, in.auditDetail())
	})
}

// WithdrawImage removes a volume from the library; its file stays. Existing clones and drives keep using it.
func (c *Control) WithdrawImage(ctx context.Context, a fleet.Actor, in ImageFile) error {
	return assign.PoolType.ChangeObject(ctx, c.store, a, string(in.PoolID), func(q *db.Queries, pool assign.AssignableObject) error {
		if err := checkNoOverlays(ctx, q, in); err != nil {
			return err
		}
		n, err := removeImageCopies(ctx, q, in)
		if err != nil {
			return err
		}
		if n == 0 {
			return fleet.Errorf(fleet.NotFound, "%q is not published.", in.Volume)
		}
		return store.Audit(ctx, q, a, "image.withdraw", pool.Subject(), pool.Name, in.auditDetail())
	})
}

func (in ImageFile) auditDetail() string {
	if in.HostID == "" {
		return in.Volume
	}
	return in.Volume + " on host " + string(in.HostID)
}

// volumesUsableAsImage returns the volumes that the input names, several if hosts have a local pool with files of that
// name. It refuses if one of them is unusable as an image or on no online host.
func (c *Control) volumesUsableAsImage(ctx context.Context, a fleet.Actor, in ImageFile) ([]query.VolumeOn, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	all, err := c.PoolVolumes(ctx, a, in.PoolID)
	if err != nil {
		return nil, err
	}
	files := slices.DeleteFunc(all, func(v query.VolumeOn) bool {
		return v.Name != in.Volume || in.HostID != "" && v.LocalHost() != "" && v.LocalHost() != in.HostID
	})
	if len(files) == 0 {
		return nil, fleet.Errorf(fleet.NotFound, "The pool has no volume %q there.", in.Volume)
	}
	for _, v := range files {
		switch {
		case v.Unfit != "":
			return nil, fleet.Errorf(fleet.Conflict, "%s cannot be published. %s", v.Name, v.Unfit)
		case len(v.Hosts) == 0:
			return nil, fleet.Errorf(fleet.Conflict, "%s cannot be published now: no online host has it.", v.Name)
		}
	}
	return files, nil
}

// checkVolumeIdle refuses to publish a volume that has an unfinished job. The volume's pool must be locked.
func checkVolumeIdle(ctx context.Context, q *db.Queries, v query.VolumeOn) error {
	work, err := storage.UnfinishedVolumeJobVerb(ctx, q, v.PoolID, v.Name, v.LocalHost())
	if err == nil && work != "" {
		err = fleet.Errorf(fleet.Conflict, "%s cannot be published now: another task for it has not ended (%s).", v.Name, work)
	}
	return err
}

// removeImageCopies removes the copies in the named file from the library, with versions and images that have no other
// copy. It returns the number of removed copies.
func removeImageCopies(ctx context.Context, q *db.Queries, in ImageFile) (int64, error) {
	at, err := q.CopiesAt(ctx, db.CopiesAtParams{PoolID: in.PoolID, Volume: in.Volume, Host: string(in.HostID)})
	if err != nil || len(at) == 0 {
		return 0, err
	}
	n, err := q.ForgetCopies(ctx, db.ForgetCopiesParams{PoolID: in.PoolID, Volume: in.Volume, Host: string(in.HostID)})
	if err != nil {
		return n, err
	}
	var versions []string
	for _, r := range at {
		versions = append(versions, string(r.VersionID))
	}
	return n, q.DropEmptyImages(ctx, versions)
}

// checkNoOverlays refuses the removal of a file that backs VMs' disks, including disks not yet created.
func checkNoOverlays(ctx context.Context, q *db.Queries, in ImageFile) error {
	on, err := query.VMsBackedByCopy(ctx, q, fleet.ImageCopy{PoolID: in.PoolID, Volume: in.Volume, HostID: in.HostID})
	if err == nil && len(on) > 0 {
		err = fleet.Errorf(fleet.Conflict, "Disks are backed by %s, so the file cannot be removed from the library (%s). Delete those disks first.", in.Volume, on[0])
	}
	return err
}

// addPublicImage adds a global image that is published to every project. If another image has the name, it appends a
// number.
func addPublicImage(ctx context.Context, q *db.Queries, a fleet.Actor, name string) (fleet.ImageID, error) {
	id := fleet.NewID[fleet.ImageID]()
	free, err := q.FreeImageName(ctx, name)
	if err != nil {
		return id, err
	}
	if err := q.AddImage(ctx, db.AddImageParams{ID: id, Name: free, CreatedBy: a.Name}); err != nil {
		return id, imageNameTakenError(err, free)
	}
	_, err = q.GrantImage(ctx, db.GrantImageParams{ImageID: id, GrantedBy: a.Name})
	return id, err
}

// addImageVersion adds v to the image v.ImageID.
func addImageVersion(ctx context.Context, q *db.Queries, a fleet.Actor, v fleet.ImageVersion) (fleet.ImageVersionID, error) {
	id := fleet.NewID[fleet.ImageVersionID]()
	in := db.AddImageVersionParams{ID: id, ImageID: v.ImageID, Format: v.Format, CapacityBytes: v.CapacityBytes, Sha256: v.SHA256, Source: v.Source, CreatedBy: a.Name}
	if v.StartID != "" {
		in.StartID = &v.StartID
	}
	_, err := q.AddImageVersion(ctx, in)
	return id, err
}

func addImageCopy(ctx context.Context, q *db.Queries, a fleet.Actor, version fleet.ImageVersionID, v query.VolumeOn) error {
	n, err := q.AddImageCopy(ctx, db.AddImageCopyParams{VersionID: version, PoolID: v.PoolID, Host: string(v.LocalHost()), Volume: v.Name, AddedBy: a.Name})
	if err == nil && n == 0 {
		err = fleet.Errorf(fleet.Conflict, "The library has %s already. Use that image.", v.Name)
	}
	return err
}

func imageNameTakenError(err error, name string) error {
	return store.NameTakenError(err, "image_name_taken", "An image named %q is in the library already. Add a version to it, or choose another name.", name)
}
