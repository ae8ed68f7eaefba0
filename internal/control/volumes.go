package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// NewVolume is the input of CreateVolume.
type NewVolume struct {
	Name       string       `json:"name"`
	Format     string       `json:"format" enum:"qcow2,raw"`
	SizeBytes  int64        `json:"sizeBytes"`
	Full       bool         `json:"full,omitempty"`       // allocate the full size at once
	HostID     fleet.HostID `json:"hostId,omitempty"`     // the host, for a local pool; empty for a shared pool: chosen
	Overcommit bool         `json:"overcommit,omitempty"` // allow more than the pool's capacity
}

// Volume identifies a volume of a pool.
type Volume struct {
	PoolID fleet.PoolID
	Volume string
	HostID fleet.HostID // the file's host, for a local pool; may be empty if only one host has the file
}

// CreateVolume asks a host to create a volume.
func (c *Control) CreateVolume(ctx context.Context, a fleet.Actor, pool fleet.PoolID, in NewVolume) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	var checks fleet.Checks
	fleet.CheckNewVolume(&checks, "name", in.Name)
	fleet.CheckVolumeSize(&checks, "sizeBytes", in.SizeBytes)
	if !slices.Contains(fleet.VolumeFormats, in.Format) {
		checks.Add("format", "A volume's format is %s.", strings.Join(fleet.VolumeFormats, " or "))
	}
	if fleet.IsRawName(in.Name) && in.Format != fleet.Raw {
		checks.Add("name", "Names that end in .raw are for raw volumes. Choose another, or the format raw.")
	}
	if err := checks.Err(); err != nil {
		return fleet.Task{}, err
	}
	order := fleet.VolumeParams{Format: in.Format, SizeBytes: in.SizeBytes, Full: in.Full, TakesBytes: in.SizeBytes}
	return c.queueVolumeJob(ctx, a, pool, func(q *db.Queries, _ assign.AssignableObject) (volumeJob, error) {
		j := volumeJob{kind: fleet.VolumeCreate, ref: fleet.Volref{PoolID: pool, Volume: in.Name}, params: order, detail: fmt.Sprintf("%s, %s", in.Format, fleet.FormatBytes(in.SizeBytes))}
		return newVolumeJobOnHost(ctx, q, a, j, hostChoice{named: in.HostID, overcommit: in.Overcommit})
	})
}

// GrowVolume asks a host to grow a volume to size bytes.
func (c *Control) GrowVolume(ctx context.Context, a fleet.Actor, of Volume, size int64, overcommit bool) (fleet.Task, error) {
	return c.changeVolume(ctx, a, of, fleet.ActGrow, func(q *db.Queries, v query.VolumeOn) (volumeJob, error) {
		var checks fleet.Checks
		if fleet.CheckVolumeSize(&checks, "sizeBytes", size); checks.Err() == nil && size <= v.CapacityBytes {
			checks.Add("sizeBytes", "The volume has %s already, and volumes cannot shrink.", fleet.FormatBytes(v.CapacityBytes))
		}
		if err := checks.Err(); err != nil {
			return volumeJob{}, err
		}
		j := volumeJob{kind: fleet.VolumeGrow, params: fleet.VolumeParams{SizeBytes: size, TakesBytes: size - v.CapacityBytes}, detail: fmt.Sprintf("%s → %s", fleet.FormatBytes(v.CapacityBytes), fleet.FormatBytes(size))}
		j.ref = fleet.Volref{PoolID: of.PoolID, Volume: of.Volume}
		var err error
		j.host, err = findHostForVolumeJob(ctx, q, a, j, hostChoice{named: of.HostID, among: v.Hosts, overcommit: overcommit})
		return j, err
	})
}

