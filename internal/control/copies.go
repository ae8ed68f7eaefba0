package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ImageCopy identifies a copy of an image: a file in a pool.
type ImageCopy struct {
	ImageID fleet.ImageID
	PoolID  fleet.PoolID
	Volume  string
	HostID  fleet.HostID // the file's host, for a local pool
}

// NewCopy is the input of CopyImage.
type NewCopy struct {
	VersionID fleet.ImageVersionID `json:"versionId,omitempty"` // empty: the newest
	PoolID    fleet.PoolID         `json:"poolId"`
	HostID    fleet.HostID         `json:"hostId,omitempty"` // the destination, for a local pool
}

// noCopyToSendText is the reason shown if no online host can read a copy or receive it.
const noCopyToSendText = "No online host has an unchanged copy of the image, or none has the pool"

// imageCopyRequest is a request for an image copy: one host copies between two of its pools, or receives the file from
// another host.
type imageCopyRequest struct {
	version fleet.ImageVersion
	source  query.CopyWithVolume
	host    query.HostRef // the destination host
	from    query.HostRef // the sending host; empty: the destination host has the source file
	ref     fleet.Volref
	shared  bool // whether the destination pool is shared
}

func (o imageCopyRequest) volumeJob() storage.VolumeJob {
	if o.from.ID != "" {
		return storage.VolumeJob{
			Kind: fleet.VolumeReceive, Ref: o.ref, Host: o.host, Detail: fmt.Sprintf("of %s in pool %s on %s", o.source.Volume, o.source.PoolName, o.from.Name),
			Params: fleet.VolumeParams{TakesBytes: cmp.Or(o.source.AllocBytes, o.version.CapacityBytes), Checksum: o.checksum()},
		}
	}
	order := fleet.VolumeParams{Source: o.source.Volume, TakesBytes: cmp.Or(o.source.AllocBytes, o.version.CapacityBytes)}
	if o.source.PoolID != o.ref.PoolID {
		order.SourcePool = o.source.PoolID
	}
	order.Checksum = o.checksum()
	return storage.VolumeJob{Kind: fleet.VolumeCopy, Ref: o.ref, Host: o.host, Params: order, Detail: "of " + o.source.Volume + " in pool " + o.source.PoolName}
}

func (o imageCopyRequest) checksum() string {
	if o.version.SHA256 == "" {
		return ""
	}
	return "sha256:" + o.version.SHA256
}

// fileHost returns the host of the new file in a local pool; empty for a shared pool.
func (o imageCopyRequest) fileHost() fleet.HostID {
	if o.shared {
		return ""
	}
	return o.host.ID
}

// addPendingCopy records the pending copy.
func (o imageCopyRequest) addPendingCopy(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	_, err := q.AddImageCopy(ctx, db.AddImageCopyParams{VersionID: o.version.ID, PoolID: o.ref.PoolID, Host: string(o.fileHost()), Volume: o.ref.Volume, AddedBy: a.Name})
	return err
}

// CopyImage requests a copy of an image version in a pool. If the pool already has a file with the same bytes,
// CopyImage registers that file as the copy and returns no task.
func (c *Control) CopyImage(ctx context.Context, a fleet.Actor, id fleet.ImageID, in NewCopy) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	v, err := c.GetImage(ctx, a, id)
	if err != nil {
		return fleet.Task{}, err
	}
	version := v.Version(in.VersionID)
	if version == nil {
		return fleet.Task{}, fleet.Errorf(fleet.NotFound, "The image has no such version.")
	}
	if err := store.CheckID(in.PoolID, "pool"); err != nil {
		return fleet.Task{}, err
	}
	copies, err := c.CopiesOfImage(ctx, a, v)
	if err != nil {
		return fleet.Task{}, err
	}
	all, err := c.PoolVolumes(ctx, a, in.PoolID)
	if err != nil {
		return fleet.Task{}, err
	}
	pool, err := c.GetPool(ctx, a, in.PoolID)
	if err != nil {
		return fleet.Task{}, err
	}
	var checks fleet.Checks
	switch {
	case pool.Spec.Shared:
		in.HostID = ""
	case in.HostID == "":
		checks.Add("hostId", "Each host has separate files in this pool. Choose the host.")
		return fleet.Task{}, checks.Err()
	}
	old, err := findExistingCopy(copies, version.ID, in)
	if err != nil {
		return fleet.Task{}, err
	}
	if same := findVolumeWithChecksum(all, *version, in.HostID); same != nil && old == nil {
		return fleet.Task{}, c.registerCopy(ctx, a, v, *version, *same)
	}
	order, err := c.findCopy(ctx, copies, *version, in.PoolID, in.HostID)
	if err != nil {
		return fleet.Task{}, err
	}
	order.shared, order.ref = pool.Spec.Shared, fleet.Volref{PoolID: in.PoolID}
	if old != nil { // replace a copy that is missing or was never completed
		order.ref.Volume = old.Volume
	}
	way, to := newTransferRoute(&order), fleet.Volref{}
	return storage.QueueVolumeJobWithRows(ctx, c.store, a, in.PoolID, func(q *db.Queries, _ assign.AssignableObject) (storage.VolumeJob, error) {
		if _, err := q.LockImage(ctx, id); err != nil {
			return storage.VolumeJob{}, store.NotFoundError(err, "image")
		}
		o := order
		if o.ref.Volume == "" {
			if o.ref.Volume, err = o.unusedVolumeName(ctx, q, v.Name); err != nil {
				return storage.VolumeJob{}, err
			}
		}
		j := o.volumeJob()
		if j.Host, err = storage.FindHostForVolumeJob(ctx, q, a, j, storage.HostChoice{Named: o.host.ID}); err != nil {
			return j, err
		}
		way.setReceiveParams(&j)
		to = o.ref
		return j, o.addPendingCopy(ctx, q, a)
	}, func(q *db.Queries, task fleet.TaskID) error {
		return way.addSendStep(ctx, q, task, fleet.JobID(task), to)
	})
}

