package libvirt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/firmware"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/locks"
	"quantix/agent/libvirt/migration"
	"quantix/agent/libvirt/network"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// ApplyVM implements hypervisor.VMs. It creates disks first and writes the definition last, so a domain never names
// an incomplete disk. A disk named by the definition therefore exists and is never created again.
func (b *Backend) ApplyVM(ctx context.Context, in hypervisor.ApplyWork) error {
	act := "apply " + in.VM.Name
	unlock, err := b.vmLocks.Lock(ctx, in.VM.ID)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	files, err := b.lockFilesShared(ctx, in)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer files.Unlock()
	b.assignedPools.Record(in.Pools)
	return conn.WrapAction(act, b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		a := applyRun{Backend: b, c: c, in: in}
		return a.run(ctx)
	}))
}

// lockFilesShared takes shared locks on the files that the VM's definition will name, so that no volume job changes
// them meanwhile.
func (b *Backend) lockFilesShared(ctx context.Context, in hypervisor.ApplyWork) (files locks.Unlockers, err error) {
	refs := make([]fleet.Volref, 0, 2*len(in.VM.Spec.Disks)+1)
	for _, d := range in.VM.Spec.Disks {
		if refs = append(refs, d.Ref()); d.Image != nil {
			refs = append(refs, *d.Image)
		}
	}
	for _, m := range in.VM.Spec.Media() {
		refs = append(refs, m.Volref)
	}
	for _, ref := range refs {
		p, wrong := storage.LocalVolumeOf(ref, in.Pools)
		if wrong != nil {
			continue // the code that needs the volume reports this error
		}
		unlock, err := b.volumeLocks.LockShared(ctx, p.Path())
		if err != nil {
			files.Unlock()
			return nil, err
		}
		files = append(files, unlock)
	}
	return files, nil
}

// applyRun is the state of one ApplyVM call.
type applyRun struct {
	*Backend
	c  *conn.Conn
	in hypervisor.ApplyWork
}

func (a *applyRun) run(ctx context.Context) error {
	old, err := a.existingDomain(ctx)
	if err != nil {
		return err
	}
	if old == nil {
		if old, err = a.defineReceivedDomain(ctx); err != nil {
			return err
		}
	}
	if old == nil {
		if err := a.createDomain(ctx); err != nil {
			return err
		}
	}
	// The definition has the firmware state that a migration brought, or it is newer.
	if err := a.firmware.Discard(a.in.VM.ID, ""); err != nil || old == nil {
		return err
	}
	if !old.managed {
		if old, err = a.markAdoptedDomain(ctx, *old); err != nil {
			return err
		}
	}
	if old.transient && !a.in.Reapply {
		return hypervisor.FaultError(hypervisor.UndefinedDomainFault())
	}
	return a.redefineDomain(ctx, *old)
}

// existingDomain returns the VM's current domain, or nil if there is none. It refuses a domain that Quantix does not
// manage.
func (a *applyRun) existingDomain(ctx context.Context) (*observedDomain, error) {
	uuid, err := conn.ParseUUID(a.in.VM.ID)
	if err != nil {
		return nil, err
	}
	a.domains.invalidate(uuid)
	s, err := a.readObservedDomain(ctx, a.c, a.in.VM.ID)
	switch {
	case conn.IsLibvirtCode(err, golibvirt.ErrNoDomain):
		return nil, nil
	case err != nil:
		return nil, err
	case !s.managed && (!a.in.Adopted || a.in.VM.ObservedGeneration > 0): // a domain is marked once, by the adoption
		return nil, errUnmanagedDomain()
	}
	return &s, a.refuseLostGuest(s)
}

// createDomain defines a VM without a definition: a new VM, or one whose definition an administrator removed.
func (a *applyRun) createDomain(ctx context.Context) error {
	if a.in.Adopted && a.in.AppliedGeneration == 0 && !a.in.Reapply {
		return fleet.Errorf(fleet.Conflict, "The host no longer has the VM that was adopted. Release or delete the VM, or define its domain on the host again.")
	}
	want := a.in.VM
	plan := hypervisor.PlanEdit(hypervisor.AppliedRecord{}, hypervisor.DefinedSpec{}, want, hypervisor.OverwriteAll)
	in, err := a.prepareEdit(ctx, nil, nil, plan)
	if err != nil {
		return err
	}
	x, err := a.baseDefinition(ctx)
	if err != nil {
		return err
	}
	if err := a.createSeed(ctx, fleet.VMFirstBoot{}, &in); err != nil {
		return err
	}
	if err := a.filters.DefineNICFilters(ctx, a.c, a.in); err != nil {
		return err
	}
	return a.withFreeName(ctx, func(name string) error {
		in.Name, in.Metadata = name, domxml.NewQuantixMetadata(a.in, hypervisor.NewAppliedRecord(a.in, name, "", nil), "")
		domxml.Edit(x, in)
		domxml.AddPCIPorts(x)
		if _, err := network.SetNICMTUs(ctx, a.c, x); err != nil {
			return err
		}
		if err := a.placeFirmware(ctx, x); err != nil {
			return err
		}
		return a.defineDomain(ctx, x)
	})
}

