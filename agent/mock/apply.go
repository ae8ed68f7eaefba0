package mock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// ApplyVM implements hypervisor.VMs.
func (h *Host) ApplyVM(ctx context.Context, in hypervisor.ApplyWork) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	err := h.markAdopted(in)
	h.mu.Unlock()
	if err != nil {
		return err
	}
	make, err := h.volumesToCreate(in)
	if err == nil {
		err = h.checkSecurityGroups(in)
	}
	if err != nil {
		return err
	}
	if err := h.storeSeed(ctx, in); err != nil {
		return err
	}
	for i, v := range make {
		if err := h.copyVolume(ctx, v, i, len(make), in.Progress); err != nil {
			return err
		}
	}
	if err := h.addVolumes(in, make); err != nil { // the host may have changed during the copies
		return err
	}
	for _, v := range make {
		if err := in.RecordDisk(v.ref); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.notify()
	if err := h.growDisks(in); err != nil {
		return err
	}
	return h.defineVM(in)
}

// growDisks grows disks to the sizes in the job. The caller holds h.mu.
func (h *Host) growDisks(in hypervisor.ApplyWork) error {
	if _, known := h.guests[in.VM.ID]; !known {
		return nil
	}
	for _, d := range h.planEdit(in).GrowDisks {
		p, err := h.activePool(d.PoolID, in.Pools)
		if err != nil {
			return err
		}
		f, ok := p.dir.files[d.Volume]
		if err := h.guests[in.VM.ID].refuseDisksWithSnapshots([]fleet.Disk{d}, in.VM.Name); err != nil {
			return err
		}
		switch {
		case !p.spec.Kind.Info().CreatesVolumes:
			return fleet.Errorf(fleet.Conflict, "The storage of the pool %s defines its volumes. Quantix cannot create, change or delete them.", p.spec.Source())
		case !ok:
			return hypervisor.NoVolumeError(d.Volume, p.spec.Source())
		case f.CapacityBytes >= d.SizeBytes:
			continue
		}
		if d.Encryption != "" && !h.guests[in.VM.ID].isRunning() {
			return hypervisor.RefuseGrowEncryptedWhileOff(d.Volume)
		}
		if other := f.fileBackedBy(p); other != "" {
			return hypervisor.RefuseBackingVolume(f.Name, other)
		}
		f.CapacityBytes = d.SizeBytes
	}
	return nil
}

// addVolumes adds the new volumes to their pools.
func (h *Host) addVolumes(in hypervisor.ApplyWork, make []newVolume) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.checkApply(in); err != nil {
		return err
	}
	for _, v := range make {
		if _, ok := v.in.files[v.Name]; !ok {
			v.in.files[v.Name] = &v.file
		}
	}
	return nil
}

// newVolume is a volume to create.
type newVolume struct {
	file
	ref   fleet.Volref
	in    *sourceDirectory
	image bool
}

// volumesToCreate checks the spec against the host and returns the volumes that the job must create.
func (h *Host) volumesToCreate(in hypervisor.ApplyWork) ([]newVolume, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	make, err := h.checkApply(in)
	if err == nil && nameContains(in.VM.Name, FailCreate) {
		err = errors.New("cannot allocate the disk image: No space left on device")
	}
	return make, err
}

// planEdit returns the changes that the job makes. The caller holds h.mu.
func (h *Host) planEdit(in hypervisor.ApplyWork) hypervisor.DefinitionEdit {
	if g, ok := h.guests[in.VM.ID]; ok {
		was := g.applied
		if in.LacksMergeBase(g.generation, was) {
			was = hypervisor.AssumeAppliedRecord(in, was.Domain, was.FormerDomain, func(d fleet.Disk) bool {
				return !hasDiskOfVolume(was.Spec.Disks, d) && !slices.Contains(in.CreatedDisks, d.Ref())
			})
		}
		return hypervisor.PlanEdit(was, g.definedSpec(), in.VM, in.Overwrites)
	}
	return hypervisor.PlanEdit(hypervisor.AppliedRecord{}, hypervisor.DefinedSpec{}, in.VM, hypervisor.OverwriteAll)
}

