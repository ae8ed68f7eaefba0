package agentapi

import (
	"context"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// noteImage keeps what a host says of the file that it has made or read, where the library has it: facts and checksum of a version of which
// nobody knew them. Of what was ordered by its checksum that is the version's, whatever the host has: other bytes are no copy of it.
func noteImage(ctx context.Context, q *db.Queries, job db.Job, ref fleet.Volref, volumes []fleet.Volume) error {
	if !slices.Contains([]fleet.JobKind{fleet.VolumeHash, fleet.VolumeCopy, fleet.VolumeReceive, fleet.VolumeFetch}, job.Kind) {
		return nil
	}
	digest, known := "", fleet.VolumeOrder{}
	if o := job.Args.Volume; o != nil {
		if ordered, ok := strings.CutPrefix(o.Checksum, "sha256:"); ok {
			digest, known.Checksum = ordered, o.Checksum
		}
	}
	i := slices.IndexFunc(volumes, func(v fleet.Volume) bool { return v.Name == ref.Volume })
	if i < 0 { // it is whole, but its host could not look at the pool just then
		return lookAtImage(ctx, q, job, ref, known)
	}
	if digest == "" {
		digest = volumes[i].SHA256
	}
	err := q.NoteVersion(ctx, db.NoteVersionParams{
		PoolID: string(ref.PoolID), Volume: ref.Volume, Host: string(job.HostID), Format: volumes[i].Format, CapacityBytes: volumes[i].CapacityBytes, Digest: digest,
	})
	if err != nil || job.Kind != fleet.VolumeFetch || volumes[i].SHA256 != "" {
		return err
	}
	return lookAtImage(ctx, q, job, ref, known) // what was downloaded for the library is known by its checksum, too
}

// volumesOf are those that a host sees in the pool; none where it did not look.
func volumesOf(pool *fleet.PoolStatus) []fleet.Volume {
	if pool == nil {
		return nil
	}
	return pool.Volumes
}

// lookAtImage has the host read what it has made, where the library has that: it tells then what it is. Once: who has read it and tells nothing never will.
func lookAtImage(ctx context.Context, q *db.Queries, job db.Job, ref fleet.Volref, known fleet.VolumeOrder) error {
	if job.Kind == fleet.VolumeHash {
		return nil
	}
	at, err := q.CopiesAt(ctx, db.CopiesAtParams{PoolID: ref.PoolID, Volume: ref.Volume})
	if err != nil || len(at) == 0 {
		return err
	}
	_, err = store.Queue(ctx, q, fleet.SystemActor, db.JoinQueueParams{
		HostID: job.HostID, Kind: fleet.VolumeHash, Subject: job.Subject, SubjectName: ref.Volume, Args: fleet.JobArgs{Volume: &known},
	})
	return err
}
