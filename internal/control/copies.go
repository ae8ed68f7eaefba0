package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ImageCopy names a copy of an image: a file of a pool.
type ImageCopy struct {
	ImageID fleet.ImageID
	PoolID  fleet.PoolID
	Volume  string
	HostID  fleet.HostID // of a local pool: whose file
}

// NewCopy asks for a copy of an image in another pool.
type NewCopy struct {
	VersionID fleet.ImageVersionID `json:"versionId,omitempty"` // empty: the newest
	PoolID    fleet.PoolID         `json:"poolId"`
	HostID    fleet.HostID         `json:"hostId,omitempty"` // of a local pool: on which
}

// noCopyToSend is why nothing is copied to a pool.
const noCopyToSend = "No host that is heard has a copy of the image that is as it was, or none has the pool"

// copyImage is an order for a copy: which host reads which copy into which pool, or which sends it to which.
type copyImage struct {
	version fleet.ImageVersion
	source  query.CopyOn
	host    query.HostRef // where it comes
	from    query.HostRef // who sends it; empty: its host reads the source itself
	ref     fleet.Volref
	shared  bool // of the pool that it comes to
}

func (o copyImage) job() volumeJob {
	if o.from.ID != "" {
		return volumeJob{
			kind: fleet.VolumeReceive, ref: o.ref, host: o.host, detail: fmt.Sprintf("of %s in pool %s on %s", o.source.Volume, o.source.PoolName, o.from.Name),
			order: fleet.VolumeOrder{TakesBytes: cmp.Or(o.source.AllocBytes, o.version.CapacityBytes), Checksum: o.checksum()},
		}
	}
	order := fleet.VolumeOrder{Source: o.source.Volume, TakesBytes: cmp.Or(o.source.AllocBytes, o.version.CapacityBytes)}
	if o.source.PoolID != o.ref.PoolID {
		order.SourcePool = o.source.PoolID
	}
	order.Checksum = o.checksum()
	return volumeJob{kind: fleet.VolumeCopy, ref: o.ref, host: o.host, order: order, detail: "of " + o.source.Volume + " in pool " + o.source.PoolName}
}

func (o copyImage) checksum() string {
	if o.version.SHA256 == "" {
		return ""
	}
	return "sha256:" + o.version.SHA256
}

// on is whose file it becomes, of a local pool; empty: of a shared one.
func (o copyImage) on() fleet.HostID {
	if o.shared {
		return ""
	}
	return o.host.ID
}

// add notes the copy that is to come.
func (o copyImage) add(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	_, err := q.AddImageCopy(ctx, db.AddImageCopyParams{VersionID: o.version.ID, PoolID: o.ref.PoolID, Host: string(o.on()), Volume: o.ref.Volume, AddedBy: a.Name})
	return err
}

// CopyImage asks for a copy of a version in a pool. Where the pool has a file with its bytes already, that is the copy, and there is no task.
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
	copies, err := c.CopiesOf(ctx, a, v)
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
		checks.Add("hostId", "Each host has its own files in this pool. Choose the host.")
		return fleet.Task{}, checks.Err()
	}
	old, err := there(copies, version.ID, in)
	if err != nil {
		return fleet.Task{}, err
	}
	if same := sameBytes(all, *version, in.HostID); same != nil && old == nil {
		return fleet.Task{}, c.adopt(ctx, a, v, *version, *same)
	}
	order, err := c.findCopy(ctx, copies, *version, in.PoolID, in.HostID)
	if err != nil {
		return fleet.Task{}, err
	}
	order.shared, order.ref = pool.Spec.Shared, fleet.Volref{PoolID: in.PoolID}
	if old != nil { // it was lost, or never came: it comes again
		order.ref.Volume = old.Volume
	}
	way, to := transferOf(&order), fleet.Volref{}
	return c.orderVolumeThen(ctx, a, in.PoolID, func(q *db.Queries, _ assign.Object) (volumeJob, error) {
		if _, err := q.LockImage(ctx, id); err != nil {
			return volumeJob{}, store.NotFound(err, "image")
		}
		o := order
		if o.ref.Volume == "" {
			if o.ref.Volume, err = freeVolume(ctx, q, v.Name, *version, in, pool.Spec.Shared); err != nil {
				return volumeJob{}, err
			}
		}
		j := o.job()
		if j.host, err = roomFor(ctx, q, a, j, o.host.ID, nil, false); err != nil {
			return j, err
		}
		way.received(&j)
		to = o.ref
		return j, o.add(ctx, q, a)
	}, func(q *db.Queries, task fleet.TaskID) error {
		return way.send(ctx, q, task, fleet.JobID(task), to)
	})
}

