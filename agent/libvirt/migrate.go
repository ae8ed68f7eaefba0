package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/firmware"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// migrationRun is the state of one MigrateVM call.
type migrationRun struct {
	*Backend
	c         *conn.Conn
	in        hypervisor.MigrateVMWork
	disks     []*diskMigration      // one for each disk of the migration, so that migration reuses the checks of MoveDisk
	sentFiles []hostfile.VolumeFile // the disks' files when they were sent
	sentState string                // stamp of the firmware state when it was sent; empty: none is sent
}

// MigrateVM implements hypervisor.VMs. It removes the definition last, after the destination has received all files
// and no file has changed since. Until then this host can start the VM; afterwards nobody can start the VM here.
func (b *Backend) MigrateVM(ctx context.Context, in hypervisor.MigrateVMWork) error {
	act := "send " + in.VM.Name
	files, err := b.lockFilesShared(ctx, hypervisor.ApplyWork{VM: in.VM, Pools: in.Pools})
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer files.Unlock()
	return conn.WrapAction(act, b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		l := &migrationRun{Backend: b, c: c, in: in}
		return l.runMigration(ctx)
	}))
}

func (l *migrationRun) runMigration(ctx context.Context) error {
	for _, d := range l.in.Params.Disks {
		from, err := storage.LocalVolumeOf(d.Disk, l.in.Pools)
		if err != nil {
			return err
		}
		if from.IsInBlockPool() {
			return errNotFilePool(from.Pool)
		}
		from.Number = 1 + slices.IndexFunc(l.in.VM.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Disk })
		l.disks = append(l.disks, &diskMigration{
			Backend: l.Backend, c: l.c, from: from, to: from,
			in: hypervisor.MoveDiskWork{VM: l.in.VM, Pools: l.in.Pools, Params: fleet.DiskMigrationParams{Disk: d.Disk, To: d.Disk}},
		})
	}
	for _, d := range l.in.VM.Spec.Disks {
		if !slices.Contains(l.in.Params.Stay, d.Ref()) && !slices.ContainsFunc(l.in.Params.Disks, func(o fleet.MigratingDisk) bool { return o.Disk == d.Ref() }) {
			return hypervisor.RefuseMigration(l.in.VM.Name, "the migration job does not list the disk %s.", d.Volume)
		}
	}
	s, err := l.readState(ctx)
	if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
		return l.resumeWithoutDefinition(ctx)
	}
	if err != nil {
		return err
	}
	if err := l.checkMigratable(ctx, s); err != nil {
		return err
	}
	if err := l.checkDefinition(ctx, s); err != nil {
		return err
	}
	for i, m := range l.disks {
		if err := l.sendDisk(ctx, m, l.in.Params.Disks[i]); err != nil {
			return err
		}
	}
	if err := l.sendFirmware(ctx, s); err != nil {
		return err
	}
	if err := l.in.WaitArrived(ctx); err != nil {
		return err
	}
	return l.removeDefinition(ctx)
}

// resumeWithoutDefinition handles a VM without a definition. An earlier call removed the definition, or somebody
// removed it on the host, perhaps after a run of the VM. The copy is valid only if the disks that remain on this host
// are unchanged since they were sent.
func (l *migrationRun) resumeWithoutDefinition(ctx context.Context) error {
	if err := l.in.WaitArrived(ctx); err != nil {
		return err
	}
	for i, m := range l.disks {
		f, err := l.volumeFile(ctx, l.c, m.from)
		switch {
		case fleet.CodeOf(err) == fleet.NotFound:
		case err != nil:
			return err
		case l.in.SentStamp(l.in.Params.Disks[i].Transfer) != sentFileStamp(f):
			return hypervisor.RefuseChangedVM(l.in.VM.Name)
		}
	}
	if id := l.in.Params.Firmware; id != "" {
		rest, err := l.firmware.ReadRest(l.in.VM)
		if err != nil {
			return err
		}
		if !rest.IsRestOf(l.in.SentStamp(id)) {
			return hypervisor.RefuseChangedVM(l.in.VM.Name)
		}
	}
	return l.removeRest(context.WithoutCancel(ctx)) // once files are removed, the migration must not count as cancelled
}

// removeRest removes what belongs to the VM on this host, besides its disks. The firmware's state is last, and a failure
// there is only logged: after a failed migration, the other host's copy would be deleted, too.
func (l *migrationRun) removeRest(ctx context.Context) error {
	if err := l.removeOtherSeeds(ctx, l.in.VM.ID); err != nil {
		return err
	}
	if err := l.devices.RemoveMdevsExcept(string(l.in.VM.ID)); err != nil {
		return err
	}
	if err := l.filters.RemoveNICFilters(ctx, l.c, l.in.VM.ID, nil); err != nil {
		return err
	}
	if l.in.Params.Firmware != "" {
		if err := l.firmware.Remove(l.in.VM.ID); err != nil {
			l.log.Warn("The firmware state of a migrated VM was not removed.", "vm", l.in.VM.ID, "error", err)
		}
	}
	return nil
}

