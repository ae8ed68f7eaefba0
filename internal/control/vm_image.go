package control

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/browse"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// imagePlan is a disk that is to be made from an image of the library, and from which copies that may be.
type imagePlan struct {
	disk    int
	image   fleet.ImageView
	version fleet.ImageVersion
	copies  browse.Copies
	shared  bool       // the disk's pool is
	step    *copyImage // of a shared pool without a copy: what brings one there; nil: nothing does
	pools   []fleet.PoolID
}

// origin is what a disk is made from on one host.
type origin struct {
	ref  fleet.Volref
	wait bool       // a host is at it
	step *copyImage // what has to be done first

	verify *browse.CopyOn // nobody has told its checksum, as it is now: it is read first
}

// planImages finds what the disks that name images of the library may be made from. Who does not run hosts takes what is published to the project.
func (c *Control) planImages(ctx context.Context, a fleet.Actor, project fleet.ProjectID, spec fleet.VMSpec) ([]imagePlan, error) {
	var plans []imagePlan
	var checks fleet.Checks
	for i, d := range spec.Disks {
		if d.ImageID == "" {
			continue
		}
		p, err := c.planImage(ctx, a, project, i, d)
		switch fleet.CodeOf(err) {
		case "":
			plans = append(plans, p)
		case fleet.NotFound:
			checks.Add(fmt.Sprintf("spec.disks[%d].imageId", i), "There is no such image, or none that is published to the project.")
		case fleet.Conflict:
			checks.Add(fmt.Sprintf("spec.disks[%d].imageId", i), "%s", err)
		default:
			return nil, err
		}
	}
	return plans, checks.Err()
}

func (c *Control) planImage(ctx context.Context, a fleet.Actor, project fleet.ProjectID, i int, d fleet.Disk) (imagePlan, error) {
	p := imagePlan{disk: i}
	var err error
	if p.image, err = c.GetImage(ctx, fleet.SystemActor, d.ImageID); err != nil {
		return p, err
	}
	open := slices.ContainsFunc(p.image.Grants, func(g fleet.ImageGrant) bool { return g.ProjectID == "" || g.ProjectID == project })
	version := p.image.Version(d.VersionID)
	switch {
	case !open && !policy.May(a, policy.InfraChange, ""):
		return p, fleet.Errorf(fleet.NotFound, "There is no such image.")
	case version == nil && d.VersionID != "":
		return p, fleet.Errorf(fleet.Conflict, "The image %s has no such version.", p.image.Name)
	case version == nil:
		return p, fleet.Errorf(fleet.Conflict, "The image %s has no version yet.", p.image.Name)
	case version.ISO():
		return p, fleet.Errorf(fleet.Conflict, "%s is a disc: put it into the VM's drive, and give the disk a size.", p.image.Name)
	}
	p.version = *version
	if p.copies, err = c.CopiesOf(ctx, fleet.SystemActor, p.image); err != nil {
		return p, err
	}
	p.copies = slices.DeleteFunc(p.copies, func(o browse.CopyOn) bool { return o.VersionID != p.version.ID })
	for _, o := range p.copies {
		p.pools = append(p.pools, o.PoolID)
	}
	pool, err := c.GetPool(ctx, fleet.SystemActor, d.PoolID)
	if err != nil || !pool.Spec.Shared { // that there is no such pool, placement says
		return p, nil //nolint:nilerr
	}
	p.shared = true
	if step, err := c.findCopy(ctx, p.copies, p.version, d.PoolID, ""); err == nil {
		step.shared = true
		p.step = &step
	}
	return p, nil
}

// on is what the disk is made from on the host; nil: nothing there.
func (p imagePlan) on(h placement.Host, d fleet.Disk) *origin {
	here := func(c browse.CopyOn) bool {
		pool := h.Pools[c.PoolID]
		return pool.Assigned && pool.State == fleet.PoolActive && (c.HostID == "" || c.HostID == h.ID)
	}
	better := func(c, than *browse.CopyOn) bool { return than == nil || than.State != fleet.CopyReady }
	var best, any, late *browse.CopyOn
	for i := range p.copies {
		c := &p.copies[i]
		switch {
		case !here(*c):
		case c.State == fleet.CopyComing && c.PoolID == d.PoolID:
			late = c
		case !c.Offered():
		case c.PoolID == d.PoolID && better(c, best):
			best = c
		case c.PoolID != d.PoolID && better(c, any):
			any = c
		}
	}
	switch {
	case best != nil:
		return fromCopy(best)
	case any != nil && !d.Overlay:
		return fromCopy(any)
	case late != nil:
		return &origin{ref: late.Ref(), wait: true}
	case p.step != nil:
		return &origin{step: p.step, wait: true}
	case any != nil && !p.shared: // what stands on it must be beside it
		return &origin{wait: true, step: &copyImage{version: p.version, source: *any, host: browse.HostRef{ID: h.ID, Name: h.Name}}}
	case !p.shared:
		return p.sent(h)
	}
	return nil
}