// checkApply refuses an invalid job, and otherwise returns the volumes to create. The caller holds h.mu.
func (h *Host) checkApply(in hypervisor.ApplyWork) ([]newVolume, error) {
	var was []fleet.Disk
	var had []fleet.VMHostDevice
	if g, ok := h.guests[in.VM.ID]; ok {
		had = g.persistent.spec.HostDevices
		switch {
		case !g.managed:
			return nil, errUnmanaged()
		case g.undefined && !in.Reapply:
			return nil, hypervisor.FaultError(hypervisor.UndefinedDomainFault())
		}
		was = g.applied.Spec.Disks
	}
	plan := h.planEdit(in)
	var out []newVolume
	if plan.SetsField("hostDevices") {
		if err := h.checkPhysicals(in.VM.ID, plan.WithMergedLists(in.VM.Spec).HostDevices, had); err != nil {
			return nil, err
		}
	}
	for _, d := range plan.Disks {
		made := slices.Contains(in.CreatedDisks, d.Ref()) || slices.ContainsFunc(was, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
		v, err := h.checkDisk(in, d, made)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out = append(out, *v)
		}
	}
	for _, m := range in.VM.Spec.Media() {
		if part, _, _ := strings.Cut(m.Field, "["); plan.SetsField(part) {
			if err := h.checkMedium(in, m); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// checkMedium refuses a volume that does not fit the medium's kind. A medium that the VM already has is not checked.
// The caller holds h.mu.
func (h *Host) checkMedium(in hypervisor.ApplyWork, m fleet.Medium) error {
	p, err := h.activePool(m.PoolID, in.Pools)
	if err != nil {
		return err
	}
	at := path.Join(volumePathPrefix(p.spec), m.Volume)
	if g, ok := h.guests[in.VM.ID]; ok && slices.Contains(g.persistent.media(), at) || m.Kind == fleet.MediumFolder {
		return nil
	}
	switch f, ok := p.dir.files[m.Volume]; {
	case !ok:
		return errImageMissing(m.Volume)
	case len(h.diskUsers()[at]) > 0:
		return errDiskInUse(m.Volume)
	case m.Kind == fleet.MediumISO && (f.Format != "iso" || f.hasExternalData):
		return fleet.Errorf(fleet.Conflict, "The volume %s is not an ISO image, or is a link. Choose another volume.", m.Volume)
	case m.Kind != fleet.MediumISO && (f.Format != "raw" || f.hasExternalData), m.Kind == fleet.MediumFloppy && f.CapacityBytes > fleet.MaxFloppyBytes:
		return fleet.Errorf(fleet.Conflict, "The volume %s is too large for the drive, is not a raw image, or is a link. Choose another volume.", m.Volume)
	}
	return nil
}

// checkDisk returns the volume to create for a disk that was never created, or nil if the disk exists.
func (h *Host) checkDisk(in hypervisor.ApplyWork, d fleet.Disk, made bool) (*newVolume, error) {
	i := slices.IndexFunc(in.Pools, func(p fleet.Pool) bool { return p.ID == d.PoolID })
	if i < 0 {
		return nil, fleet.Errorf(fleet.Invalid, "The pool %s is not known to this host.", d.PoolID)
	}
	pools := hypervisor.NewAppliedRecord(in, "", "", nil).Pools
	switch why := h.missingVolumeReason(d.Ref(), pools); {
	case why == "":
		if p, err := h.activePool(d.PoolID, in.Pools); err == nil && d.Existing && p.spec.Kind.Info().FilePool {
			if f := p.dir.files[d.Volume]; f != nil && (f.Format != "raw" || f.CapacityBytes == 0) {
				return nil, fleet.Errorf(fleet.Conflict, "The volume %s of pool %s has the format %s, or is empty. VMs can share only raw volumes.", d.Volume, in.Pools[i].Name, f.Format)
			}
		}
		return nil, h.refuseUsedDiskUnlessShared(path.Join(volumePathPrefix(in.Pools[i].Spec), d.Volume), in.VM.ID, d.Shareable)
	case made:
		n := 1 + slices.IndexFunc(in.VM.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
		return nil, hypervisor.FaultError(hypervisor.MissingDiskFault(n, d.Ref(), in.Pools[i].Name, h.options.Name, why))
	}
	p, err := h.activePool(d.PoolID, in.Pools)
	if err == nil && (d.Existing || !p.spec.Kind.Info().CreatesVolumes) {
		err = hypervisor.NoVolumeError(d.Volume, in.Pools[i].Name)
	}
	if err != nil {
		return nil, err
	}
	v, err := h.newVolumeForDisk(d, p, in.Pools)
	return &v, err
}

func (h *Host) newVolumeForDisk(d fleet.Disk, p *pool, pools []fleet.Pool) (newVolume, error) {
	v := newVolume{ref: d.Ref(), in: p.dir, file: file{Volume: fleet.Volume{Name: d.Volume, Format: d.FileFormat(), CapacityBytes: d.SizeBytes, AllocBytes: 196 << 10}}}
	if !p.spec.Kind.Info().FilePool {
		v.Format = blockFormatOf(p.spec)
	}
	if d.Image == nil {
		return v, nil
	}
	from, err := h.activePool(d.Image.PoolID, pools)
	if err != nil {
		return v, err
	}
	img, ok := from.dir.files[d.Image.Volume]
	switch {
	case !ok:
		return v, errImageMissing(d.Image.Volume)
	case len(h.diskUsers()[path.Join(volumePathPrefix(from.spec), img.Name)]) > 0 || d.VersionID == "" && h.backsAnyDisk(from, img):
		return v, errDiskInUse(img.Name)
	case img.checkSelfContained() != nil:
		return v, img.checkSelfContained()
	case d.SizeBytes != 0 && d.SizeBytes < img.CapacityBytes:
		return v, fleet.Errorf(fleet.Invalid, "The image %s is larger than the disk. Give the disk at least %d bytes.", img.Name, img.CapacityBytes)
	}
	if d.Overlay {
		if d.Image.PoolID != d.PoolID {
			return v, fleet.Errorf(fleet.Invalid, "The image %s is not in the disk's pool, so it cannot be the disk's backing file. Copy the image to the disk's pool first.", img.Name)
		}
		v.CapacityBytes, v.Backing = max(d.SizeBytes, img.CapacityBytes), path.Join(from.spec.Path, img.Name)
		return v, nil
	}
	v.CapacityBytes, v.AllocBytes, v.image, v.bytes = max(d.SizeBytes, img.CapacityBytes), img.AllocBytes, true, img.dataText()
	return v, nil
}

func errImageMissing(name string) error {
	return fmt.Errorf("Storage volume not found: no storage vol with matching name '%s'", name)
}

// copyVolume simulates the duration of a disk's creation. A clone has ten steps.
func (h *Host) copyVolume(ctx context.Context, v newVolume, i, n int, progress hypervisor.Progress) error {
	note := fmt.Sprintf("Creating disk %d", i+1)
	steps := 1
	if v.image {
		note, steps = fmt.Sprintf("Copying disk %d", i+1), 10
	}
	for s := range steps {
		progress(100*(i*steps+s)/(n*steps), note)
		if err := h.waitDelay(ctx, 0.3); err != nil {
			return err
		}
	}
	return nil
}

// defineVM applies the user's changes to the definition. The caller holds h.mu.
func (h *Host) defineVM(in hypervisor.ApplyWork) error {
	plan := h.planEdit(in)
	g, ok := h.guests[in.VM.ID]
	if err := g.refuseDisksWithSnapshots(plan.RemoveDisks, in.VM.Name); err != nil {
		return err
	}
	if !ok {
		g = &guest{id: in.VM.ID, managed: true, power: fleet.Stopped, firmware: h.receivedFirmware[in.VM.ID].content}
	}
	domain, was := g.applied.Domain, ""
	if plan.SetName || g.applied.PendingDomainName(g.name) != "" {
		if domain = h.freeDomainName(in); domain == "" {
			return fleet.Errorf(fleet.Conflict, "Other domains on the host have all names that this VM's domain could get.")
		}
		if g.isRunning() && domain != g.name {
			was = g.name
		} else {
			g.name = domain
		}
	}
	h.guests[g.id] = g
	delete(h.receivedFirmware, g.id)
	h.rewriteFilters(in, g.applied.Spec.NICs)
	old, before := g.applied.Pools, g.applied
	again := g.generation == in.VM.Generation
	g.applied, g.generation, g.undefined, g.ownershipMark = hypervisor.NewAppliedRecord(in, domain, was, old), in.VM.Generation, false, cmp.Or(in.OwnershipMark, g.ownershipMark)
	g.applied = g.applied.WithAdoption(before, plan)
	var refused error
	if g.isRunning() {
		nics := slices.Clone(plan.NICs)
		for _, s := range plan.SetNICs {
			nics = append(nics, s.Device)
		}
		refused = h.checkNICLimits(nics)
	}
	if g.isRunning() && refused == nil {
		if plan.SetsField("memory.balloonMiB") || plan.SetsField("memory.minMiB") || plan.SetsField("memoryMiB") {
			g.balloon = 0
		}
		g.live.spec.NICs = nicsAfterEdit(g.live.spec.NICs, plan)
		g.live.hotPlug(plan, in.VM.Spec)
		g.live.pools = maps.Clone(g.live.pools)
	}
	had := g.persistent.spec.HostDevices
	g.persistent = guestDefinition{spec: editedSpec(g.persistent.spec, plan, in.VM.Spec), pools: map[fleet.PoolID]string{}}
	for id, p := range g.applied.Pools {
		g.persistent.pools[id] = cmp.Or(p.Path, appliedPoolDir(p))
	}
	if g.isRunning() {
		maps.Copy(g.live.pools, g.persistent.pools)
		if again {
			had = nil
		}
		if err := h.hotPlugHostDevices(g, had); err != nil {
			return err
		}
		h.releaseUnpluggedDevices(g)
	}
	h.deleteUnusedSeeds(g)
	return refused
}

// freeDomainName returns the preferred name for the VM's domain that no other domain has. It is empty if all names are
// taken.
func (h *Host) freeDomainName(in hypervisor.ApplyWork) string {
	for _, name := range hypervisor.DomainNames(in.VM.Name, in.Project, in.VM.ID) {
		taken := false
		for _, g := range h.guests {
			taken = taken || g.id != in.VM.ID && g.name == name
		}
		if !taken {
			return name
		}
	}
	return ""
}
