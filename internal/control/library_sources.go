package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// addVersionFromSource calls insertOrLock, which inserts or locks the image, adds a version to the image, and queues the
// host's job for the version.
func (c *Control) addVersionFromSource(ctx context.Context, a fleet.Actor, id fleet.ImageID, name string, from ImageSource, insertOrLock func(*db.Queries) error) (fleet.Task, error) {
	switch {
	case from.URL != "" && from.VMID != "":
		var checks fleet.Checks
		checks.Add("source.url", "Give an address or a VM, not both.")
		return fleet.Task{}, checks.Err()
	case from.URL != "":
		return c.addVersionFromDownload(ctx, a, id, from, insertOrLock)
	case from.VMID != "":
		return c.addVersionFromDisk(ctx, a, id, name, from, insertOrLock)
	}
	return c.addVersionFromFile(ctx, a, id, from, insertOrLock)
}

// addVersionFromFile adds a version whose file is already in a pool. The file's host computes its checksum.
func (c *Control) addVersionFromFile(ctx context.Context, a fleet.Actor, id fleet.ImageID, from ImageSource, insertOrLock func(*db.Queries) error) (fleet.Task, error) {
	files, err := c.volumesUsableAsImage(ctx, a, ImageFile{PoolID: from.PoolID, Volume: from.Volume, HostID: from.HostID})
	switch {
	case err != nil:
		return fleet.Task{}, err
	case len(files) > 1:
		var checks fleet.Checks
		checks.Add("source.hostId", "Several hosts have different files of this name. Choose the host.")
		return fleet.Task{}, checks.Err()
	}
	v := files[0]
	return storage.QueueVolumeJob(ctx, c.store, a, from.PoolID, func(q *db.Queries, pool assign.AssignableObject) (storage.VolumeJob, error) {
		if err := checkVolumeIdle(ctx, q, v); err != nil {
			return storage.VolumeJob{}, err
		}
		if err := insertOrLock(q); err != nil {
			return storage.VolumeJob{}, err
		}
		version, err := addImageVersion(ctx, q, a, fleet.ImageVersion{ImageID: id, Format: v.Format, CapacityBytes: v.CapacityBytes, Source: "a file of pool " + pool.Name})
		if err != nil {
			return storage.VolumeJob{}, err
		}
		j := storage.VolumeJob{Kind: fleet.VolumeHash, Ref: fleet.Volref{PoolID: v.PoolID, Volume: v.Name}, Host: v.Hosts[0], AuditByCaller: true}
		return j, addImageCopy(ctx, q, a, version, v)
	})
}

// addPendingVersion records a version of the image v.ImageID whose file the job will make. The host reports the
// version's size, format and checksum when the file is complete. shared is whether the file's pool is shared.
func addPendingVersion(ctx context.Context, q *db.Queries, a fleet.Actor, v fleet.ImageVersion, j storage.VolumeJob, shared bool) (fleet.ImageVersionID, error) {
	id, err := addImageVersion(ctx, q, a, v)
	if err != nil {
		return id, err
	}
	return id, addPendingCopy(ctx, q, a, id, j, shared)
}

// addPendingCopy records the copy that the host will make.
func addPendingCopy(ctx context.Context, q *db.Queries, a fleet.Actor, version fleet.ImageVersionID, j storage.VolumeJob, shared bool) error {
	on := j.Host.ID
	if shared {
		on = ""
	}
	n, err := q.AddImageCopy(ctx, db.AddImageCopyParams{VersionID: version, PoolID: j.Ref.PoolID, Host: string(on), Volume: j.Ref.Volume, AddedBy: a.Name})
	if err == nil && n == 0 {
		err = fleet.Errorf(fleet.Conflict, "The library has a copy named %s in this pool already. Choose another name.", j.Ref.Volume)
	}
	return err
}

func (c *Control) addVersionFromDownload(ctx context.Context, a fleet.Actor, id fleet.ImageID, from ImageSource, insertOrLock func(*db.Queries) error) (fleet.Task, error) {
	j, err := storage.NewDownloadJob(from.PoolID, storage.NewDownload{URL: from.URL, Checksum: from.Checksum, ChecksumURL: from.ChecksumURL, Name: from.Volume, HostID: from.HostID})
	if err != nil {
		return fleet.Task{}, prefixSourceErrorFields("source", err)
	}
	j.AuditByCaller = true
	return storage.QueueVolumeJob(ctx, c.store, a, from.PoolID, func(q *db.Queries, _ assign.AssignableObject) (storage.VolumeJob, error) {
		if err := insertOrLock(q); err != nil {
			return j, err
		}
		spec, err := storage.ReadPoolSpec(ctx, q, from.PoolID)
		if err != nil {
			return j, err
		}
		if j, err = storage.NewVolumeJobOnHost(ctx, q, a, j, storage.HostChoice{Named: from.HostID}); err != nil {
			return j, prefixSourceErrorFields("source", err)
		}
		version := fleet.ImageVersion{ImageID: id, Source: strings.TrimPrefix(from.auditDetail(), "from ")}
		_, err = addPendingVersion(ctx, q, a, version, j, spec.Shared)
		return j, err
	})
}

