package control

import (
	"context"
	"fmt"
	"strings"

	"quantix/db"
	"quantix/internal/control/agentapi"
	"quantix/internal/control/assign"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/download"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/relay"
)

// Limits of concurrent uploads.
const (
	maxUploadsOfUser = 8
	maxUploadsOfHost = 32
)

// NewUpload is the input of CreateUpload.
type NewUpload struct {
	Name      string
	HostID    fleet.HostID // the destination, for a local pool; empty for a shared pool: chosen
	SizeBytes int64
	Checksum  string // SHA-256 or SHA-512; empty: unknown
	File      string // identifies the sender's local file
}

// CreateUpload asks a host to receive a file. A repeated request with the same local file and destination returns the
// existing upload, so that the client can resume it. The host checks the free space when it begins.
func (c *Control) CreateUpload(ctx context.Context, a fleet.Actor, pool fleet.PoolID, in NewUpload) (fleet.Upload, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Upload{}, err
	}
	if a.UserID == "" {
		return fleet.Upload{}, fleet.Errorf(fleet.Unauthorized, "Sign in first.")
	}
	var checks fleet.Checks
	fleet.CheckNewVolume(&checks, "name", in.Name)
	fleet.CheckVolumeSize(&checks, "sizeBytes", in.SizeBytes)
	algorithm, digest, ok := download.ParseChecksum(in.Checksum)
	if !ok {
		checks.Add("checksum", "Give the 64 digits of a SHA-256, or the 128 of a SHA-512.")
	}
	if in.File = strings.ToValidUTF8(strings.ReplaceAll(in.File, "\x00", ""), ""); len(in.File) > fleet.MaxFile {
		checks.Add("file", "The identifier of the file has at most %d characters.", fleet.MaxFile)
	}
	if err := checks.Err(); err != nil {
		return fleet.Upload{}, err
	}
	in.Checksum = ""
	if digest != "" {
		in.Checksum = algorithm + ":" + digest
	}
	if same, err := c.findSameUpload(ctx, a, pool, in); err != nil || same.ID != "" {
		return same, err
	}
	id := fleet.NewID[fleet.UploadID]()
	order := fleet.VolumeParams{Upload: id, SizeBytes: in.SizeBytes, Checksum: in.Checksum, TakesBytes: in.SizeBytes}
	var host fleet.HostID
	_, err := storage.QueueVolumeJobWithRows(ctx, c.store, a, pool, func(q *db.Queries, _ assign.AssignableObject) (storage.VolumeJob, error) {
		ref := fleet.Volref{PoolID: pool, Volume: in.Name}
		j := storage.VolumeJob{Kind: fleet.VolumeUpload, Ref: ref, Params: order, Detail: fleet.FormatBytes(in.SizeBytes)}
		// Skip the portal's check of free space, because the host checks it before the upload begins.
		j, err := storage.NewVolumeJobOnHost(ctx, q, a, j, storage.HostChoice{Named: in.HostID, Overcommit: true})
		host = j.Host.ID
		return j, err
	}, func(q *db.Queries, task fleet.TaskID) error {
		if err := q.LockTransfers(ctx, db.LockTransfersParams{UserID: string(a.UserID), HostID: string(host)}); err != nil {
			return err
		}
		n, err := q.AddUpload(ctx, db.AddUploadParams{
			ID: id, TaskID: task, UserID: a.UserID, HostID: host, PoolID: pool, Volume: in.Name, SizeBytes: in.SizeBytes, Checksum: in.Checksum, File: in.File,
			OfUser: maxUploadsOfUser, OfHost: maxUploadsOfHost,
		})
		if err == nil && n == 0 {
			err = fleet.Errorf(fleet.TooMany, "You have %d uploads that have not ended, or the host has %d. Finish or cancel an upload.", maxUploadsOfUser, maxUploadsOfHost)
		}
		return err
	})
	if err != nil {
		return fleet.Upload{}, err
	}
	return c.GetUpload(ctx, a, id)
}

// findSameUpload returns the person's unfinished upload of the same file to the same destination, or the zero value if
// there is none.
func (c *Control) findSameUpload(ctx context.Context, a fleet.Actor, pool fleet.PoolID, in NewUpload) (fleet.Upload, error) {
	if in.File == "" {
		return fleet.Upload{}, nil
	}
	all, err := c.ListUploads(ctx, a, pool)
	for _, u := range all {
		if u.Volume == in.Name && u.SizeBytes == in.SizeBytes && u.Checksum == in.Checksum && u.File == in.File && (in.HostID == "" || in.HostID == u.HostID) {
			return u, err
		}
	}
	return fleet.Upload{}, err
}

func uploadFromRow(u db.Upload, host string, state fleet.JobState, progress int32, note, errText string) fleet.Upload {
	ends := u.HeardAt.Add(fleet.UploadIdleTimeout)
	if last := u.CreatedAt.Add(fleet.UploadLifetime); last.Before(ends) {
		ends = last
	}
	return fleet.Upload{
		ID: u.ID, TaskID: u.TaskID, PoolID: u.PoolID, HostID: u.HostID, HostName: host, Volume: u.Volume, SizeBytes: u.SizeBytes, Checksum: u.Checksum,
		File: u.File, State: state, Progress: int(progress), Note: note, Error: errText, CreatedAt: u.CreatedAt, EndsAt: ends,
	}
}

