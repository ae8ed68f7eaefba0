package libvirt

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// finishMove changes the definition to the new disk. The guest must use the new disk already, or nobody may use the old
// disk.
func (m *diskMigration) finishMove(ctx context.Context) error {
	unlock, err := m.vmLocks.Lock(ctx, m.in.VM.ID)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := m.readState(ctx)
	if err != nil {
		return err
	}
	if s.applied == nil || s.persistentDisk == nil {
		return fleet.Errorf(fleet.Conflict, "The disk is copied to %s, but the VM's definition no longer has the disk. Reapply the VM's configuration.", m.to.Path())
	}
	if err := m.verifyNewDisk(ctx, s); err != nil {
		return err
	}
	if err := m.in.RecordDisk(m.to.Ref()); err != nil {
		return err
	}
	if specHasVolume(s.applied.Spec, m.to.Ref()) && domxml.DiskPathOf(s.persistentDisk) == m.to.Path() && domxml.AliasOf(s.persistentDisk.Alias) == domxml.DiskAlias(m.to.Ref()) {
		return nil // an earlier attempt completed this
	}
	over := m.definitionNamesNewDisk(s) || s.liveDisk != nil && domxml.DiskPathOf(s.liveDisk) == m.to.Path()
	err = m.redefineDiskOnCopy(ctx, s)
	if err != nil && over && conn.IsLibvirtError(err) {
		// Unavailable makes the agent retry. If the job failed, the portal would assume that the VM uses the old disk.
		return fleet.Errorf(fleet.Unavailable, "The VM uses its new disk, %s in pool %s, but its definition cannot be written. The agent retries until the write succeeds: %s", m.to.Name, m.to.Pool.Name, err)
	}
	return err
}

// verifyNewDisk checks that the new disk is complete and has no backing file.
func (m *diskMigration) verifyNewDisk(ctx context.Context, s diskMigrationState) error {
	f, err := m.volumeFile(ctx, m.c, m.to)
	if err != nil {
		return err
	}
	if f.Format != "qcow2" || f.RefersTo != "" || f.HeaderFault != "" {
		return fleet.Errorf(fleet.Conflict, "The copy in pool %s is damaged, not in the format qcow2, or has a backing file, so the VM's definition was not changed.", m.to.Pool.Name)
	}
	if s.live != nil {
		return nil // QEMU has the file open and reported the copy as complete
	}
	was, err := m.volumeFile(ctx, m.c, m.from)
	if err == nil && was.Size != f.Size {
		err = fleet.Errorf(fleet.Conflict, "The copy in pool %s has a virtual size of %d bytes, not %d. The VM's definition was not changed.", m.to.Pool.Name, f.Size, was.Size)
	}
	if fleet.CodeOf(err) == fleet.NotFound {
		return nil // the old file no longer exists
	}
	return err
}

func (m *diskMigration) redefineDiskOnCopy(ctx context.Context, s diskMigrationState) error {
	defer m.domains.invalidate(s.ref.UUID)
	d := s.persistentDisk
	d.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: m.to.Path()}}
	d.Alias = &libvirtxml.DomainAlias{Name: domxml.DiskAlias(m.to.Ref())}
	d.BackingStore, d.Mirror = nil, nil
	if d.Driver != nil && d.Driver.Cache == "none" && !hostfile.SupportsDirectIO(ctx, m.to.Path()) {
		d.Driver.Cache = ""
	}
	stamp := s.metadata
	text, err := json.Marshal(m.appliedWithNewDisk(*s.applied))
	if err != nil {
		return err
	}
	stamp.Applied = string(text)
	s.persistentXML.Metadata = domxml.PutQuantixMetadata(s.persistentXML.Metadata, stamp)
	return m.defineDomain(ctx, s.persistentXML)
}

// appliedWithNewDisk returns the applied spec with the disk at its new pool and volume.
func (m *diskMigration) appliedWithNewDisk(was hypervisor.AppliedRecord) hypervisor.AppliedRecord {
	out := was
	out.Spec.Disks = slices.Clone(was.Spec.Disks)
	for i, d := range out.Spec.Disks {
		if d.Ref() == m.from.Ref() {
			out.Spec.Disks[i].PoolID, out.Spec.Disks[i].Volume = m.to.Pool.ID, m.to.Name
		}
	}
	out.Pools = maps.Clone(was.Pools)
	if out.Pools == nil {
		out.Pools = map[fleet.PoolID]hypervisor.AppliedPool{}
	}
	out.Pools[m.to.Pool.ID] = hypervisor.AppliedPool{Name: m.to.Pool.Name, Path: m.to.Pool.Spec.Path}
	named := out.Spec.Pools()
	maps.DeleteFunc(out.Pools, func(id fleet.PoolID, _ hypervisor.AppliedPool) bool { return !slices.Contains(named, id) })
	return out
}

func (m *diskMigration) defineDomain(ctx context.Context, x *libvirtxml.Domain) error {
	a := applyRun{Backend: m.Backend, c: m.c}
	return a.defineDomain(ctx, x)
}