// there is the copy that the pool has already, and refuses one that is good or coming; nil: none, or one that is another file by now.
func there(copies query.Copies, version fleet.ImageVersionID, in NewCopy) (*query.CopyOn, error) {
	for i, c := range copies {
		if c.VersionID != version || c.PoolID != in.PoolID || c.HostID != in.HostID {
			continue
		}
		switch {
		case c.Work != "":
			return nil, fleet.Errorf(fleet.Conflict, "A copy in %s is at work already. Wait for it.", c.Where())
		case c.Offered():
			return nil, fleet.Errorf(fleet.Conflict, "There is a copy in %s already: %s.", c.Where(), c.Volume)
		case c.State == fleet.CopyMissing:
			return &copies[i], nil
		}
	}
	return nil, nil
}

// sameBytes is a volume that holds the very bytes of the version, as its host says, and that nobody writes to.
func sameBytes(all []query.VolumeOn, v fleet.ImageVersion, host fleet.HostID) *query.VolumeOn {
	for i, o := range all {
		if v.SHA256 != "" && o.SHA256 == v.SHA256 && o.On() == host && o.Unfit == "" && o.Published == nil && len(o.Hosts) > 0 {
			return &all[i]
		}
	}
	return nil
}

// adopt makes a file that has the version's bytes a copy of it.
func (c *Control) adopt(ctx context.Context, a fleet.Actor, image fleet.ImageView, v fleet.ImageVersion, file query.VolumeOn) error {
	return assign.Pools.Change(ctx, c.store, a, string(file.PoolID), func(q *db.Queries, pool assign.Object) error {
		if err := idle(ctx, q, file); err != nil {
			return err
		}
		if err := addCopy(ctx, q, a, v.ID, file); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "image.copy", fleet.SubjectImage(image.ID), image.Name, file.Name+" of pool "+pool.Name+", which has its bytes already")
	})
}

// findCopy finds a host that has the pool and a copy of the version that can be read, else one that sends a copy to one that has the pool.
func (c *Control) findCopy(ctx context.Context, copies query.Copies, v fleet.ImageVersion, pool fleet.PoolID, host fleet.HostID) (copyImage, error) {
	var best *copyImage
	better := func(o copyImage) {
		if best == nil || best.source.State != fleet.CopyReady && o.source.State == fleet.CopyReady {
			best = &o
		}
	}
	for _, from := range copies {
		if !readable(from, v.ID) || host != "" && from.HostID != "" && from.HostID != host {
			continue
		}
		on, err := c.HostWithBoth(ctx, fleet.SystemActor, from.PoolID, pool, cmp.Or(host, from.HostID))
		if err != nil {
			return copyImage{}, err
		}
		if on != nil {
			better(copyImage{version: v, source: from, host: *on})
		}
	}
	if best != nil {
		return *best, nil
	}
	to, err := c.HostWithBoth(ctx, fleet.SystemActor, pool, pool, host)
	if err != nil {
		return copyImage{}, err
	}
	for _, from := range copies {
		if to == nil || !readable(from, v.ID) {
			continue
		}
		if sender := senderOf(from, to.ID); sender != nil {
			better(copyImage{version: v, source: from, host: *to, from: *sender})
		}
	}
	if best == nil {
		return copyImage{}, fleet.Errorf(fleet.Conflict, "%s, so nothing can be copied.", noCopyToSend)
	}
	return *best, nil
}

func readable(from query.CopyOn, v fleet.ImageVersionID) bool {
	return from.VersionID == v && from.Offered() && (from.Work == "" || from.State == fleet.CopyReady)
}