// placeFirmware puts the UEFI variables and the TPM state in place that a cold migration has brought to this host.
func (a *applyRun) placeFirmware(ctx context.Context, x *libvirtxml.Domain) error {
	if staged, err := a.firmware.HasStaged(a.in.VM.ID); err != nil || !staged || !firmware.HasState(x) {
		return err
	}
	capabilities, err := conn.Call(ctx, a.c, func(l *golibvirt.Libvirt) (string, error) { return l.ConnectGetCapabilities() })
	if err != nil {
		return err
	}
	uid, err := migration.QEMUUser(capabilities)
	if err != nil {
		return err
	}
	return a.firmware.Place(x, uid)
}

// redefineDomain changes the definition where the wanted spec differs from the last applied one. It skips the write if
// the definition stays the same, unless the domain has no persistent definition.
func (a *applyRun) redefineDomain(ctx context.Context, old observedDomain) error {
	defer a.domains.invalidate(old.ref.UUID)
	// The secure XML includes the VNC password that an administrator set; redefining without it would lose the
	// password.
	x, err := conn.ReadDefinition(ctx, a.c, old.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil {
		return err
	}
	before, err := domxml.DefinitionText(x)
	if err != nil {
		return err
	}
	was := old.applied
	if was == nil || a.in.LacksMergeBase(old.metadata.Generation, *was) {
		if was, err = a.deriveAppliedRecord(ctx, old, x); err != nil {
			return err
		}
	}
	if old.applied != nil {
		was.Adopted, was.Verbatim = old.applied.Adopted, old.applied.Verbatim
		was.Removed, was.RemovedIn = old.applied.Removed, old.applied.RemovedIn
	}
	bodyBefore, err := domxml.BodyText(x)
	if err != nil {
		return err
	}
	named := domxml.NameAdoptedDevices(x, *was, a.assignedPools.Lookup())
	is := domxml.ReadDefinedSpec(x, *was, a.assignedPools.Lookup())
	plan := hypervisor.PlanEdit(*was, is, a.in.VM, a.in.Overwrites)
	in, err := a.prepareEdit(ctx, &old, was, plan)
	if err != nil {
		return err
	}
	if err := a.refuseSnapshotDiskRemoval(plan.RemoveDisks); err != nil {
		return err
	}
	if err := a.createSeed(ctx, is.Spec.FirstBoot, &in); err != nil {
		return err
	}
	if err := a.growDisks(ctx, old, x, plan.GrowDisks); err != nil {
		return err
	}
	if err := a.filters.DefineNICFilters(ctx, a.c, a.in); err != nil {
		return err
	}
	domain, oldName, err := a.renameDomain(ctx, &old, *was, plan.SetName)
	if err != nil {
		return err
	}
	record := hypervisor.NewAppliedRecord(a.in, domain, oldName, was.Pools).WithAdoption(*was, plan)
	removed := domxml.NewDeviceNames(was, a.assignedPools.Lookup(), x).RemovedDevices(x, plan)
	record = record.WithRemoved(removed, old.run)
	in.Name, in.Metadata = old.ref.Name, domxml.NewQuantixMetadata(a.in, record, old.metadata.OwnershipMark)
	in.Adopted = was.Adopted
	domxml.Edit(x, in)
	named.Remove(x)
	if _, err := network.SetNICMTUs(ctx, a.c, x); err != nil {
		return err
	}
	body, err := domxml.BodyText(x)
	if err != nil {
		return err
	}
	// The running guest has no such aliases, and a definition that stays the same gets none.
	if old.live == nil && body != bodyBefore {
		domxml.NameAdoptedDevices(x, record, a.assignedPools.Lookup())
	}
	after, err := domxml.DefinitionText(x)
	if err != nil {
		return err
	}
	if before != after || old.transient {
		if !was.Adopted {
			domxml.AddPCIPorts(x)
		}
		if err := a.defineDomain(ctx, x); err != nil {
			return err
		}
	}
	if old.live == nil {
		if err := a.removeOtherMdevs(x); err != nil {
			return err
		}
	} else {
		if err := a.updateLiveFilters(ctx, old, x); err != nil {
			return err
		}
		left, err := a.hotPlugChanges(ctx, old, &record, plan, old.metadata.Generation == a.in.VM.Generation)
		if err != nil {
			return err
		}
		if err := a.recordReleasedDevices(ctx, old, record, left); err != nil {
			return err
		}
	}
	if err := a.removeUnusedSeeds(ctx, x, old.live); err != nil {
		return err
	}
	return a.filters.RemoveNICFilters(ctx, a.c, a.in.VM.ID, a.in.VM.Spec.NICs)
}

// recordReleasedDevices removes the devices that the guest has released from the record of removed devices: if somebody
// attaches such a device again, it is no longer Quantix's. live is the running guest's definition.
func (a *applyRun) recordReleasedDevices(ctx context.Context, old observedDomain, record hypervisor.AppliedRecord, live *libvirtxml.Domain) error {
	left := domxml.StillPresent(record.Removed, live)
	if len(left) == len(record.Removed) {
		return nil
	}
	text := domxml.NewQuantixMetadata(a.in, record.WithRemoved(left, record.RemovedIn), old.metadata.OwnershipMark).WithoutNamespace()
	return setMetadata(ctx, a.c, old, text, golibvirt.DomainAffectConfig)
}

// deriveAppliedRecord returns a substitute for the record of the last applied spec, derived from the definition x, for a
// definition without a usable record.
func (a *applyRun) deriveAppliedRecord(ctx context.Context, old observedDomain, x *libvirtxml.Domain) (*hypervisor.AppliedRecord, error) {
	domain, was := a.in.VM.Name, ""
	if p := old.pendingName(); p != "" {
		domain, was = p, old.ref.Name
	}
	here := domxml.ReadDefinedSpec(x, hypervisor.NewAppliedRecord(a.in, domain, was, nil), a.assignedPools.Lookup())
	var failed error
	out := hypervisor.AssumeAppliedRecord(a.in, domain, was, func(d fleet.Disk) bool {
		if slices.ContainsFunc(here.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() }) || slices.Contains(a.in.CreatedDisks, d.Ref()) {
			return false
		}
		p, err := storage.LocalVolumeOf(d.Ref(), a.in.Pools)
		there := false
		switch {
		case err == nil && p.IsInBlockPool():
			there, err = a.blockDiskExists(ctx, p)
		case err == nil:
			there, err = hostfile.Exists(ctx, p.Path())
		}
		failed = errors.Join(failed, err)
		return !there
	})
	if was != "" {
		out.Name = domain // the domain keeps its old name until the guest is off
	}
	return &out, failed
}

