package agentapi

import (
	"context"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// recordImageVersionFacts records the format, size and checksum that a host reports for a copy of an image version, if
// the version lacks them. If the job specified a checksum, it records that one, because a file with another checksum is
// not a copy of the version.
func recordImageVersionFacts(ctx context.Context, q *db.Queries, job db.Job, ref fleet.Volref, volumes []fleet.Volume) error {
	if !slices.Contains([]fleet.JobKind{fleet.VolumeHash, fleet.VolumeCopy, fleet.VolumeReceive, fleet.VolumeFetch}, job.Kind) {
		return nil
	}
	digest, known := "", fleet.VolumeParams{}
	if o := job.Args.Volume; o != nil {
		if ordered, ok := strings.CutPrefix(o.Checksum, "sha256:"); ok {
			digest, known.Checksum = ordered, o.Checksum
		}
	}
	i := slices.IndexFunc(volumes, func(v fleet.Volume) bool { return v.Name == ref.Volume })
	if i < 0 { // the file is complete, but its host could not list the pool
		return queueVolumeHash(ctx, q, job, ref, known)
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
	return queueVolumeHash(ctx, q, job, ref, known) // the image of a download is verified by a checksum as well
}

// reportedVolumes returns the reported volumes, or nil if the host did not report the pool.
func reportedVolumes(pool *fleet.PoolStatus) []fleet.Volume {
	if pool == nil {
		return nil
	}
	return pool.Volumes
}

// queueVolumeHash queues volume.hash for a file of the image library, so that the host reports the file's format, size
// and checksum. After a volume.hash job it queues no other one, to avoid a loop.
func queueVolumeHash(ctx context.Context, q *db.Queries, job db.Job, ref fleet.Volref, known fleet.VolumeParams) error {
	if job.Kind == fleet.VolumeHash {
		return nil
	}
	at, err := q.CopiesAt(ctx, db.CopiesAtParams{PoolID: ref.PoolID, Volume: ref.Volume})
	if err != nil || len(at) == 0 {
		return err
	}
	_, err = store.JoinOrQueueJob(ctx, q, fleet.SystemActor, db.JoinQueueParams{
		HostID: job.HostID, Kind: fleet.VolumeHash, Subject: job.Subject, SubjectName: ref.Volume, Args: fleet.JobArgs{Volume: &known},
	})
	return err
}