// CloneVolume asks a host to copy a volume, in the same format, pool and host.
func (c *Control) CloneVolume(ctx context.Context, a fleet.Actor, of Volume, to string, overcommit bool) (fleet.Task, error) {
	return c.changeVolume(ctx, a, of, fleet.ActClone, func(q *db.Queries, v query.VolumeOn) (volumeJob, error) {
		var checks fleet.Checks
		if fleet.CheckNewVolume(&checks, "name", to); checks.Err() != nil {
			return volumeJob{}, checks.Err()
		}
		j := volumeJob{kind: fleet.VolumeClone, ref: fleet.Volref{PoolID: of.PoolID, Volume: to}, params: fleet.VolumeParams{Source: of.Volume, TakesBytes: v.CapacityBytes}, detail: "of " + of.Volume}
		if err := checkNameFree(ctx, q, j.ref, v.LocalHost(), v.Shared); err != nil {
			return j, err
		}
		var err error
		j.host, err = findHostForVolumeJob(ctx, q, a, j, hostChoice{named: of.HostID, among: v.Hosts, overcommit: overcommit})
		return j, err
	})
}

// RenameVolume renames a volume within its pool. The job's subject is the new name and its source the old name, so that
// no VM can get either name until the job ends.
func (c *Control) RenameVolume(ctx context.Context, a fleet.Actor, of Volume, to string) (fleet.Task, error) {
	return c.changeVolume(ctx, a, of, fleet.ActRename, func(q *db.Queries, v query.VolumeOn) (volumeJob, error) {
		var checks fleet.Checks
		if fleet.CheckNewVolume(&checks, "name", to); to == of.Volume {
			checks.Add("name", "The volume has this name already. Give another name.")
		}
		if err := checks.Err(); err != nil {
			return volumeJob{}, err
		}
		j := volumeJob{kind: fleet.VolumeRename, ref: fleet.Volref{PoolID: of.PoolID, Volume: to}, params: fleet.VolumeParams{Source: of.Volume}, detail: of.Volume + " → " + to}
		if err := checkNameFree(ctx, q, j.ref, v.LocalHost(), v.Shared); err != nil {
			return j, err
		}
		var err error
		j.host, err = chooseVolumeHost(v, of.HostID)
		return j, err
	})
}

// NewDownload is the input of FetchVolume.
type NewDownload struct {
	URL      string `json:"url" doc:"An https address, or an http address if the checksum is given; without user and password"`
	Checksum string `json:"checksum,omitempty" doc:"SHA-256 or SHA-512, in hexadecimal digits; required for http. Without it the content of the download is not verified"`
	// ChecksumURL is the URL of a file that contains the checksum.
	ChecksumURL string `json:"checksumUrl,omitempty" doc:"Instead of the checksum: the https address of a file with the checksum, in the format of sha256sum or BSD's sha256. The host reads this file first"`

	Name   string       `json:"name,omitempty" doc:"The volume's name; empty: the last part of the address's path"`
	HostID fleet.HostID `json:"hostId,omitempty" doc:"Host (local pools only); empty for a shared pool: one is chosen"`
}

// FetchVolume asks a host to download a volume. The size is unknown until the download starts, so the host checks the
// free space.
func (c *Control) FetchVolume(ctx context.Context, a fleet.Actor, pool fleet.PoolID, in NewDownload) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	j, err := newDownloadJob(pool, in)
	if err != nil {
		return fleet.Task{}, err
	}
	return c.queueVolumeJob(ctx, a, pool, func(q *db.Queries, _ assign.AssignableObject) (volumeJob, error) {
		return newVolumeJobOnHost(ctx, q, a, j, hostChoice{named: in.HostID})
	})
}

