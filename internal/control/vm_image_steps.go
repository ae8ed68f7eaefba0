package control

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/placement"
)

// preparationSteps are the jobs that must end before the host can make a VM's disks: copies to make, copies to verify,
// and jobs of other requests.
type preparationSteps struct {
	copies        []imageCopyRequest
	verifications []storage.VolumeJob
	awaitedFiles  []awaitedFile
}

// awaitedFile is a source file that an unfinished job makes or verifies.
type awaitedFile struct {
	ref fleet.Volref
	// host is the host of a file in a local pool, where other hosts may have files of the same name. Empty: the pool is
	// shared.
	host fleet.HostID
}

// chooseImageSources writes the source of each disk on host h into the spec, and returns the jobs that must end before
// the host can make the disks.
func chooseImageSources(ctx context.Context, q *db.Queries, plans []imagePlan, spec *fleet.VMSpec, h placement.Host) (preparationSteps, error) {
	var out preparationSteps
	for _, p := range plans {
		d := &spec.Disks[p.disk]
		d.VersionID, d.ImageSHA256 = p.version.ID, p.version.SHA256
		from := p.sourceOnHost(h, *d)
		if from == nil {
			return out, fleet.Errorf(fleet.Conflict, "%s has no copy of %s any more. Try again.", h.Name, p.image.Name)
		}
		if from.copyFirst != nil || from.verifyFirst != nil {
			if err := q.LockImageSteps(ctx); err != nil {
				return out, err
			}
		}
		if from.copyFirst != nil {
			o := *from.copyFirst
			o.ref.PoolID = d.PoolID
			if i := slices.IndexFunc(out.copies, func(c imageCopyRequest) bool { return c.version.ID == o.version.ID && c.ref.PoolID == d.PoolID }); i >= 0 {
				from.ref, from.host = out.copies[i].ref, out.copies[i].fileHost()
			} else {
				var ordered bool
				var err error
				if o.ref.Volume, ordered, err = p.nameForCopy(ctx, q, o, out.copies); err != nil {
					return out, err
				}
				from.ref, from.host = o.ref, o.fileHost()
				if !ordered {
					out.copies = append(out.copies, o)
				}
			}
		}
		file := awaitedFile{from.ref, from.host}
		if from.verifyFirst != nil && !slices.Contains(out.awaitedFiles, file) {
			j, err := newVerifyJob(*from.verifyFirst, p.version, h.ID)
			if err != nil {
				return out, err
			}
			out.verifications = append(out.verifications, j)
		}
		if from.awaitsJob && !slices.Contains(out.awaitedFiles, file) {
			out.awaitedFiles = append(out.awaitedFiles, file)
		}
		ref := from.ref
		d.Image = &ref
	}
	return out, nil
}

// nameForCopy returns the file name of copy o in its pool: the name of a copy whose file is missing, or an unused name.
// ordered reports whether another request already makes the copy. siblings are the other copies requested for this VM.
func (p imagePlan) nameForCopy(ctx context.Context, q *db.Queries, o imageCopyRequest, siblings []imageCopyRequest) (name string, ordered bool, err error) {
	pool, on := o.ref.PoolID, o.fileHost()
	rows, err := q.CopiesIn(ctx, db.CopiesInParams{VersionID: p.version.ID, PoolID: pool, Host: string(on)})
	if err != nil {
		return "", false, err
	}
	for _, r := range rows {
		planned := slices.ContainsFunc(p.copies, func(c query.CopyWithVolume) bool { return c.PoolID == pool && c.HostID == on && c.Volume == r.Volume })
		switch {
		case r.Coming:
			return r.Volume, true, nil
		case !planned:
			return "", false, fleet.Errorf(fleet.Conflict, "A copy of %s was added meanwhile. Try again.", p.image.Name)
		}
	}
	for _, c := range p.copies {
		if c.PoolID == pool && c.HostID == on && c.State == fleet.CopyMissing {
			return c.Volume, false, nil
		}
	}
	var taken []string
	for _, c := range siblings {
		if c.ref.PoolID == pool {
			taken = append(taken, c.ref.Volume)
		}
	}
	name, err = o.unusedVolumeName(ctx, q, p.image.Name, taken...)
	return name, false, err
}