// sent is a copy that another host sends first; nil: none does.
func (p imagePlan) sent(h placement.Host) *origin {
	var best *copyImage
	for _, c := range p.copies {
		if !readable(c, p.version.ID) || best != nil && (best.source.State == fleet.CopyReady || c.State != fleet.CopyReady) {
			continue
		}
		if from := senderOf(c, h.ID); from != nil {
			best = &copyImage{version: p.version, source: c, host: browse.HostRef{ID: h.ID, Name: h.Name}, from: *from}
		}
	}
	if best == nil {
		return nil
	}
	return &origin{wait: true, step: best}
}

// fromCopy is a copy that there is. One that nobody has verified is read first.
func fromCopy(c *browse.CopyOn) *origin {
	if c.State == fleet.CopyReady {
		return &origin{ref: c.Ref()}
	}
	return &origin{ref: c.Ref(), wait: true, verify: c}
}

// offer tells placement what the host can make the VM's disks from.
func offerImages(plans []imagePlan, spec fleet.VMSpec, h *placement.Host) {
	h.Images = map[int]placement.Image{}
	for _, p := range plans {
		image := placement.Image{Name: p.image.Name, CapacityBytes: p.version.CapacityBytes}
		switch from := p.on(*h, spec.Disks[p.disk]); {
		case from == nil:
			image.Plain = fmt.Sprintf("no copy of the image %q, and no host that could send one", p.image.Name)
			image.Why = fmt.Sprintf("%s has no copy of %s, and no host that is heard could send it one.", h.Name, p.image.Name)
		case from.step != nil:
			image.Later = true
		}
		h.Images[p.disk] = image
	}
}

// poolsOf are the pools in which copies lie.
func poolsOf(plans []imagePlan) (out []fleet.PoolID) {
	for _, p := range plans {
		out = append(out, p.pools...)
	}
	return out
}

// holdImages keeps the images until the transaction ends, and refuses those that were withdrawn meanwhile.
func holdImages(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, plans []imagePlan) error {
	if len(plans) == 0 {
		return nil
	}
	var ids []string
	for _, p := range plans {
		ids = append(ids, string(p.image.ID))
	}
	rows, err := q.HoldImages(ctx, db.HoldImagesParams{Ids: ids, ProjectID: string(project)})
	if err != nil {
		return err
	}
	for _, p := range plans {
		i := slices.IndexFunc(rows, func(r db.HoldImagesRow) bool { return r.ID == p.image.ID })
		if i < 0 || !rows[i].Open && !policy.May(a, policy.InfraChange, "") {
			return fleet.Errorf(fleet.Conflict, "The image %s was withdrawn meanwhile. Reload and choose another.", p.image.Name)
		}
	}
	return nil
}

// steps are what has to be done before the VM's disks can be made on its host.
type steps struct {
	copies []copyImage
	verify []volumeJob
	wait   []fleet.Volref
}

// settleImages says in the spec what each disk is made from on the chosen host, and what has to be done first.
func settleImages(ctx context.Context, q *db.Queries, plans []imagePlan, spec *fleet.VMSpec, h placement.Host) (steps, error) {
	var out steps
	for _, p := range plans {
		d := &spec.Disks[p.disk]
		d.VersionID, d.ImageSHA256 = p.version.ID, p.version.SHA256
		from := p.on(h, *d)
		if from == nil {
			return out, fleet.Errorf(fleet.Conflict, "%s has no copy of %s any more. Try again.", h.Name, p.image.Name)
		}
		if from.step != nil {
			o := *from.step
			o.ref.PoolID = d.PoolID
			if i := slices.IndexFunc(out.copies, func(c copyImage) bool { return c.version.ID == o.version.ID && c.ref.PoolID == d.PoolID }); i >= 0 {
				from.ref = out.copies[i].ref
			} else {
				var err error
				if o.ref.Volume, err = p.nameIn(ctx, q, d.PoolID, o); err != nil {
					return out, err
				}
				from.ref = o.ref
				out.copies = append(out.copies, o)
			}
		}
		if from.verify != nil && !slices.Contains(out.wait, from.ref) {
			j, err := verifyJob(*from.verify, p.version, h.ID)
			if err != nil {
				return out, err
			}
			out.verify = append(out.verify, j)
		}
		if from.wait && !slices.Contains(out.wait, from.ref) {
			out.wait = append(out.wait, from.ref)
		}
		ref := from.ref
		d.Image = &ref
	}
	return out, nil
}