// findExistingCopy returns the version's copy in the destination pool if the copy's file is missing. It refuses if the
// copy is usable or a task uses it, and returns nil if the pool has no copy or another file replaced the copy's file.
func findExistingCopy(copies query.Copies, version fleet.ImageVersionID, in NewCopy) (*query.CopyWithVolume, error) {
	for i, c := range copies {
		if c.VersionID != version || c.PoolID != in.PoolID || c.HostID != in.HostID {
			continue
		}
		switch {
		case c.Work != "":
			return nil, fleet.Errorf(fleet.Conflict, "A task uses the copy in %s. Wait until that task has ended.", c.LocationText())
		case c.Usable():
			return nil, fleet.Errorf(fleet.Conflict, "The image has a copy in %s already: %s.", c.LocationText(), c.Volume)
		case c.State == fleet.CopyMissing:
			return &copies[i], nil
		}
	}
	return nil, nil
}

// findVolumeWithChecksum returns a volume that is usable as an image, has the version's checksum and is not in the
// library; nil: none.
func findVolumeWithChecksum(all []query.VolumeOn, v fleet.ImageVersion, host fleet.HostID) *query.VolumeOn {
	for i, o := range all {
		if v.SHA256 != "" && o.SHA256 == v.SHA256 && o.LocalHost() == host && o.Unfit == "" && o.Published == nil && len(o.Hosts) > 0 {
			return &all[i]
		}
	}
	return nil
}

// registerCopy adds a file with the same content as the version to the library, as a copy of the version.
func (c *Control) registerCopy(ctx context.Context, a fleet.Actor, image fleet.ImageView, v fleet.ImageVersion, file query.VolumeOn) error {
	return assign.PoolType.ChangeObject(ctx, c.store, a, string(file.PoolID), func(q *db.Queries, pool assign.AssignableObject) error {
		if err := checkVolumeIdle(ctx, q, file); err != nil {
			return err
		}
		if err := addImageCopy(ctx, q, a, v.ID, file); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "image.copy", fleet.SubjectImage(image.ID), image.Name, file.Name+" of pool "+pool.Name+", which has its bytes already")
	})
}

// findCopy chooses a host that has the destination pool and can read a copy of the version. If there is none, it
// chooses a host that sends a copy and a host with the destination pool that receives it.
func (c *Control) findCopy(ctx context.Context, copies query.Copies, v fleet.ImageVersion, pool fleet.PoolID, host fleet.HostID) (imageCopyRequest, error) {
	var best *imageCopyRequest
	better := func(o imageCopyRequest) {
		if best == nil || best.source.State != fleet.CopyReady && o.source.State == fleet.CopyReady {
			best = &o
		}
	}
	for _, from := range copies {
		if !isCopyReadable(from, v.ID) || host != "" && from.HostID != "" && from.HostID != host {
			continue
		}
		on, err := c.OnlineHostWithPools(ctx, fleet.SystemActor, from.PoolID, pool, cmp.Or(host, from.HostID))
		if err != nil {
			return imageCopyRequest{}, err
		}
		if on != nil {
			better(imageCopyRequest{version: v, source: from, host: *on})
		}
	}
	if best != nil {
		return *best, nil
	}
	to, err := c.OnlineHostWithPools(ctx, fleet.SystemActor, pool, pool, host)
	if err != nil {
		return imageCopyRequest{}, err
	}
	for _, from := range copies {
		if to == nil || !isCopyReadable(from, v.ID) {
			continue
		}
		if sender := findSender(from, to.ID); sender != nil {
			better(imageCopyRequest{version: v, source: from, host: *to, from: *sender})
		}
	}
	if best == nil {
		return imageCopyRequest{}, fleet.Errorf(fleet.Conflict, "%s, so nothing can be copied.", noCopyToSendText)
	}
	return *best, nil
}

func isCopyReadable(from query.CopyWithVolume, v fleet.ImageVersionID) bool {
	return from.VersionID == v && from.Usable() && (from.Work == "" || from.State == fleet.CopyReady)
}

// findSender returns an online host, other than the receiver, that has the copy; nil: none.
func findSender(from query.CopyWithVolume, to fleet.HostID) *query.HostRef {
	if from.On == nil {
		return nil
	}
	for _, h := range from.On.Hosts {
		if h.ID != to {
			return &h
		}
	}
	return nil
}