// newDownloadJob returns a download job without a host.
func newDownloadJob(pool fleet.PoolID, in NewDownload) (volumeJob, error) {
	var checks fleet.Checks
	fleet.CheckDownload(&checks, in.URL, in.Checksum, in.ChecksumURL)
	in.Name = cmp.Or(in.Name, fleet.DownloadVolumeName(in.URL))
	if fleet.CheckNewVolume(&checks, "name", in.Name); checks.Err() != nil {
		return volumeJob{}, checks.Err()
	}
	order := fleet.VolumeParams{URL: in.URL, ChecksumURL: in.ChecksumURL}
	if algorithm, digest, _ := fleet.ParseChecksum(in.Checksum); digest != "" {
		order.Checksum = algorithm + ":" + digest
	}
	return volumeJob{
		kind: fleet.VolumeFetch, ref: fleet.Volref{PoolID: pool, Volume: in.Name}, params: order,
		detail: "from " + in.URL + ", " + cmp.Or(order.Checksum, order.ChecksumURL, "without a checksum"),
	}, nil
}

// newVolumeJobOnHost chooses the host of a new volume and returns the job with it.
func newVolumeJobOnHost(ctx context.Context, q *db.Queries, a fleet.Actor, j volumeJob, choice hostChoice) (volumeJob, error) {
	spec, err := readPoolSpec(ctx, q, j.ref.PoolID)
	if err != nil {
		return j, err
	}
	if err := j.checkPoolKind(spec); err != nil {
		return j, err
	}
	if choice.named == "" && !spec.Shared {
		var checks fleet.Checks
		checks.Add("hostId", "Each host has separate files in this pool. Choose the host.")
		return j, checks.Err()
	}
	if err := checkNameFree(ctx, q, j.ref, choice.named, spec.Shared); err != nil {
		return j, err
	}
	j.host, err = findHostForVolumeJob(ctx, q, a, j, choice)
	return j, err
}

// WipeVolume asks a host to overwrite a volume's content with zeros; confirm must be its name.
func (c *Control) WipeVolume(ctx context.Context, a fleet.Actor, of Volume, confirm string) (fleet.Task, error) {
	return c.queueDestructiveJob(ctx, a, of, fleet.ActWipe, fleet.VolumeWipe, confirm)
}

// DeleteVolume asks a host to delete a volume; confirm must be its name.
func (c *Control) DeleteVolume(ctx context.Context, a fleet.Actor, of Volume, confirm string) (fleet.Task, error) {
	return c.queueDestructiveJob(ctx, a, of, fleet.ActDelete, fleet.VolumeDelete, confirm)
}

func (c *Control) queueDestructiveJob(ctx context.Context, a fleet.Actor, of Volume, act fleet.Action, kind fleet.JobKind, confirm string) (fleet.Task, error) {
	return c.changeVolume(ctx, a, of, act, func(_ *db.Queries, v query.VolumeOn) (volumeJob, error) {
		if confirm != of.Volume {
			var checks fleet.Checks
			checks.Add("confirm", "Type the volume's name, %s, to %s it with all data in it.", of.Volume, string(act))
			return volumeJob{}, checks.Err()
		}
		host, err := chooseVolumeHost(v, of.HostID)
		return volumeJob{kind: kind, host: host, ref: fleet.Volref{PoolID: of.PoolID, Volume: of.Volume}, deletesData: true, detail: fleet.FormatBytes(v.CapacityBytes)}, err
	})
}

// volumeJob is a volume job to queue.
type volumeJob struct {
	kind          fleet.JobKind
	ref           fleet.Volref
	host          query.HostRef
	params        fleet.VolumeParams
	deletesData   bool // the job deletes the volume's data
	auditByCaller bool // the caller writes the audit line

	project *fleet.ProjectID // whose members see the task; nil: only administrators
	detail  string
}

// queueVolumeJob queues the job that decide returns, under the pool's lock. Transactions that assign a volume of the
// pool to a VM or publish one wait for the lock.
func (c *Control) queueVolumeJob(ctx context.Context, a fleet.Actor, pool fleet.PoolID, decide func(*db.Queries, assign.AssignableObject) (volumeJob, error)) (task fleet.Task, err error) {
	return c.queueVolumeJobWithRows(ctx, a, pool, decide, func(*db.Queries, fleet.TaskID) error { return nil })
}