// GetUpload returns one of the person's own uploads; another person's upload is NotFoundError.
func (c *Control) GetUpload(ctx context.Context, a fleet.Actor, id fleet.UploadID) (fleet.Upload, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Upload{}, err
	}
	if err := store.CheckID(id, "upload"); err != nil {
		return fleet.Upload{}, err
	}
	r, err := c.store.GetUpload(ctx, db.GetUploadParams{ID: id, UserID: a.UserID})
	if err != nil {
		return fleet.Upload{}, store.NotFoundError(err, "upload")
	}
	return uploadFromRow(r.Upload, r.HostName, r.State, r.Progress, r.Note, r.Error), nil
}

// ListUploads returns the person's unfinished uploads in a pool, or in all pools if pool is empty.
func (c *Control) ListUploads(ctx context.Context, a fleet.Actor, pool fleet.PoolID) ([]fleet.Upload, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	rows, err := c.store.OpenUploads(ctx, db.OpenUploadsParams{UserID: a.UserID, PoolID: string(pool)})
	out := make([]fleet.Upload, len(rows))
	for i, r := range rows {
		out[i] = uploadFromRow(r.Upload, r.HostName, r.State, r.Progress, r.Note, r.Error)
	}
	return out, store.UserError(err)
}

// ContinueUpload asks the upload's host to connect to this portal and receive the next bytes. It returns the end of the
// relay to which the person's bytes are written.
func (c *Control) ContinueUpload(ctx context.Context, a fleet.Actor, id fleet.UploadID) (relay.End, error) {
	u, err := c.GetUpload(ctx, a, id)
	if err != nil {
		return relay.End{}, err
	}
	if a.Session == "" {
		return relay.End{}, fleet.Errorf(fleet.Unauthorized, "Sign in first.")
	}
	if err := u.EndedError(); err != nil {
		return relay.End{}, err
	}
	at := fleet.NewID[fleet.PairID]()
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		n, err := q.AwaitUploadHost(ctx, db.AwaitUploadHostParams{ID: id, UserID: a.UserID, PairID: at, Session: a.Session})
		if err == nil && n == 0 {
			err = fleet.Errorf(fleet.NotFound, "There is no such upload.")
		}
		if err != nil {
			return err
		}
		return q.QueueUploadOpen(ctx, db.QueueUploadOpenParams{
			ID: fleet.NewID[fleet.JobID](), HostID: u.HostID, Subject: fleet.SubjectVolume(fleet.Volref{PoolID: u.PoolID, Volume: u.Volume}),
			Args: fleet.JobArgs{Upload: id, Pair: at, PortalURL: c.opts.PairURL},
		})
	})
	if err != nil {
		return relay.End{}, err
	}
	return agentapi.UploadRelayTicket(at, a.UserID, a.Session, u.HostID).Admit(relay.PartyOf(a))
}

// TouchUpload records that the upload is still in progress, which postpones its expiry.
func (c *Control) TouchUpload(ctx context.Context, a fleet.Actor, id fleet.UploadID) error {
	u, err := c.GetUpload(ctx, a, id)
	switch {
	case err != nil:
		return err
	case u.State.IsFinal():
		return fleet.Errorf(fleet.NotFound, "This upload has ended.")
	}
	return store.UserError(c.store.TouchUpload(ctx, u.ID))
}

// CancelUpload cancels one of the person's own uploads and deletes the uploaded bytes.
func (c *Control) CancelUpload(ctx context.Context, a fleet.Actor, id fleet.UploadID) error {
	u, err := c.GetUpload(ctx, a, id)
	if err != nil || u.State.IsFinal() {
		return err
	}
	_, err = c.CancelTask(ctx, a, u.TaskID)
	return err
}

// cancelStartedTask cancels a task that a host may have begun, and queues the deletion of partial files.
func cancelStartedTask(ctx context.Context, q *db.Queries, a fleet.Actor, t fleet.Task, why string) error {
	stops := fleet.JobKindsWhere(func(k fleet.JobKindInfo) bool { return k.CancelledAtOnce })
	jobs, err := q.StopTask(ctx, db.StopTaskParams{ID: &t.ID, Error: why, Kinds: store.ToStrings(stops)})
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		return fleet.Errorf(fleet.Conflict, "This task has ended: it is %s.", t.State)
	}
	for _, j := range jobs {
		ref, ok := j.Subject.Volume()
		if !ok || j.Attempt == 0 {
			continue
		}
		ref.Volume += fleet.PartialSuffix
		if _, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
			HostID: j.HostID, Kind: fleet.VolumeDelete, Subject: fleet.SubjectVolume(ref), SubjectName: ref.Volume,
			Args: fleet.JobArgs{DeleteDisks: true, Volume: &fleet.VolumeParams{}},
		}); err != nil {
			return err
		}
	}
	return nil
}

// CancelStaleUploads cancels uploads that were idle for fleet.UploadIdleTimeout or are older than fleet.UploadLifetime.
func (c *Control) CancelStaleUploads(ctx context.Context, a fleet.Actor) error {
	return c.store.RunPass(ctx, a, "end uploads", func(q *db.Queries) error {
		tasks, err := q.StaleUploads(ctx, db.StaleUploadsParams{Patience: fleet.UploadIdleTimeout, Life: fleet.UploadLifetime})
		if err != nil {
			return err
		}
		for _, id := range tasks {
			t, err := store.GetTask(ctx, q, a, id)
			if err != nil {
				return err
			}
			why := fmt.Sprintf("Nobody continued the upload for %d hours, or it took longer than %d days in all. Start it again.", int(fleet.UploadIdleTimeout.Hours()), int(fleet.UploadLifetime.Hours()/24))
			if err := cancelStartedTask(ctx, q, a, t, why); err != nil {
				return err
			}
		}
		return nil
	})
}