// unusedVolumeName returns a file name for the new copy that no existing or pending volume of the pool has.
func (o imageCopyRequest) unusedVolumeName(ctx context.Context, q *db.Queries, image string, reserved ...string) (string, error) {
	plain := fleet.DefaultCopyName(image, o.version.Number, o.version.Format)
	name := plain
	for n := 2; ; n++ {
		err := storage.CheckVolumeNameFree(ctx, q, fleet.Volref{PoolID: o.ref.PoolID, Volume: name}, o.fileHost(), o.shared)
		if err != nil && (!storage.IsNameTakenOrInvalid(err) || n > 50) || err == nil && !slices.Contains(reserved, name) {
			return name, err
		}
		name = fmt.Sprintf("%d-%s", n, plain)
	}
}

// VerifyCopy asks a host that has the copy to compute its checksum.
func (c *Control) VerifyCopy(ctx context.Context, a fleet.Actor, of ImageCopy) (fleet.Task, error) {
	v, copy, err := c.getCopy(ctx, a, of, fleet.ActVerify)
	if err != nil {
		return fleet.Task{}, err
	}
	j, err := newVerifyJob(copy, *v.Version(copy.VersionID), "")
	if err != nil {
		return fleet.Task{}, err
	}
	return storage.QueueVolumeJob(ctx, c.store, a, of.PoolID, func(*db.Queries, assign.AssignableObject) (storage.VolumeJob, error) {
		return j, nil
	})
}

// RemoveCopyFromLibrary removes a copy from the library; its file stays.
func (c *Control) RemoveCopyFromLibrary(ctx context.Context, a fleet.Actor, of ImageCopy) error {
	v, copy, err := c.getCopy(ctx, a, of, fleet.ActForget)
	if err != nil {
		return err
	}
	return c.changeImage(ctx, a, of.ImageID, func(q *db.Queries, image db.Image) error {
		if err := removeCopyFromLibrary(ctx, q, copy); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "image.copy.forget", fleet.SubjectImage(v.ID), image.Name, copy.Volume+" in "+copy.LocationText())
	})
}

// DeleteCopy requests the deletion of a copy's file; confirm must be the file's name. The task id is empty if the copy
// has no file.
func (c *Control) DeleteCopy(ctx context.Context, a fleet.Actor, of ImageCopy, confirm string) (task fleet.TaskID, err error) {
	v, copy, err := c.getCopy(ctx, a, of, fleet.ActDelete)
	if err != nil {
		return "", err
	}
	if confirm != copy.Volume {
		var checks fleet.Checks
		checks.Add("confirm", "Type the file's name, %s, to delete it.", copy.Volume)
		return "", checks.Err()
	}
	err = c.changeImage(ctx, a, of.ImageID, func(q *db.Queries, image db.Image) error {
		if err := removeCopyFromLibrary(ctx, q, copy); err != nil {
			return err
		}
		if copy.On != nil {
			if task, err = queueFileDeletion(ctx, q, a, copy); err != nil {
				return err
			}
		}
		return store.Audit(ctx, q, a, "image.copy.delete", fleet.SubjectImage(v.ID), image.Name, copy.Volume+" in "+copy.LocationText())
	})
	return task, err
}

func removeCopyFromLibrary(ctx context.Context, q *db.Queries, copy query.CopyWithVolume) error {
	in := ImageFile{PoolID: copy.PoolID, Volume: copy.Volume, HostID: copy.HostID}
	if err := checkNoOverlays(ctx, q, in); err != nil {
		return err
	}
	_, err := removeImageCopies(ctx, q, in)
	return err
}

// getCopy returns the named copy if it allows the action.
func (c *Control) getCopy(ctx context.Context, a fleet.Actor, of ImageCopy, act fleet.Action) (fleet.ImageView, query.CopyWithVolume, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.ImageView{}, query.CopyWithVolume{}, err
	}
	v, err := c.GetImage(ctx, a, of.ImageID)
	if err != nil {
		return v, query.CopyWithVolume{}, err
	}
	copies, err := c.CopiesOfImage(ctx, a, v)
	if err != nil {
		return v, query.CopyWithVolume{}, err
	}
	i := slices.IndexFunc(copies, func(c query.CopyWithVolume) bool {
		return c.PoolID == of.PoolID && c.Volume == of.Volume && c.HostID == of.HostID
	})
	if i < 0 {
		return v, query.CopyWithVolume{}, fleet.Errorf(fleet.NotFound, "The image has no such copy.")
	}
	copy, version := copies[i], v.Version(copies[i].VersionID)
	for _, listed := range version.Copies {
		if listed.Ref() == copy.Ref() && listed.HostID == copy.HostID {
			copy.ImageCopy = listed // including the VMs whose overlays are backed by the copy
		}
	}
	if ok, why := version.CopyAllows(copy.ImageCopy, act); !ok {
		return v, copy, fleet.Errorf(fleet.Conflict, "%s: %s", copy.Volume, why)
	}
	return v, copy, nil
}
