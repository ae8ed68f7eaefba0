package hostcommands

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
	"quantix/internal/policy"
)

// StoreArtifact stores the archive that a host sends for a job that it runs. An archive that is sent again replaces the
// first one. The oldest archives of the host and kind are deleted.
func (hc *HostCommands) StoreArtifact(ctx context.Context, a fleet.Actor, id fleet.JobID, epoch int64, archive []byte) error {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "job"); err != nil {
		return err
	}
	if len(archive) > hostcommand.MaxArchive {
		return fleet.Errorf(fleet.TooLarge, "An archive has at most %s.", fleet.FormatBytes(hostcommand.MaxArchive))
	}
	// The job is checked before the archive is read, so that only hosts with such a job cause that work.
	job := db.JobForArtifactParams{ID: id, HostID: a.HostID, Epoch: epoch}
	if _, err := jobForArtifact(ctx, hc.store.Queries, job); err != nil {
		return err
	}
	summary, err := hostcommand.CheckArchive(archive)
	if err != nil {
		return fleet.Errorf(fleet.Malformed, "The archive is refused: %s.", err)
	}
	return hc.store.Tx(ctx, func(q *db.Queries) error {
		row, err := jobForArtifact(ctx, q, job)
		if err != nil {
			return err
		}
		kind := hostcommand.KindOfJob(row.Kind)
		err = q.AddArtifact(ctx, db.AddArtifactParams{
			ID: fleet.NewID[hostcommand.ArtifactID](), HostID: a.HostID, Kind: kind, JobID: string(id), TaskID: fleet.TaskID(row.TaskID),
			CreatedBy: row.CreatedBy, Size: int64(len(archive)), Summary: summary, Archive: archive,
		})
		if err != nil {
			return err
		}
		if err := q.PruneArtifacts(ctx, db.PruneArtifactsParams{HostID: a.HostID, Kind: kind, Kept: hostcommand.Kept}); err != nil {
			return err
		}
		return q.AnnounceHost(ctx, string(a.HostID))
	})
}

// jobForArtifact refuses hosts that do not run the job now, and jobs that have no archive.
func jobForArtifact(ctx context.Context, q *db.Queries, p db.JobForArtifactParams) (db.JobForArtifactRow, error) {
	row, err := q.JobForArtifact(ctx, p)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return row, fleet.Errorf(fleet.Conflict, "This job is no longer assigned to this agent.")
	case err != nil:
		return row, store.UserError(err)
	case hostcommand.KindOfJob(row.Kind) == "":
		return row, fleet.Errorf(fleet.Malformed, "A job of the kind %q has no archive.", string(row.Kind))
	}
	return row, nil
}

// ListArtifacts lists the archives of a host and kind, the newest one first, without their bytes.
func (hc *HostCommands) ListArtifacts(ctx context.Context, a fleet.Actor, id fleet.HostID, kind hostcommand.ArtifactKind) ([]hostcommand.Artifact, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return nil, err
	}
	rows, err := hc.store.ListArtifacts(ctx, db.ListArtifactsParams{HostID: id, Kind: kind})
	if err != nil {
		return nil, store.UserError(err)
	}
	out := []hostcommand.Artifact{}
	for _, r := range rows {
		out = append(out, hostcommand.Artifact{
			ID: r.ID, HostID: r.HostID, Kind: r.Kind, TaskID: r.TaskID, By: r.CreatedBy, At: r.CreatedAt, Size: r.Size, Summary: r.Summary,
		})
	}
	if len(out) == 0 { // an unknown host has no archives either
		if _, err := hc.store.GetHost(ctx, id); err != nil {
			return nil, store.NotFoundError(err, "host")
		}
	}
	return out, nil
}

// GetArtifact returns an archive of a host with its bytes, a zip.
func (hc *HostCommands) GetArtifact(ctx context.Context, a fleet.Actor, host fleet.HostID, id hostcommand.ArtifactID) (hostcommand.Artifact, []byte, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return hostcommand.Artifact{}, nil, err
	}
	if err := store.CheckID(host, "host"); err != nil {
		return hostcommand.Artifact{}, nil, err
	}
	if err := store.CheckID(id, "archive"); err != nil {
		return hostcommand.Artifact{}, nil, err
	}
	r, err := hc.store.GetArtifact(ctx, db.GetArtifactParams{HostID: host, ID: id})
	if err != nil {
		return hostcommand.Artifact{}, nil, store.NotFoundError(err, "archive")
	}
	return hostcommand.Artifact{
		ID: r.ID, HostID: r.HostID, Kind: r.Kind, TaskID: r.TaskID, By: r.CreatedBy, At: r.CreatedAt, Size: r.Size, Summary: r.Summary,
	}, r.Archive, nil
}

// Log is the log of a host's agent, from its last reading.
type Log struct {
	Artifact *hostcommand.Artifact // nil: never read
	Text     string
}

// AgentLog returns the log of a host's agent, from its last reading.
func (hc *HostCommands) AgentLog(ctx context.Context, a fleet.Actor, host fleet.HostID) (Log, error) {
	all, err := hc.ListArtifacts(ctx, a, host, hostcommand.AgentLog)
	if err != nil || len(all) == 0 {
		return Log{}, err
	}
	newest, archive, err := hc.GetArtifact(ctx, a, host, all[0].ID)
	if err != nil {
		return Log{}, err
	}
	text, err := ItemText(archive, hostcommand.LogItem)
	return Log{&newest, text}, err
}

// ItemText returns the text of an item of an archive.
func ItemText(archive []byte, name string) (string, error) {
	text, err := hostcommand.ItemText(archive, name)
	if err != nil {
		return "", fleet.Errorf(fleet.NotFound, "The archive has no item of this name.")
	}
	return text, nil
}