// queueVolumeJobWithRows works like queueVolumeJob; then adds rows that refer to the task, in the same transaction.
func (c *Control) queueVolumeJobWithRows(ctx context.Context, a fleet.Actor, pool fleet.PoolID, decide func(*db.Queries, assign.AssignableObject) (volumeJob, error), then func(*db.Queries, fleet.TaskID) error) (task fleet.Task, err error) {
	return c.queueVolumeJobAsActor(ctx, a, a, pool, decide, then)
}

// queueVolumeJobAsActor works like queueVolumeJobWithRows. poolActor is the actor that changes the pool; the caller has
// checked the permission of the person, a.
func (c *Control) queueVolumeJobAsActor(ctx context.Context, poolActor, a fleet.Actor, pool fleet.PoolID, decide func(*db.Queries, assign.AssignableObject) (volumeJob, error), then func(*db.Queries, fleet.TaskID) error) (task fleet.Task, err error) {
	err = assign.PoolType.ChangeObject(ctx, c.store, poolActor, string(pool), func(q *db.Queries, on assign.AssignableObject) error {
		j, err := decide(q, on)
		if err != nil {
			return err
		}
		subject := fleet.SubjectVolume(j.ref)
		id, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
			HostID: j.host.ID, Kind: j.kind, Subject: subject, SubjectName: j.ref.Volume, ProjectID: j.project, Args: fleet.JobArgs{DeleteDisks: j.deletesData, Volume: &j.params},
		})
		if err != nil {
			return err
		}
		if err := then(q, id); err != nil {
			return err
		}
		detail := fmt.Sprintf("in pool %s on %s: %s", on.Name, j.host.Name, j.detail)
		if !j.auditByCaller {
			if err := store.Audit(ctx, q, a, string(j.kind), subject, j.ref.Volume, detail); err != nil {
				return err
			}
		}
		task, err = store.GetTask(ctx, q, a, id)
		return err
	})
	return store.RedactTask(a, task), err
}

// changeVolume works like queueVolumeJob for an existing volume. It refuses if the volume does not allow the action.
func (c *Control) changeVolume(ctx context.Context, a fleet.Actor, of Volume, act fleet.Action, decide func(*db.Queries, query.VolumeOn) (volumeJob, error)) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	v, err := c.VolumeOn(ctx, a, of)
	if err != nil {
		return fleet.Task{}, err
	}
	return c.queueVolumeJob(ctx, a, of.PoolID, func(q *db.Queries, _ assign.AssignableObject) (volumeJob, error) {
		use, err := currentVolumeUse(ctx, q, v)
		if err != nil {
			return volumeJob{}, err
		}
		if ok, why := use.Allows(act); !ok {
			return volumeJob{}, fleet.Errorf(fleet.Conflict, "%s: %s", of.Volume, why)
		}
		return decide(q, v)
	})
}

// VolumeOn returns a volume with its uses and unfinished jobs, which may block changes.
func (c *Control) VolumeOn(ctx context.Context, a fleet.Actor, of Volume) (query.VolumeOn, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return query.VolumeOn{}, err
	}
	all, err := c.PoolVolumes(ctx, a, of.PoolID)
	if err != nil {
		return query.VolumeOn{}, err
	}
	all = slices.DeleteFunc(all, func(v query.VolumeOn) bool {
		return v.Name != of.Volume || of.HostID != "" && v.LocalHost() != "" && v.LocalHost() != of.HostID
	})
	switch len(all) {
	case 0:
		return query.VolumeOn{}, fleet.Errorf(fleet.NotFound, "The pool has no volume %q there.", of.Volume)
	case 1:
		return all[0], nil
	}
	var checks fleet.Checks
	checks.Add("host", "Several hosts have different volumes of this name. Choose the host.")
	return query.VolumeOn{}, checks.Err()
}
