package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"quantix/db"
	"quantix/internal/catalog"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// NewStartImage is the input for an entry of the image catalog.
type NewStartImage struct {
	Name        string        `json:"name"`
	OS          fleet.OSFacts `json:"os,omitzero"`
	URL         string        `json:"url" doc:"As for a download"`
	File        string        `json:"file,omitempty" doc:"The file's name in a pool; empty: the last part of the address's path"`
	Checksum    string        `json:"checksum,omitempty" doc:"The SHA-256 or SHA-512 of the download"`
	ChecksumURL string        `json:"checksumUrl,omitempty" doc:"Instead of the checksum: the https address of a file with the checksum, in the format of sha256sum or BSD's sha256. The host reads this file first"`
}

// EditStartImage is the input of Control.EditStartImage. nil fields do not change.
type EditStartImage struct {
	Name        *string        `json:"name,omitempty"`
	OS          *fleet.OSFacts `json:"os,omitempty"`
	URL         *string        `json:"url,omitempty"`
	File        *string        `json:"file,omitempty"`
	Checksum    *string        `json:"checksum,omitempty"`
	ChecksumURL *string        `json:"checksumUrl,omitempty"`
}

// AddStartImage adds an entry to the image catalog.
func (c *Control) AddStartImage(ctx context.Context, a fleet.Actor, in NewStartImage) (fleet.StartImageID, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return "", err
	}
	i, err := checkStartImage(catalog.Image{Name: in.Name, OS: in.OS, URL: in.URL, File: in.File, Checksum: in.Checksum, ChecksumURL: in.ChecksumURL})
	if err != nil {
		return "", err
	}
	i.ID = fleet.NewID[fleet.StartImageID]()
	return i.ID, c.store.Tx(ctx, func(q *db.Queries) error {
		n, err := q.AddStartImage(ctx, db.AddStartImageParams{
			ID: i.ID, Name: i.Name, Os: i.OS, Url: i.URL, File: i.File, Checksum: i.Checksum, ChecksumUrl: i.ChecksumURL, ChangedBy: a.Name, Most: catalog.MaxImages,
		})
		switch {
		case err != nil:
			return startImageNameTakenError(err, i.Name)
		case n == 0:
			return fleet.Errorf(fleet.Conflict, "The list has %d entries, which is the maximum. Remove some first.", catalog.MaxImages)
		}
		return auditStartImage(ctx, q, a, "startimage.create", i)
	})
}

func checkStartImage(i catalog.Image) (catalog.Image, error) {
	var checks fleet.Checks
	i = i.Normalized()
	i.Check(&checks)
	return i, checks.Err()
}

// auditStartImage writes an audit line for a catalog entry. The URL needs no redaction: a catalog URL has no query.
func auditStartImage(ctx context.Context, q *db.Queries, a fleet.Actor, action string, i catalog.Image) error {
	detail := "from " + i.URL
	if sum := i.Checksum + i.ChecksumURL; sum != "" {
		detail += ", checksum " + sum
	}
	return store.Audit(ctx, q, a, action, startImageSubject(i.ID), i.Name, detail)
}

func startImageSubject(id fleet.StartImageID) fleet.Subject {
	return fleet.SubjectOf(fleet.TypeImage, id)
}

// EditStartImage changes an entry of the image catalog. Images already pulled do not change.
func (c *Control) EditStartImage(ctx context.Context, a fleet.Actor, id fleet.StartImageID, in EditStartImage) error {
	return c.changeStartImage(ctx, a, id, func(q *db.Queries, i catalog.Image) error {
		for _, part := range []struct {
			to   *string
			from *string
		}{{&i.Name, in.Name}, {&i.URL, in.URL}, {&i.File, in.File}, {&i.Checksum, in.Checksum}, {&i.ChecksumURL, in.ChecksumURL}} {
			if part.from != nil {
				*part.to = *part.from
			}
		}
		if in.OS != nil {
			i.OS = *in.OS
		}
		i, err := checkStartImage(i)
		if err != nil {
			return err
		}
		err = q.ChangeStartImage(ctx, db.ChangeStartImageParams{
			ID: id, Name: i.Name, Os: i.OS, Url: i.URL, File: i.File, Checksum: i.Checksum, ChecksumUrl: i.ChecksumURL, ChangedBy: a.Name,
		})
		if err != nil {
			return startImageNameTakenError(err, i.Name)
		}
		return auditStartImage(ctx, q, a, "startimage.edit", i)
	})
}

