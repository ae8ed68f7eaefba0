package query

import (
	"context"

	"quantix/internal/catalog"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// StartImages lists the entries of the image catalog by name. Each has the copies pulled from it and the result of the
// last pull.
func (b *Queries) StartImages(ctx context.Context, a fleet.Actor) ([]catalog.View, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	rows, err := b.store.StartImages(ctx)
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make([]catalog.View, 0, len(rows))
	at := map[fleet.StartImageID]int{}
	for i, r := range rows {
		s := r.StartImage
		v := catalog.View{Pulled: []catalog.Copy{}, Image: catalog.Image{
			ID: s.ID, Name: s.Name, OS: s.Os, URL: s.Url, File: s.File, Checksum: s.Checksum, ChecksumURL: s.ChecksumUrl, ChangedBy: s.ChangedBy, ChangedAt: s.ChangedAt,
		}}
		if s.TaskID != nil && r.State != "" {
			v.Last = &catalog.Result{TaskID: *s.TaskID, State: fleet.JobState(r.State), Progress: int(r.Progress), Note: r.Note, Error: r.Error, EndedAt: r.EndedAt}
		}
		out = append(out, v)
		at[s.ID] = i
	}
	var s statementBuilder
	s.addCondition("EXISTS (SELECT 1 FROM image_versions v WHERE v.image_id = i.id AND v.start_id IS NOT NULL) AND i.project_id IS NULL")
	images, err := b.readImages(ctx, fleet.SystemActor, &s, " ORDER BY i.created_at DESC, i.id DESC")
	for _, image := range images {
		for _, version := range image.Versions {
			i, ok := at[version.StartID]
			if !ok || out[i].ImageID != "" && out[i].ImageID != image.ID {
				continue
			}
			out[i].ImageID = image.ID
			for _, c := range version.Copies {
				if c.Usable() {
					out[i].Pulled = append(out[i].Pulled, catalog.Copy{PoolID: c.PoolID, PoolName: c.PoolName, HostName: c.HostName, Version: version.Number})
				}
			}
		}
	}
	return out, err
}

// StartImage returns one entry of the image catalog.
func (b *Queries) StartImage(ctx context.Context, a fleet.Actor, id fleet.StartImageID) (catalog.View, error) {
	all, err := b.StartImages(ctx, a)
	for _, v := range all {
		if v.ID == id {
			return v, nil
		}
	}
	if err == nil {
		err = fleet.Errorf(fleet.NotFound, "There is no such entry among the well-known images.")
	}
	return catalog.View{}, err
}