// sentFileStamp identifies the content of a disk's file by its ID, size and modification time. It ignores the owner,
// because libvirt changes that.
func sentFileStamp(f hostfile.VolumeFile) string {
	return hostfile.Version{ID: f.ID, Modified: f.Modified, Bytes: f.Bytes}.Stamp()
}

// readState returns the domain's current state.
func (l *migrationRun) readState(ctx context.Context) (diskMigrationState, error) {
	m := &diskMigration{Backend: l.Backend, c: l.c, in: hypervisor.MoveDiskWork{VM: l.in.VM}}
	uuid, err := conn.ParseUUID(l.in.VM.ID)
	if err != nil {
		return diskMigrationState{}, err
	}
	l.domains.invalidate(uuid)
	if _, err := l.readObservedDomain(ctx, l.c, l.in.VM.ID); err != nil {
		return diskMigrationState{}, err
	}
	return m.readState(ctx)
}

// keepsTPMVersion is the first version of libvirt that can remove a definition and keep the TPM's state.
const keepsTPMVersion = 8_009_000

// checkMigratable refuses a VM whose state includes more than the job's files.
func (l *migrationRun) checkMigratable(ctx context.Context, s diskMigrationState) error {
	x := s.persistentXML
	switch {
	case s.live != nil:
		return hypervisor.RefuseMigration(l.in.VM.Name, "the VM is running. Shut down the VM first.")
	case l.in.Params.Firmware == "" && firmware.HasState(x):
		return hypervisor.RefuseFirmwareNotListed(l.in.VM.Name)
	case x.Devices != nil && len(x.Devices.Hostdevs) > 0:
		return hypervisor.RefuseMigration(l.in.VM.Name, "the VM has devices of this host. Detach the devices first.")
	}
	if x.Devices != nil && len(x.Devices.TPMs) > 0 {
		version, err := conn.Call(ctx, l.c, (*golibvirt.Libvirt).ConnectGetLibVersion)
		if err != nil {
			return err
		}
		if version < keepsTPMVersion {
			return hypervisor.RefuseMigration(l.in.VM.Name, "this host's libvirt is older than 8.9, and would delete the TPM's state too early. Update libvirt.")
		}
	}
	for _, m := range l.disks {
		of := s
		of.persistentDisk = m.migratingDiskIn(x)
		if _, err := m.checkMovable(ctx, of); err != nil {
			return err
		}
	}
	return nil
}

// sendDisk sends a disk's file. It fails before the last byte if somebody wrote to the file during the transfer. It
// also fails if the file changed since an earlier call, because the destination keeps the data that it already
// received.
func (l *migrationRun) sendDisk(ctx context.Context, m *diskMigration, d fleet.MigratingDisk) error {
	before, err := m.readUnusedFile(ctx)
	if err != nil {
		return err
	}
	if err := l.in.RecordContent(d.Transfer, sentFileStamp(before)); err != nil {
		return err
	}
	l.sentFiles = append(l.sentFiles, before)
	return hostfile.WaitUnlessHung(ctx, func() error {
		f, err := hostfile.OpenImage(m.from.Path(), false)
		if err != nil {
			return err
		}
		defer f.Close()
		return l.in.Send(ctx, d.Transfer, func(ctx context.Context, do func(int64, []byte, int64) error) error {
			if err := transfer.FilePieces(f, before.Bytes)(ctx, do); err != nil {
				return err
			}
			return l.checkVMUnchanged(ctx, m, before)
		}, before.Bytes)
	})
}

// sendFirmware sends the UEFI variables, the TPM state and the definition of an adopted VM, like a disk's file.
func (l *migrationRun) sendFirmware(ctx context.Context, s diskMigrationState) error {
	id := l.in.Params.Firmware
	if id == "" {
		return nil
	}
	state, err := l.readFirmware(s)
	if err != nil {
		return err
	}
	l.sentState = state.Stamp()
	if err := l.in.RecordContent(id, l.sentState); err != nil {
		return err
	}
	data, err := state.Encode()
	if err != nil {
		return err
	}
	return l.in.Send(ctx, id, firmware.Pieces(data, func() error { return l.checkFirmwareUnchanged(s) }), int64(len(data)))
}

// readFirmware reads what sendFirmware sends.
func (l *migrationRun) readFirmware(s diskMigrationState) (firmware.State, error) {
	state, err := l.firmware.Read(s.persistentXML)
	if err == nil {
		state.Definition, err = l.movedDefinition(s)
	}
	return state, err
}

// checkFirmwareUnchanged refuses if what sendFirmware sent has changed.
func (l *migrationRun) checkFirmwareUnchanged(s diskMigrationState) error {
	if l.sentState == "" {
		return nil
	}
	state, err := l.readFirmware(s)
	if err == nil && state.Stamp() != l.sentState {
		err = hypervisor.RefuseChangedVM(l.in.VM.Name)
	}
	return err
}

func (l *migrationRun) checkVMUnchanged(ctx context.Context, m *diskMigration, before hostfile.VolumeFile) error {
	after, err := m.readUnusedFile(ctx)
	if err == nil && (after.ID != before.ID || after.Bytes != before.Bytes || !after.Modified.Equal(before.Modified)) {
		err = hypervisor.RefuseChangedVM(l.in.VM.Name)
	}
	return err
}