// addVersionFromDisk adds a version as a copy of a disk of a VM that is off.
func (c *Control) addVersionFromDisk(ctx context.Context, a fleet.Actor, id fleet.ImageID, name string, from ImageSource, insertOrLock func(*db.Queries) error) (fleet.Task, error) {
	vm, err := query.VMWithPools(ctx, c.Queries, a, from.VMID)
	if err != nil {
		return fleet.Task{}, err
	}
	n := max(from.Disk, 1)
	var checks fleet.Checks
	switch {
	case n > len(vm.Spec.Disks):
		checks.Add("source.disk", "The VM %s has %d disks.", vm.Name, len(vm.Spec.Disks))
	case vm.HasGuest() || vm.RequestedPower != "" && vm.RequestedPower != fleet.Stopped:
		checks.Add("source.vmId", "The VM %s is on, so a copy of its disk would be inconsistent. Shut it down first.", vm.Name)
	case vm.WhySnapshotsBlockDiskJobs() != "":
		checks.Add("source.vmId", "%s", vm.WhySnapshotsBlockDiskJobs())
	case vm.Status == nil:
		checks.Add("source.vmId", "The host has not created the VM %s yet.", vm.Name)
	}
	if err := checks.Err(); err != nil {
		return fleet.Task{}, err
	}
	disk := vm.Spec.Disks[n-1]
	j := storage.VolumeJob{
		Kind: fleet.VolumeCopy, Ref: fleet.Volref{PoolID: from.PoolID, Volume: cmp.Or(from.Volume, fleet.DefaultCopyName(name, int(vm.Generation), "qcow2"))},
		Params: fleet.VolumeParams{Source: disk.Volume, SourcePool: disk.PoolID, Flatten: true, TakesBytes: disk.SizeBytes}, AuditByCaller: true,
	}
	fleet.CheckNewVolume(&checks, "source.volume", j.Ref.Volume)
	if err := checks.Err(); err != nil {
		return fleet.Task{}, err
	}
	return storage.QueueVolumeJob(ctx, c.store, a, from.PoolID, func(q *db.Queries, _ assign.AssignableObject) (storage.VolumeJob, error) {
		now, err := store.LockVM(ctx, q, a, from.VMID, policy.VMChange)
		switch {
		case err != nil:
			return j, err
		case now.Generation != vm.Generation || now.HasGuest() || now.RequestedPower != "" && now.RequestedPower != fleet.Stopped:
			return j, fleet.Errorf(fleet.Conflict, "The VM %s was changed or started meanwhile. Check the VM and try again.", vm.Name)
		}
		if err := insertOrLock(q); err != nil {
			return j, err
		}
		spec, err := storage.ReadPoolSpec(ctx, q, from.PoolID)
		if err != nil {
			return j, err
		}
		if err := storage.CheckVolumeNameFree(ctx, q, j.Ref, vm.HostID, spec.Shared); err != nil {
			return j, prefixSourceErrorFields("source", err)
		}
		if j.Host, err = storage.FindHostForVolumeJob(ctx, q, a, j, storage.HostChoice{Named: vm.HostID}); err != nil {
			return j, prefixSourceErrorFields("source", err)
		}
		version := fleet.ImageVersion{ImageID: id, Source: fmt.Sprintf("disk %d of VM %s", n, vm.Name)}
		_, err = addPendingVersion(ctx, q, a, version, j, spec.Shared)
		return j, err
	})
}

// prefixSourceErrorFields returns err with its field names changed to those of an ImageSource below prefix.
func prefixSourceErrorFields(prefix string, err error) error {
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok {
		return err
	}
	moved := *e
	moved.Fields = slices.Clone(e.Fields)
	for i := range moved.Fields {
		switch f := &moved.Fields[i]; f.Field {
		case "name":
			f.Field = prefix + ".volume"
		default:
			f.Field = prefix + "." + f.Field
		}
	}
	return &moved
}