// nameIn is what the copy is called in the pool: as one that was lost there, or a name that is free.
func (p imagePlan) nameIn(ctx context.Context, q *db.Queries, pool fleet.PoolID, o copyImage) (string, error) {
	on := o.host.ID
	if o.shared {
		on = ""
	}
	for _, c := range p.copies {
		if c.PoolID == pool && c.HostID == on && c.State == fleet.CopyMissing {
			return c.Volume, nil
		}
	}
	return freeVolume(ctx, q, p.image.Name, p.version, NewCopy{PoolID: pool, HostID: on}, o.shared)
}

// The parts of a VM's creation that brings an image to its pool first.
const (
	roleCopy   = "copy"
	roleVerify = "verify"
	roleVM     = "vm"
)

// verifyJob is the order to read a copy: on the VM's host, or on another that has the file.
func verifyJob(c browse.CopyOn, v fleet.ImageVersion, prefer fleet.HostID) (volumeJob, error) {
	j := volumeJob{kind: fleet.VolumeHash, ref: c.Ref(), detail: "as a copy of an image"}
	if c.On == nil || len(c.On.Hosts) == 0 {
		return j, fleet.Errorf(fleet.Conflict, "No host that is heard has %s now, so it cannot be verified.", c.Volume)
	}
	j.host = c.On.Hosts[0]
	for _, h := range c.On.Hosts {
		if h.ID == prefer {
			j.host = h
		}
	}
	if v.SHA256 != "" {
		j.order.Checksum = "sha256:" + v.SHA256
	}
	return j, nil
}

// queue makes the copies a part of the task that makes the VM, which waits for them, and for those that others have ordered.
func (s steps) queue(ctx context.Context, q *db.Queries, a fleet.Actor, task fleet.TaskID) error {
	if len(s.wait) == 0 {
		return nil
	}
	var mine, all []string
	type part struct {
		volumeJob
		role string
		copy *copyImage // of which it is the job; nil: it reads a copy that there is
	}
	var parts []part
	for _, j := range s.verify {
		parts = append(parts, part{volumeJob: j, role: roleVerify})
	}
	for i := range s.copies {
		parts = append(parts, part{s.copies[i].job(), roleCopy, &s.copies[i]})
	}
	for _, p := range parts {
		subject := fleet.SubjectVolume(p.ref)
		at, err := q.JobsAbout(ctx, db.JobsAboutParams{Subject: subject, Kind: p.kind})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(at, func(r db.JobsAboutRow) bool { return r.HostID == p.host.ID }) {
			continue // somebody else came first
		}
		if p.copy != nil {
			if err := p.copy.add(ctx, q, a); err != nil {
				return err
			}
		}
		id := fleet.NewID[fleet.JobID]()
		var way between
		if p.copy != nil {
			way = transferOf(p.copy)
			way.received(&p.volumeJob)
		}
		if err := q.AddStep(ctx, db.AddStepParams{ID: id, TaskID: &task, Role: p.role, HostID: p.host.ID, Kind: p.kind, Subject: subject, Args: fleet.JobArgs{Volume: &p.order}}); err != nil {
			return err
		}
		mine = append(mine, string(id))
		if way.id != "" {
			sender, err := way.sendBeside(ctx, q, task, id, p.ref)
			if err != nil {
				return err
			}
			mine = append(mine, string(sender))
		}
	}
	for _, ref := range s.wait {
		for _, kind := range []fleet.JobKind{fleet.VolumeCopy, fleet.VolumeReceive, fleet.VolumeHash} {
			at, err := q.JobsAbout(ctx, db.JobsAboutParams{Subject: fleet.SubjectVolume(ref), Kind: kind})
			if err != nil {
				return err
			}
			for _, r := range at {
				all = append(all, string(r.ID))
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

// openTo refuses volumes that a spec names and that are not published to the project, to those who do not run hosts.
func openTo(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, refs map[string]fleet.Volref) error {
	if len(refs) == 0 || policy.May(a, policy.InfraChange, "") {
		return nil
	}
	var pools []string
	for _, ref := range refs {
		pools = append(pools, string(ref.PoolID))
	}
	rows, err := q.LibraryOf(ctx, pools)
	if err != nil {
		return err
	}
	var checks fleet.Checks
	for field, ref := range refs {
		if !slices.ContainsFunc(rows, func(r db.LibraryOfRow) bool {
			return r.PoolID == ref.PoolID && r.Volume == ref.Volume && (r.ToAll || slices.Contains(r.Projects, string(project)))
		}) {
			checks.Add(field, "There is no volume %q here that is published to the project.", ref.Volume)
		}
	}
	return checks.Err()
}

// readFrom are the volumes that a new VM's spec names, by their fields.
func readFrom(spec fleet.VMSpec) map[string]fleet.Volref {
	refs := map[string]fleet.Volref{}
	for i, d := range spec.Disks {
		if d.Image != nil {
			refs[fmt.Sprintf("spec.disks[%d].image.volume", i)] = *d.Image
		}
	}
	if spec.ISO != nil {
		refs["spec.iso.volume"] = *spec.ISO
	}
	return refs
}
