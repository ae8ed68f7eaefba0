package control

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// imagePlan is a new disk that is made from a library image, with the image copies that can be its source.
type imagePlan struct {
	disk        int
	image       fleet.ImageView
	version     fleet.ImageVersion
	copies      query.Copies
	shared      bool              // whether the disk's pool is shared
	missingCopy *imageCopyRequest // for a shared pool without a copy: the request that makes one; nil: none
	pools       []fleet.PoolID
}

// diskSource is the image copy that one host makes a disk from, with the jobs that must run first.
type diskSource struct {
	ref       fleet.Volref
	host      fleet.HostID      // the file's host, for a local pool
	awaitsJob bool              // an unfinished job makes or verifies the file, so the disk waits for that job
	copyFirst *imageCopyRequest // the copy to make first; nil: none

	verifyFirst *query.CopyWithVolume // the copy whose checksum a host must verify first; nil: none
}

// planImages finds the image copies that the spec's disks can be made from. Actors who may not change infrastructure
// can only use images published to the project.
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
	open := fleet.GrantedTo(project, p.image.Grants)
	version := p.image.Version(d.VersionID)
	switch {
	case !open && !policy.May(a, policy.InfraChange, ""):
		return p, fleet.Errorf(fleet.NotFound, "There is no such image.")
	case version == nil && d.VersionID != "":
		return p, fleet.Errorf(fleet.Conflict, "The image %s has no such version.", p.image.Name)
	case version == nil:
		return p, fleet.Errorf(fleet.Conflict, "The image %s has no version yet.", p.image.Name)
	case version.IsISO():
		return p, fleet.Errorf(fleet.Conflict, "%s is an ISO image: insert it into the VM's drive, and give the disk a size.", p.image.Name)
	}
	p.version = *version
	if p.copies, err = c.CopiesOfImage(ctx, fleet.SystemActor, p.image); err != nil {
		return p, err
	}
	p.copies = slices.DeleteFunc(p.copies, func(o query.CopyWithVolume) bool { return o.VersionID != p.version.ID })
	for _, o := range p.copies {
		p.pools = append(p.pools, o.PoolID)
	}
	pool, err := c.GetPool(ctx, fleet.SystemActor, d.PoolID)
	if err != nil || !pool.Spec.Shared { // placement reports a missing pool
		return p, nil //nolint:nilerr
	}
	p.shared = true
	if step, err := c.findCopy(ctx, p.copies, p.version, d.PoolID, ""); err == nil {
		step.shared = true
		p.missingCopy = &step
	}
	return p, nil
}

// sourceOnHost returns the source for disk d on the host; nil: none.
func (p imagePlan) sourceOnHost(h placement.Host, d fleet.Disk) *diskSource {
	here := func(c query.CopyWithVolume) bool {
		pool := h.Pools[c.PoolID]
		return pool.Assigned && pool.State == fleet.PoolActive && (c.HostID == "" || c.HostID == h.ID)
	}
	better := func(c, than *query.CopyWithVolume) bool { return than == nil || than.State != fleet.CopyReady }
	var best, other, pending *query.CopyWithVolume
	for i := range p.copies {
		c := &p.copies[i]
		switch {
		case !here(*c):
		case c.State == fleet.CopyInProgress && c.PoolID == d.PoolID:
			pending = c
		case !c.Usable():
		case c.PoolID == d.PoolID && better(c, best):
			best = c
		case c.PoolID != d.PoolID && better(c, other):
			other = c
		}
	}
	switch {
	case best != nil:
		return sourceFromCopy(best)
	case other != nil && !d.Overlay:
		return sourceFromCopy(other)
	case pending != nil:
		return &diskSource{ref: pending.Ref(), host: pending.HostID, awaitsJob: true}
	case p.missingCopy != nil:
		return &diskSource{copyFirst: p.missingCopy, awaitsJob: true}
	case other != nil && !p.shared: // an overlay needs its backing file on the same host, in the same pool
		return &diskSource{awaitsJob: true, copyFirst: &imageCopyRequest{version: p.version, source: *other, host: query.HostRef{ID: h.ID, Name: h.Name}}}
	case !p.shared:
		return p.sourceFromOtherHost(h)
	}
	return nil
}

