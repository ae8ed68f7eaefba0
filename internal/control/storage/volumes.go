package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/query"
	"quantix/internal/download"
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

// VolumeID identifies a volume of a pool.
type VolumeID struct {
	PoolID fleet.PoolID
	Volume string
	HostID fleet.HostID // the file's host, for a local pool; may be empty if only one host has the file
}

// CreateVolume asks a host to create a volume.
func (st *Storage) CreateVolume(ctx context.Context, a fleet.Actor, pool fleet.PoolID, in NewVolume) (fleet.Task, error) {
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
	return QueueVolumeJob(ctx, st.store, a, pool, func(q *db.Queries, _ assign.AssignableObject) (VolumeJob, error) {
		j := VolumeJob{Kind: fleet.VolumeCreate, Ref: fleet.Volref{PoolID: pool, Volume: in.Name}, Params: order, Detail: fmt.Sprintf("%s, %s", in.Format, fleet.FormatBytes(in.SizeBytes))}
		return NewVolumeJobOnHost(ctx, q, a, j, HostChoice{Named: in.HostID, Overcommit: in.Overcommit})
	})
}

// GrowVolume asks a host to enlarge a volume to size bytes.
func (st *Storage) GrowVolume(ctx context.Context, a fleet.Actor, of VolumeID, size int64, overcommit bool) (fleet.Task, error) {
	return st.changeVolume(ctx, a, of, fleet.ActGrow, func(q *db.Queries, v query.VolumeOn) (VolumeJob, error) {
		var checks fleet.Checks
		if fleet.CheckVolumeSize(&checks, "sizeBytes", size); checks.Err() == nil && size <= v.CapacityBytes {
			checks.Add("sizeBytes", "The volume has %s already, and volumes cannot shrink.", fleet.FormatBytes(v.CapacityBytes))
		}
		if err := checks.Err(); err != nil {
			return VolumeJob{}, err
		}
		j := VolumeJob{Kind: fleet.VolumeGrow, Params: fleet.VolumeParams{SizeBytes: size, TakesBytes: size - v.CapacityBytes}, Detail: fmt.Sprintf("%s → %s", fleet.FormatBytes(v.CapacityBytes), fleet.FormatBytes(size))}
		j.Ref = fleet.Volref{PoolID: of.PoolID, Volume: of.Volume}
		var err error
		j.Host, err = FindHostForVolumeJob(ctx, q, a, j, HostChoice{Named: of.HostID, Among: v.Hosts, Overcommit: overcommit})
		return j, err
	})
}

// CloneVolume asks a host to copy a volume, in the same format, pool and host.
func (st *Storage) CloneVolume(ctx context.Context, a fleet.Actor, of VolumeID, to string, overcommit bool) (fleet.Task, error) {
	return st.changeVolume(ctx, a, of, fleet.ActClone, func(q *db.Queries, v query.VolumeOn) (VolumeJob, error) {
		var checks fleet.Checks
		if fleet.CheckNewVolume(&checks, "name", to); checks.Err() != nil {
			return VolumeJob{}, checks.Err()
		}
		j := VolumeJob{Kind: fleet.VolumeClone, Ref: fleet.Volref{PoolID: of.PoolID, Volume: to}, Params: fleet.VolumeParams{Source: of.Volume, TakesBytes: v.CapacityBytes}, Detail: "of " + of.Volume}
		if err := CheckVolumeNameFree(ctx, q, j.Ref, v.LocalHost(), v.Shared); err != nil {
			return j, err
		}
		var err error
		j.Host, err = FindHostForVolumeJob(ctx, q, a, j, HostChoice{Named: of.HostID, Among: v.Hosts, Overcommit: overcommit})
		return j, err
	})
}

// RenameVolume asks a host to rename a volume within its pool. The job's subject is the new name and its source is the
// old name. Both names are therefore in use until the job ends.
func (st *Storage) RenameVolume(ctx context.Context, a fleet.Actor, of VolumeID, to string) (fleet.Task, error) {
	return st.changeVolume(ctx, a, of, fleet.ActRename, func(q *db.Queries, v query.VolumeOn) (VolumeJob, error) {
		var checks fleet.Checks
		if fleet.CheckNewVolume(&checks, "name", to); to == of.Volume {
			checks.Add("name", "The volume has this name already. Give another name.")
		}
		if err := checks.Err(); err != nil {
			return VolumeJob{}, err
		}
		j := VolumeJob{Kind: fleet.VolumeRename, Ref: fleet.Volref{PoolID: of.PoolID, Volume: to}, Params: fleet.VolumeParams{Source: of.Volume}, Detail: of.Volume + " → " + to}
		if err := CheckVolumeNameFree(ctx, q, j.Ref, v.LocalHost(), v.Shared); err != nil {
			return j, err
		}
		var err error
		j.Host, err = ChooseVolumeHost(v, of.HostID)
		return j, err
	})
}