// prepareEdit resolves the planned changes to paths of this host and creates the disks that were never created. It
// checks all disks before it creates the first one.
func (a *applyRun) prepareEdit(ctx context.Context, old *observedDomain, was *hypervisor.AppliedRecord, plan hypervisor.DefinitionEdit) (domxml.EditContent, error) {
	in, places, missing, err := a.checkEditPlan(ctx, old, was, plan)
	if err != nil {
		return in, err
	}
	for i, p := range missing {
		if err := a.createDisk(ctx, p, i, len(missing)); err != nil {
			return in, fmt.Errorf("disk %d: %w", p.Number, err)
		}
	}
	// locateDisks needs the created files, because the cache mode depends on their storage.
	if in.LocatedDisks, err = a.locateDisks(ctx, places); err != nil {
		return in, err
	}
	a.in.Progress(100, "writing the definition")
	return in, nil
}

// checkDiskExists looks for one disk and returns false if the disk was never created. It refuses a disk that was
// created but is now missing.
func (a *applyRun) checkDiskExists(ctx context.Context, p storage.LocalVolume, old *observedDomain, was *hypervisor.AppliedRecord) (made bool, err error) {
	path := p.Path()
	made = slices.Contains(a.in.CreatedDisks, p.Ref()) || was != nil && slices.ContainsFunc(was.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == p.Ref() })
	named := false
	if old != nil {
		alias := domxml.DiskAlias(p.Ref())
		if k := slices.IndexFunc(old.specDisks, func(d specDisk) bool { return d.alias == alias || d.path == path }); k >= 0 {
			made, named, path = true, true, old.specDisks[k].path
		}
	}
	if !made {
		if err := a.pools.CheckPoolUsable(p.Pool.Name); err != nil {
			return false, fmt.Errorf("disk %d: %w", p.Number, err)
		}
	}
	if p.IsInBlockPool() {
		return a.checkBlockDisk(ctx, p, made, named)
	}
	why, err := a.diskUnavailableReason(ctx, a.c, p.Pool.Name, path)
	switch {
	case err != nil:
		return false, fmt.Errorf("disk %d: %w", p.Number, err)
	case why == hypervisor.FileMissingReason && p.Preexisting && !made:
		return false, fleet.Errorf(fleet.Conflict, "Disk %d: %s", p.Number, hypervisor.NoVolumeError(p.Name, p.Pool.Name))
	case why == hypervisor.FileMissingReason && !made:
		return false, nil
	case why == hypervisor.PoolInactiveReason && !made:
		return false, fleet.Errorf(fleet.Conflict, "The pool %s of disk %d is not active on %s. Start the pool.", p.Pool.Name, p.Number, conn.Hostname())
	case why != "":
		return false, hypervisor.FaultError(hypervisor.MissingDiskFault(p.Number, p.Ref(), p.Pool.Name, conn.Hostname(), why))
	case named:
		return true, nil
	}
	if err := a.checkExistingDisk(ctx, a.c, p, made); err != nil {
		return false, fmt.Errorf("disk %d: %w", p.Number, err)
	}
	if p.Encrypted {
		if err := a.checkDiskSecret(ctx, a.c, p); err != nil {
			return false, fmt.Errorf("disk %d: %w", p.Number, err)
		}
	}
	return true, nil
}