// Roles of jobs that prepare an image for a VM's creation.
const (
	roleCopy   = "copy"
	roleVerify = "verify"
	roleVM     = "vm"
)

// newVerifyJob returns the job that verifies a copy. It runs on the preferred host if that host has the file, or else
// on another host.
func newVerifyJob(c query.CopyWithVolume, v fleet.ImageVersion, preferred fleet.HostID) (storage.VolumeJob, error) {
	j := storage.VolumeJob{Kind: fleet.VolumeHash, Ref: c.Ref(), Detail: "as a copy of an image"}
	if c.On == nil || len(c.On.Hosts) == 0 {
		return j, fleet.Errorf(fleet.Conflict, "No online host has %s now, so it cannot be verified.", c.Volume)
	}
	j.Host = c.On.Hosts[0]
	for _, h := range c.On.Hosts {
		if h.ID == preferred {
			j.Host = h
		}
	}
	if v.SHA256 != "" {
		j.Params.Checksum = "sha256:" + v.SHA256
	}
	return j, nil
}

// queuePreparationJobs adds the jobs that make and verify copies to the task that creates the VM. The creation waits for these
// jobs and for unfinished jobs of other tasks for the copies.
func (s preparationSteps) queuePreparationJobs(ctx context.Context, q *db.Queries, a fleet.Actor, task fleet.TaskID) error {
	if len(s.awaitedFiles) == 0 {
		return nil
	}
	var mine, all []string
	type part struct {
		storage.VolumeJob
		role string
		copy *imageCopyRequest // the copy to make; nil: verify an existing one
	}
	var parts []part
	for _, j := range s.verifications {
		parts = append(parts, part{VolumeJob: j, role: roleVerify})
	}
	for i := range s.copies {
		parts = append(parts, part{s.copies[i].volumeJob(), roleCopy, &s.copies[i]})
	}
	for _, p := range parts {
		subject := fleet.SubjectVolume(p.Ref)
		at, err := q.JobsAbout(ctx, db.JobsAboutParams{Subject: subject, Kind: p.Kind})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(at, func(r db.JobsAboutRow) bool { return r.HostID == p.Host.ID }) {
			continue // another task already makes or verifies the copy
		}
		if p.copy != nil {
			if err := p.copy.addPendingCopy(ctx, q, a); err != nil {
				return err
			}
		}
		id := fleet.NewID[fleet.JobID]()
		var way transferRoute
		if p.copy != nil {
			way = newTransferRoute(p.copy)
			way.setReceiveParams(&p.VolumeJob)
		}
		if err := q.AddStep(ctx, db.AddStepParams{ID: id, TaskID: &task, Role: p.role, HostID: p.Host.ID, Kind: p.Kind, Subject: subject, Args: fleet.JobArgs{Volume: &p.Params}}); err != nil {
			return err
		}
		mine = append(mine, string(id))
		if way.id != "" {
			sender, err := way.addSenderJob(ctx, q, task, id, p.Ref)
			if err != nil {
				return err
			}
			mine = append(mine, string(sender))
		}
	}
	for _, file := range s.awaitedFiles {
		for _, kind := range []fleet.JobKind{fleet.VolumeCopy, fleet.VolumeReceive, fleet.VolumeHash} {
			at, err := q.JobsAbout(ctx, db.JobsAboutParams{Subject: fleet.SubjectVolume(file.ref), Kind: kind})
			if err != nil {
				return err
			}
			for _, r := range at {
				if file.host == "" || r.HostID == file.host {
					all = append(all, string(r.ID))
				}
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	if len(mine) > 0 {
		if err := q.NameStep(ctx, db.NameStepParams{Role: roleVM, TaskID: &task, Steps: mine}); err != nil {
			return err
		}
	}
	return q.WaitFor(ctx, db.WaitForParams{Others: all, TaskID: &task, Kind: fleet.VMApply})
}