// senderOf is a host that is heard and has the copy, and is not the one that it goes to; nil: none.
func senderOf(from query.CopyOn, to fleet.HostID) *query.HostRef {
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

// freeVolume is a name for a new copy that no volume of the pool has, and none of those that are to come with it.
func freeVolume(ctx context.Context, q *db.Queries, image string, v fleet.ImageVersion, in NewCopy, shared bool, beside ...string) (string, error) {
	plain := fleet.CopyName(image, v.Number, v.Format)
	name := plain
	for n := 2; ; n++ {
		err := nameFree(ctx, q, fleet.Volref{PoolID: in.PoolID, Volume: name}, in.HostID, shared)
		if err != nil && (!nameRefused(err) || n > 50) || err == nil && !slices.Contains(beside, name) {
			return name, err
		}
		name = fmt.Sprintf("%d-%s", n, plain)
	}
}

// VerifyCopy asks a host that has a copy to compute its checksum.
func (c *Control) VerifyCopy(ctx context.Context, a fleet.Actor, of ImageCopy) (fleet.Task, error) {
	v, copy, err := c.copyNamed(ctx, a, of, fleet.ActVerify)
	if err != nil {
		return fleet.Task{}, err
	}
	j, err := verifyJob(copy, *v.Version(copy.VersionID), "")
	if err != nil {
		return fleet.Task{}, err
	}
	return c.orderVolume(ctx, a, of.PoolID, func(*db.Queries, assign.Object) (volumeJob, error) {
		return j, nil
	})
}

// ForgetCopy takes a copy out of the library; its file stays.
func (c *Control) ForgetCopy(ctx context.Context, a fleet.Actor, of ImageCopy) error {
	v, copy, err := c.copyNamed(ctx, a, of, fleet.ActForget)
	if err != nil {
		return err
	}
	return c.changeImage(ctx, a, of.ImageID, func(q *db.Queries, image db.Image) error {
		if err := letGo(ctx, q, copy); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "image.copy.forget", fleet.SubjectImage(v.ID), image.Name, copy.Volume+" in "+copy.Where())
	})
}

// DeleteCopy asks for the file of a copy to be deleted; confirm must be its name. The task is empty where there is no file.
func (c *Control) DeleteCopy(ctx context.Context, a fleet.Actor, of ImageCopy, confirm string) (task fleet.TaskID, err error) {
	v, copy, err := c.copyNamed(ctx, a, of, fleet.ActDelete)
	if err != nil {
		return "", err
	}
	if confirm != copy.Volume {
		var checks fleet.Checks
		checks.Add("confirm", "Type the file's name, %s, to delete it.", copy.Volume)
		return "", checks.Err()
	}
	err = c.changeImage(ctx, a, of.ImageID, func(q *db.Queries, image db.Image) error {
		if err := letGo(ctx, q, copy); err != nil {
			return err
		}
		if copy.On != nil {
			if task, err = queueFileDeletion(ctx, q, a, copy); err != nil {
				return err
			}
		}
		return store.Audit(ctx, q, a, "image.copy.delete", fleet.SubjectImage(v.ID), image.Name, copy.Volume+" in "+copy.Where())
	})
	return task, err
}

func letGo(ctx context.Context, q *db.Queries, copy query.CopyOn) error {
	in := Image{PoolID: copy.PoolID, Volume: copy.Volume, HostID: copy.HostID}
	if err := noOverlays(ctx, q, in); err != nil {
		return err
	}
	_, err := forget(ctx, q, in)
	return err
}

// copyNamed is the copy that is meant, which allows the action.
func (c *Control) copyNamed(ctx context.Context, a fleet.Actor, of ImageCopy, act fleet.Action) (fleet.ImageView, query.CopyOn, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.ImageView{}, query.CopyOn{}, err
	}
	v, err := c.GetImage(ctx, a, of.ImageID)
	if err != nil {
		return v, query.CopyOn{}, err
	}
	copies, err := c.CopiesOf(ctx, a, v)
	if err != nil {
		return v, query.CopyOn{}, err
	}
	i := slices.IndexFunc(copies, func(c query.CopyOn) bool {
		return c.PoolID == of.PoolID && c.Volume == of.Volume && c.HostID == of.HostID
	})
	if i < 0 {
		return v, query.CopyOn{}, fleet.Errorf(fleet.NotFound, "The image has no such copy.")
	}
	copy, version := copies[i], v.Version(copies[i].VersionID)
	for _, told := range version.Copies {
		if told.Ref() == copy.Ref() && told.HostID == copy.HostID {
			copy.ImageCopy = told // with what stands on it
		}
	}
	if ok, why := version.CopyAllows(copy.ImageCopy, act); !ok {
		return v, copy, fleet.Errorf(fleet.Conflict, "%s: %s", copy.Volume, why)
	}
	return v, copy, nil
}
