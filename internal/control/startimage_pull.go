package control

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/catalog"
	"quantix/internal/control/assign"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// imagePull is a request to download an image of the catalog into a pool.
type imagePull struct {
	PullDestination
	actor   fleet.Actor
	entryID fleet.StartImageID
	image   fleet.ImageID // the library image, once findOrAddImage has found or added it
}

// prepareDownloadJob returns a function for storage.QueueVolumeJob. The function locks the catalog entry, finds or adds
// the library image, and returns the host's download job.
func (p *imagePull) prepareDownloadJob(ctx context.Context) func(*db.Queries, assign.AssignableObject) (storage.VolumeJob, error) {
	return func(q *db.Queries, _ assign.AssignableObject) (storage.VolumeJob, error) {
		entry, err := lockStartImage(ctx, q, p.entryID)
		if err != nil {
			return storage.VolumeJob{}, err
		}
		busy, err := q.PullAtWork(ctx, p.entryID)
		switch {
		case err != nil:
			return storage.VolumeJob{}, err
		case busy:
			return storage.VolumeJob{}, fleet.Errorf(fleet.Conflict, "%s is being pulled already. Wait until its task has ended, or cancel the task.", entry.Name)
		}
		if err := p.findOrAddImage(ctx, q, entry); err != nil {
			return storage.VolumeJob{}, err
		}
		if err := q.DropFailedPulls(ctx, &p.entryID); err != nil {
			return storage.VolumeJob{}, err
		}
		j, err := storage.NewDownloadJob(p.PoolID, storage.NewDownload{URL: entry.URL, Checksum: entry.Checksum, ChecksumURL: entry.ChecksumURL, Name: entry.File})
		if err != nil {
			return j, err
		}
		j.AuditByCaller = true
		spec, err := storage.ReadPoolSpec(ctx, q, p.PoolID)
		if err != nil {
			return j, err
		}
		if err := j.CheckPoolKind(spec); err != nil {
			return j, err
		}
		if j.Host, err = storage.FindHostForVolumeJob(ctx, q, p.actor, j, storage.HostChoice{Named: p.HostID}); err != nil {
			return j, err
		}
		if j.Ref.Volume, err = unusedFileName(ctx, q, j.Ref, j.Host.ID, spec.Shared); err != nil {
			return j, err
		}
		version := fleet.ImageVersion{ImageID: p.image, Source: entry.URL, StartID: p.entryID}
		if _, err := addPendingVersion(ctx, q, p.actor, version, j, spec.Shared); err != nil {
			return j, err
		}
		return j, store.Audit(ctx, q, p.actor, "image.pull", fleet.SubjectImage(p.image), entry.Name, "from "+entry.URL)
	}
}

// findOrAddImage sets p.image to the library image of an earlier pull, or adds an image with the entry's name and
// facts.
func (p *imagePull) findOrAddImage(ctx context.Context, q *db.Queries, entry catalog.Image) error {
	was, err := q.ImageOfStart(ctx, &p.entryID)
	if err == nil {
		p.image = was.ID
		if _, err := q.LockImage(ctx, p.image); err != nil {
			return err
		}
		return p.checkContentIsNew(ctx, q, entry, was.Name)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	p.image = fleet.NewID[fleet.ImageID]()
	name, err := q.FreeImageName(ctx, entry.Name)
	if err != nil {
		return err
	}
	if err := q.AddImage(ctx, db.AddImageParams{ID: p.image, Name: name, Os: entry.OS, CreatedBy: p.actor.Name}); err != nil {
		return imageNameTakenError(err, name)
	}
	if !p.Public {
		return nil
	}
	_, err = q.GrantImage(ctx, db.GrantImageParams{ImageID: p.image, GrantedBy: p.actor.Name})
	return err
}

// checkContentIsNew refuses a download if a version of the image already has the download's checksum. It checks only
// entries with a known SHA-256.
func (p *imagePull) checkContentIsNew(ctx context.Context, q *db.Queries, entry catalog.Image, image string) error {
	digest, ok := strings.CutPrefix(entry.Checksum, "sha256:")
	if !ok {
		return nil
	}
	number, err := q.VersionWithBytes(ctx, db.VersionWithBytesParams{ImageID: p.image, Sha256: digest})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return fleet.Errorf(fleet.Conflict, "Version %d of the image %s has the same content already. Copy that version to the pool on the image's page.", number, image)
}

// unusedFileName returns the volume's name, with a numeric suffix if a volume of the pool or an image copy with a missing
// file has the name.
func unusedFileName(ctx context.Context, q *db.Queries, ref fleet.Volref, on fleet.HostID, shared bool) (string, error) {
	end := path.Ext(ref.Volume)
	stem := strings.TrimSuffix(ref.Volume, end)
	for n := 2; ; n++ {
		err := storage.CheckVolumeNameFree(ctx, q, ref, on, shared)
		if err != nil && (!storage.IsNameTakenOrInvalid(err) || n > 50) {
			return ref.Volume, err
		}
		lost, failed := q.CopiesAt(ctx, db.CopiesAtParams{PoolID: ref.PoolID, Volume: ref.Volume})
		if failed != nil || err == nil && (len(lost) == 0 || n > 50) {
			return ref.Volume, failed
		}
		ref.Volume = fmt.Sprintf("%s-%d%s", stem, n, end)
	}
}