// resolveHostPaths resolves the planned changes to paths of this host.
func (a *applyRun) resolveHostPaths(plan hypervisor.DefinitionEdit) (domxml.EditContent, []storage.LocalVolume, error) {
	in := domxml.EditContent{DefinitionEdit: plan, Spec: a.in.VM.Spec}
	for _, n := range plan.NICs {
		if n.MAC == "" {
			return in, nil, fleet.Errorf(fleet.Invalid, "A NIC has no MAC address. Set a MAC address.")
		}
	}
	var places []storage.LocalVolume
	for _, d := range plan.Disks {
		p, err := storage.LocalVolumeOf(d.Ref(), a.in.Pools)
		if err != nil {
			return in, nil, err
		}
		p.Number = 1 + slices.IndexFunc(in.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
		p.Format = d.FileFormat()
		p.Size, p.Preexisting, p.Shared, p.Encrypted = d.SizeBytes, d.Existing, d.Shareable, d.Encryption != ""
		if d.Image != nil {
			image, err := storage.LocalVolumeOf(*d.Image, a.in.Pools)
			p.Image, p.NoImage = &image, err
			p.InLibrary, p.Overlay = d.VersionID != "", d.Overlay
		}
		places = append(places, p)
	}
	if plan.SetsField("iso") && in.Spec.ISO != nil {
		iso, err := storage.LocalVolumeOf(*in.Spec.ISO, a.in.Pools)
		if err == nil && iso.IsInBlockPool() {
			err = fleet.Errorf(fleet.Conflict, "The pool %s is a block pool, which has no ISO images. Choose an ISO image of another pool.", iso.Pool.Name)
		}
		if err != nil {
			return in, nil, err
		}
		in.ISO = iso.Path()
	}
	var err error
	in.Spec, err = a.specWithMediaPaths(plan)
	return in, places, err
}

// checkDisksUnused refuses disks that another domain of the host uses: two guests writing to one image corrupt it.
func (a *applyRun) checkDisksUnused(ctx context.Context, places []storage.LocalVolume) error {
	if len(places) == 0 {
		return nil
	}
	all, err := a.readDomains(ctx, a.c)
	if err != nil {
		return err
	}
	for _, p := range places {
		user, err := a.domainUsingVolume(ctx, all, a.in.VM.ID, p)
		if err != nil {
			return err
		}
		if user != "" {
			return fleet.Errorf(fleet.Conflict, "The volume %s of pool %s is in use by another VM of the host. Choose another volume, or detach this volume from the other VM.", p.Name, p.Pool.Name)
		}
	}
	return nil
}