// ConvertVolume queues the conversion of a volume in another format to a qcow2 image, in the same pool and on the same
// host. The source volume stays.
func (st *Storage) ConvertVolume(ctx context.Context, a fleet.Actor, of VolumeID, to string, overcommit bool) (fleet.Task, error) {
	return st.changeVolume(ctx, a, of, fleet.ActConvert, func(q *db.Queries, v query.VolumeOn) (VolumeJob, error) {
		var checks fleet.Checks
		if fleet.CheckNewVolume(&checks, "name", to); checks.Err() != nil {
			return VolumeJob{}, checks.Err()
		}
		order := fleet.VolumeParams{Source: of.Volume, TakesBytes: v.CapacityBytes}
		j := VolumeJob{Kind: fleet.VolumeConvert, Ref: fleet.Volref{PoolID: of.PoolID, Volume: to}, Params: order, Detail: "of " + of.Volume}
		if err := CheckVolumeNameFree(ctx, q, j.Ref, v.LocalHost(), v.Shared); err != nil {
			return j, err
		}
		var err error
		j.Host, err = FindHostForVolumeJob(ctx, q, a, j, HostChoice{Named: of.HostID, Among: v.Hosts, Overcommit: overcommit})
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
func (st *Storage) FetchVolume(ctx context.Context, a fleet.Actor, pool fleet.PoolID, in NewDownload) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	j, err := NewDownloadJob(pool, in)
	if err != nil {
		return fleet.Task{}, err
	}
	return QueueVolumeJob(ctx, st.store, a, pool, func(q *db.Queries, _ assign.AssignableObject) (VolumeJob, error) {
		return NewVolumeJobOnHost(ctx, q, a, j, HostChoice{Named: in.HostID})
	})
}

// NewDownloadJob returns a download job without a host.
func NewDownloadJob(pool fleet.PoolID, in NewDownload) (VolumeJob, error) {
	var checks fleet.Checks
	download.Check(&checks, in.URL, in.Checksum, in.ChecksumURL)
	in.Name = cmp.Or(in.Name, download.VolumeName(in.URL))
	if fleet.CheckNewVolume(&checks, "name", in.Name); checks.Err() != nil {
		return VolumeJob{}, checks.Err()
	}
	order := fleet.VolumeParams{URL: in.URL, ChecksumURL: in.ChecksumURL}
	if algorithm, digest, _ := download.ParseChecksum(in.Checksum); digest != "" {
		order.Checksum = algorithm + ":" + digest
	}
	return VolumeJob{
		Kind: fleet.VolumeFetch, Ref: fleet.Volref{PoolID: pool, Volume: in.Name}, Params: order,
		Detail: "from " + in.URL + ", " + cmp.Or(order.Checksum, order.ChecksumURL, "without a checksum"),
	}, nil
}

// WipeVolume asks a host to overwrite a volume's content with zeros; confirm must be its name.
func (st *Storage) WipeVolume(ctx context.Context, a fleet.Actor, of VolumeID, confirm string) (fleet.Task, error) {
	return st.queueDestructiveJob(ctx, a, of, fleet.ActWipe, fleet.VolumeWipe, confirm)
}

// DeleteVolume asks a host to delete a volume; confirm must be its name.
func (st *Storage) DeleteVolume(ctx context.Context, a fleet.Actor, of VolumeID, confirm string) (fleet.Task, error) {
	return st.queueDestructiveJob(ctx, a, of, fleet.ActDelete, fleet.VolumeDelete, confirm)
}

func (st *Storage) queueDestructiveJob(ctx context.Context, a fleet.Actor, of VolumeID, act fleet.Action, kind fleet.JobKind, confirm string) (fleet.Task, error) {
	return st.changeVolume(ctx, a, of, act, func(_ *db.Queries, v query.VolumeOn) (VolumeJob, error) {
		if confirm != of.Volume {
			var checks fleet.Checks
			checks.Add("confirm", "Type the volume's name, %s, to %s it with all data in it.", of.Volume, string(act))
			return VolumeJob{}, checks.Err()
		}
		host, err := ChooseVolumeHost(v, of.HostID)
		return VolumeJob{Kind: kind, Host: host, Ref: fleet.Volref{PoolID: of.PoolID, Volume: of.Volume}, DeletesData: true, Detail: fleet.FormatBytes(v.CapacityBytes)}, err
	})
}

// changeVolume works like QueueVolumeJob for an action on an existing volume. It refuses an action that the volume's
// use forbids.
func (st *Storage) changeVolume(ctx context.Context, a fleet.Actor, of VolumeID, act fleet.Action, decide func(*db.Queries, query.VolumeOn) (VolumeJob, error)) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	v, err := st.VolumeOn(ctx, a, of)
	if err != nil {
		return fleet.Task{}, err
	}
	return QueueVolumeJob(ctx, st.store, a, of.PoolID, func(q *db.Queries, _ assign.AssignableObject) (VolumeJob, error) {
		use, err := CurrentVolumeUse(ctx, q, v)
		if err != nil {
			return VolumeJob{}, err
		}
		if ok, why := use.Allows(act); !ok {
			return VolumeJob{}, fleet.Errorf(fleet.Conflict, "%s: %s", of.Volume, why)
		}
		return decide(q, v)
	})
}

// VolumeOn returns a volume with the VMs and images that use it and its unfinished jobs, which may block changes.
func (st *Storage) VolumeOn(ctx context.Context, a fleet.Actor, of VolumeID) (query.VolumeOn, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return query.VolumeOn{}, err
	}
	all, err := st.queries.PoolVolumes(ctx, a, of.PoolID)
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