// sourceFromOtherHost returns a source that another host must first send to host h; nil: none.
func (p imagePlan) sourceFromOtherHost(h placement.Host) *diskSource {
	var best *imageCopyRequest
	for _, c := range p.copies {
		if !isCopyReadable(c, p.version.ID) || best != nil && (best.source.State == fleet.CopyReady || c.State != fleet.CopyReady) {
			continue
		}
		if from := findSender(c, h.ID); from != nil {
			best = &imageCopyRequest{version: p.version, source: c, host: query.HostRef{ID: h.ID, Name: h.Name}, from: *from}
		}
	}
	if best == nil {
		return nil
	}
	return &diskSource{awaitsJob: true, copyFirst: best}
}

// sourceFromCopy returns a source that uses the existing copy. A copy that is not verified must be verified first.
func sourceFromCopy(c *query.CopyWithVolume) *diskSource {
	if c.State == fleet.CopyReady {
		return &diskSource{ref: c.Ref(), host: c.HostID}
	}
	return &diskSource{ref: c.Ref(), host: c.HostID, awaitsJob: true, verifyFirst: c}
}

// addImageSources records in h, for placement, whether the host has or can get a copy of each image in plans.
func addImageSources(plans []imagePlan, spec fleet.VMSpec, h *placement.Host) {
	h.Images = map[int]placement.Image{}
	for _, p := range plans {
		image := placement.Image{Name: p.image.Name, CapacityBytes: p.version.CapacityBytes}
		switch from := p.sourceOnHost(*h, spec.Disks[p.disk]); {
		case from == nil:
			image.UnusablePlain = fmt.Sprintf("no copy of the image %q, and no host that could send one", p.image.Name)
			image.Unusable = fmt.Sprintf("%s has no copy of %s, and no online host could send it one.", h.Name, p.image.Name)
		case from.copyFirst != nil:
			image.NeedsCopy = true
		}
		h.Images[p.disk] = image
	}
}

// poolsWithCopies returns the pools that contain copies of the images in plans.
func poolsWithCopies(plans []imagePlan) (out []fleet.PoolID) {
	for _, p := range plans {
		out = append(out, p.pools...)
	}
	return out
}

// lockImages locks the images until the transaction ends, and refuses images that are no longer available to the
// project.
func lockImages(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, plans []imagePlan) error {
	if len(plans) == 0 {
		return nil
	}
	var ids []string
	for _, p := range plans {
		ids = append(ids, string(p.image.ID))
	}
	rows, err := q.LockImages(ctx, db.LockImagesParams{Ids: ids, ProjectID: string(project)})
	if err != nil {
		return err
	}
	for _, p := range plans {
		i := slices.IndexFunc(rows, func(r db.LockImagesRow) bool { return r.ID == p.image.ID })
		if i < 0 || !rows[i].Open && !policy.May(a, policy.InfraChange, "") {
			return fleet.Errorf(fleet.Conflict, "The image %s was withdrawn meanwhile. Reload the page and choose another image.", p.image.Name)
		}
	}
	return lockImageVersions(ctx, q, plans)
}

// lockImageVersions refuses image versions deleted after planImages read them. Their images must be locked.
func lockImageVersions(ctx context.Context, q *db.Queries, plans []imagePlan) error {
	var ids []string
	for _, p := range plans {
		ids = append(ids, string(p.version.ID))
	}
	existing, err := q.VersionsThere(ctx, ids)
	if err != nil {
		return err
	}
	for _, p := range plans {
		if !slices.Contains(existing, p.version.ID) {
			return fleet.Errorf(fleet.Conflict, "That version of the image %s was deleted meanwhile. Reload the page and choose another version.", p.image.Name)
		}
	}
	return nil
}

// checkVolumesPublished refuses volumes in a spec that are not published to the project, unless the actor may change
// infrastructure.
func checkVolumesPublished(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, refs map[string]fleet.Volref) error {
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

// sourceVolumes returns the existing volumes that a new VM's spec refers to, by field name of the spec.
func sourceVolumes(spec fleet.VMSpec) map[string]fleet.Volref {
	refs := map[string]fleet.Volref{}
	for i, d := range spec.Disks {
		if d.Image != nil {
			refs[fmt.Sprintf("spec.disks[%d].image.volume", i)] = *d.Image
		}
	}
	for _, m := range spec.Media() {
		if m.Kind != fleet.MediumFolder {
			refs["spec."+m.Field+".volume"] = m.Volref
		}
	}
	return refs
}