// RemoveStartImage removes an entry from the image catalog. Images pulled from it stay in the library.
func (c *Control) RemoveStartImage(ctx context.Context, a fleet.Actor, id fleet.StartImageID) error {
	return c.changeStartImage(ctx, a, id, func(q *db.Queries, i catalog.Image) error {
		if _, err := q.RemoveStartImage(ctx, id); err != nil {
			return err
		}
		return auditStartImage(ctx, q, a, "startimage.delete", i)
	})
}

// RestoreStartImages resets the entries shipped with Quantix and adds missing ones. Entries added by people stay.
func (c *Control) RestoreStartImages(ctx context.Context, a fleet.Actor) (n int64, err error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return 0, err
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		if n, err = q.RestoreStartImages(ctx); err != nil {
			return startImageNameTakenError(err, "")
		}
		return store.Audit(ctx, q, a, "startimage.restore", "", "well-known images", fmt.Sprintf("%d restored", n))
	})
	return n, err
}

// changeStartImage locks the entry and calls do with it in the same transaction.
func (c *Control) changeStartImage(ctx context.Context, a fleet.Actor, id fleet.StartImageID, do func(*db.Queries, catalog.Image) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	return c.store.Tx(ctx, func(q *db.Queries) error {
		i, err := lockStartImage(ctx, q, id)
		if err != nil {
			return err
		}
		return do(q, i)
	})
}

func lockStartImage(ctx context.Context, q *db.Queries, id fleet.StartImageID) (catalog.Image, error) {
	if err := store.CheckID(id, "entry"); err != nil {
		return catalog.Image{}, err
	}
	r, err := q.LockStartImage(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return catalog.Image{}, fleet.Errorf(fleet.NotFound, "There is no such entry among the well-known images.")
	}
	return catalog.Image{ID: r.ID, Name: r.Name, OS: r.Os, URL: r.Url, File: r.File, Checksum: r.Checksum, ChecksumURL: r.ChecksumUrl, ChangedBy: r.ChangedBy, ChangedAt: r.ChangedAt}, err
}

func startImageNameTakenError(err error, name string) error {
	var pg *pgconn.PgError
	switch {
	case !errors.As(err, &pg) || pg.ConstraintName != "start_image_name_taken":
		return err
	case name == "":
		return fleet.Errorf(fleet.Conflict, "An added entry has the same name as a built-in entry. Rename or remove the added entry, and restore again.")
	}
	text := fmt.Sprintf("The list has an entry named %q already. Change that one, or choose another name.", name)
	return &fleet.Error{Code: fleet.Conflict, Message: text, Fields: []fleet.FieldError{{Field: "name", Message: text}}}
}

// PullDestination is the destination for the download of a catalog image.
type PullDestination struct {
	PoolID fleet.PoolID `json:"poolId"`
	HostID fleet.HostID `json:"hostId,omitempty" doc:"Host (local pools only); empty: the host with the most free space"`
	Public bool         `json:"public,omitempty" doc:"Publish the image to every project, if the pull makes a new image"`
}

// PullStartImage asks a host to download a catalog image into the pool. The first pull makes a new image in the
// library, later pulls add versions to it.
func (c *Control) PullStartImage(ctx context.Context, a fleet.Actor, id fleet.StartImageID, in PullDestination) (fleet.ImageID, fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return "", fleet.Task{}, err
	}
	var checks fleet.Checks
	if in.PoolID == "" {
		checks.Add("poolId", "Choose the pool.")
	}
	if err := checks.Err(); err != nil {
		return "", fleet.Task{}, err
	}
	p := imagePull{PullDestination: in, actor: a, entryID: id}
	task, err := storage.QueueVolumeJobWithRows(ctx, c.store, a, in.PoolID, p.prepareDownloadJob(ctx), func(q *db.Queries, task fleet.TaskID) error {
		return q.NotePull(ctx, db.NotePullParams{ID: id, TaskID: &task})
	})
	return p.image, task, err
}