// removeDefinition removes the definition of an unchanged VM. If somebody starts the VM with virsh during the removal,
// removeDefinition restores the definition.
func (l *migrationRun) removeDefinition(ctx context.Context) error {
	unlock, err := l.vmLocks.Lock(ctx, l.in.VM.ID)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := l.readState(ctx)
	if err != nil {
		return err
	}
	if s.live != nil {
		return hypervisor.RefuseChangedVM(l.in.VM.Name)
	}
	for i, m := range l.disks {
		if err := l.checkVMUnchanged(ctx, m, l.sentFiles[i]); err != nil {
			return err
		}
	}
	if err := l.checkFirmwareUnchanged(s); err != nil {
		return err
	}
	was, err := s.persistentXML.Marshal()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The rest of the migration must complete even if ctx ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	defer l.domains.invalidate(s.ref.UUID)
	if err := l.c.Do(ctx, func(v *golibvirt.Libvirt) error { return v.DomainUndefineFlags(s.ref, undefineFlags(s.persistentXML)) }); err != nil {
		return err
	}
	back := func(why error) error {
		x := &libvirtxml.Domain{}
		if err := x.Unmarshal(was); err != nil {
			return err
		}
		if err := (&diskMigration{Backend: l.Backend, c: l.c}).defineDomain(ctx, x); err != nil {
			return fmt.Errorf("%w (and the VM's definition could not be restored: %w)", why, err)
		}
		return why
	}
	switch s, err := l.readState(ctx); {
	case err == nil && s.live != nil:
		return back(hypervisor.RefuseChangedVM(l.in.VM.Name))
	case err != nil && !conn.IsLibvirtCode(err, golibvirt.ErrNoDomain):
		return err
	}
	for i, m := range l.disks {
		if l.isDiskModifiedSince(ctx, m, l.sentFiles[i]) {
			return back(hypervisor.RefuseChangedVM(l.in.VM.Name))
		}
	}
	if l.checkFirmwareUnchanged(s) != nil {
		return back(hypervisor.RefuseChangedVM(l.in.VM.Name))
	}
	if err := l.removeRest(ctx); err != nil || l.in.Params.Firmware == "" {
		return err
	}
	if err := l.firmware.RemoveNamedAfterDomain(s.persistentXML); err != nil {
		l.log.Warn("The UEFI variables of a migrated VM were not removed.", "vm", l.in.VM.ID, "error", err)
	}
	return nil
}

// undefineFlags lets libvirt keep the UEFI variables and the TPM state, so that the definition can be restored.
func undefineFlags(x *libvirtxml.Domain) (flags golibvirt.DomainUndefineFlagsValues) {
	if firmware.HasState(x) {
		flags |= golibvirt.DomainUndefineKeepNvram
	}
	if x.Devices != nil && len(x.Devices.TPMs) > 0 {
		flags |= golibvirt.DomainUndefineKeepTpm // needs keepsTPMVersion
	}
	return flags
}

func (l *migrationRun) isDiskModifiedSince(ctx context.Context, m *diskMigration, before hostfile.VolumeFile) bool {
	f, err := l.volumeFile(ctx, l.c, m.from)
	return err == nil && !f.Modified.Equal(before.Modified)
}

// ReceiveFirmware implements hypervisor.VMs.
func (b *Backend) ReceiveFirmware(ctx context.Context, in hypervisor.ReceiveFirmwareWork) error {
	const act = "receive UEFI variables and TPM state"
	unlock, err := b.vmLocks.Lock(ctx, in.VM)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	return conn.WrapAction(act, b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		uuid, err := conn.ParseUUID(in.VM) // the ID becomes the name of a file
		if err != nil {
			return err
		}
		b.domains.invalidate(uuid)
		if _, err := b.readObservedDomain(ctx, c, in.VM); !conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
			return cmp.Or(err, hypervisor.RefuseKnownVM("the VM"))
		}
		if done, err := b.firmware.IsStaged(in.VM, in.Transfer); err != nil || done {
			return err
		}
		data, err := in.Receive(ctx, firmware.MaxEncodedBytes)
		if err != nil {
			return err
		}
		state, err := firmware.Decode(data)
		if err != nil {
			return err
		}
		if state.Definition, err = b.checkReceivedDefinition(ctx, c, in, state.Definition); err != nil {
			return err
		}
		return b.firmware.Stage(in.VM, in.Transfer, state)
	}))
}

// DiscardFirmware implements hypervisor.VMs.
func (b *Backend) DiscardFirmware(ctx context.Context, id fleet.VMID, transfer fleet.TransferID) error {
	const act = "remove received UEFI variables and TPM state"
	unlock, err := b.vmLocks.Lock(ctx, id)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	if _, err := conn.ParseUUID(id); err != nil {
		return conn.WrapAction(act, err)
	}
	return conn.WrapAction(act, b.firmware.Discard(id, transfer))
}
