package libvirt

import (
	"context"
	"fmt"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// coldMigration is the state of one MigrateVM call.
type coldMigration struct {
	*Backend
	c     *conn
	in    hypervisor.MigrateVM
	disks []*moving    // in the order of the migration's disks, so that migration reuses the checks of MoveDisk
	sent  []volumeFile // the disks' files when they were sent
}

// MigrateVM implements hypervisor.VMs. It removes the definition last, after the destination has received all disks and
// no disk has changed since. Until then this host can start the VM; afterwards nobody can start the VM here.
func (b *Backend) MigrateVM(ctx context.Context, in hypervisor.MigrateVM) error {
	act := "send " + in.VM.Name
	files, err := b.shareFiles(ctx, hypervisor.Apply{VM: in.VM, Pools: in.Pools})
	if err != nil {
		return inAct(act, err)
	}
	defer files.unlock()
	return inAct(act, b.order(ctx, func(ctx context.Context, c *conn) error {
		l := &coldMigration{Backend: b, c: c, in: in}
		return l.run(ctx)
	}))
}

func (l *coldMigration) run(ctx context.Context) error {
	for _, d := range l.in.Order.Disks {
		from, err := placeOf(d.Disk, l.in.Pools)
		if err != nil {
			return err
		}
		if from.block() {
			return filesAlone(from.pool)
		}
		from.number = 1 + slices.IndexFunc(l.in.VM.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Disk })
		l.disks = append(l.disks, &moving{
			Backend: l.Backend, c: l.c, from: from, to: from,
			in: hypervisor.MoveDisk{VM: l.in.VM, Pools: l.in.Pools, Order: fleet.MoveOrder{Disk: d.Disk, To: d.Disk}},
		})
	}
	for _, d := range l.in.VM.Spec.Disks {
		if !slices.Contains(l.in.Order.Stay, d.Ref()) && !slices.ContainsFunc(l.in.Order.Disks, func(o fleet.LeavingDisk) bool { return o.Disk == d.Ref() }) {
			return hypervisor.NotMigratable(l.in.VM.Name, "the migration job does not list the disk %s.", d.Volume)
		}
	}
	s, err := l.see(ctx)
	if is(err, golibvirt.ErrNoDomain) {
		return l.gone(ctx)
	}
	if err != nil {
		return err
	}
	if err := l.checkMigratable(ctx, s); err != nil {
		return err
	}
	for i, m := range l.disks {
		if err := l.sendDisk(ctx, m, l.in.Order.Disks[i]); err != nil {
			return err
		}
	}
	if err := l.in.Arrived(ctx); err != nil {
		return err
	}
	return l.removeDefinition(ctx)
}

// gone handles a VM without a definition. An earlier call removed the definition, or somebody removed it on the host,
// perhaps after a run of the VM. The copy is valid only if the disks that remain on this host are unchanged since they
// were sent.
func (l *coldMigration) gone(ctx context.Context) error {
	if err := l.in.Arrived(ctx); err != nil {
		return err
	}
	for i, m := range l.disks {
		f, err := l.volumeFile(ctx, l.c, m.from)
		switch {
		case fleet.CodeOf(err) == fleet.NotFound:
		case err != nil:
			return err
		case l.in.Sent(l.in.Order.Disks[i]) != sentStamp(f):
			return hypervisor.LeftMeanwhile(l.in.VM.Name)
		}
	}
	if err := l.keepSeeds(ctx, l.in.VM.ID); err != nil {
		return err
	}
	return l.dropFilters(ctx, l.c, l.in.VM.ID, nil)
}

// sentStamp identifies the content of a disk's file by its ID, size and modification time. It ignores the owner,
// because libvirt changes that.
func sentStamp(f volumeFile) string {
	return volumeID{fileID: f.id, modified: f.modified, bytes: f.bytes}.stamp()
}

// see returns the domain's current state.
func (l *coldMigration) see(ctx context.Context) (seen, error) {
	m := &moving{Backend: l.Backend, c: l.c, in: hypervisor.MoveDisk{VM: l.in.VM}}
	uuid, err := parseUUID(l.in.VM.ID)
	if err != nil {
		return seen{}, err
	}
	l.domains.forget(uuid)
	if _, err := l.seeOn(ctx, l.c, l.in.VM.ID); err != nil {
		return seen{}, err
	}
	return m.see(ctx)
}

// checkMigratable refuses a VM whose state includes more than its disks.
func (l *coldMigration) checkMigratable(ctx context.Context, s seen) error {
	x := s.kept
	switch {
	case s.live != nil:
		return hypervisor.NotMigratable(l.in.VM.Name, "the VM is running. Shut down the VM first.")
	case x.OS != nil && x.OS.NVRam != nil, x.OS != nil && x.OS.Loader != nil && x.OS.Loader.Type == "pflash":
		return hypervisor.NotMigratable(l.in.VM.Name, "a migration does not copy the firmware's settings file (NVRAM).")
	case x.Devices != nil && len(x.Devices.TPMs) > 0:
		return hypervisor.NotMigratable(l.in.VM.Name, "a migration does not copy the TPM's state.")
	case x.Devices != nil && len(x.Devices.Hostdevs) > 0:
		return hypervisor.NotMigratable(l.in.VM.Name, "the VM has devices of this host. Detach the devices first.")
	}
	for _, m := range l.disks {
		of := s
		of.keptDisk = m.diskIn(x)
		if _, err := m.movable(ctx, of); err != nil {
			return err
		}
	}
	return nil
}

// sendDisk sends a disk's file. It fails before the last byte if somebody wrote to the file during the transfer. It
// also fails if the file changed since an earlier call, because the destination keeps the data that it already
// received.
func (l *coldMigration) sendDisk(ctx context.Context, m *moving, d fleet.LeavingDisk) error {
	before, err := m.unusedFile(ctx)
	if err != nil {
		return err
	}
	switch l.in.Sent(d) {
	case sentStamp(before):
	case "":
		if err := l.in.Sending(d, sentStamp(before)); err != nil {
			return err
		}
	default:
		return hypervisor.LeftMeanwhile(l.in.VM.Name)
	}
	l.sent = append(l.sent, before)
	return patiently(ctx, func() error {
		f, err := openImage(m.from.path(), false)
		if err != nil {
			return err
		}
		defer f.Close()
		return l.in.Send(ctx, d, func(ctx context.Context, do func(int64, []byte, int64) error) error {
			if err := transfer.File(f, before.bytes)(ctx, do); err != nil {
				return err
			}
			return l.unchanged(ctx, m, before)
		}, before.bytes)
	})
}

func (l *coldMigration) unchanged(ctx context.Context, m *moving, before volumeFile) error {
	after, err := m.unusedFile(ctx)
	if err == nil && (after.id != before.id || after.bytes != before.bytes || !after.modified.Equal(before.modified)) {
		err = hypervisor.LeftMeanwhile(l.in.VM.Name)
	}
	return err
}

// removeDefinition removes the definition of an unchanged VM. If somebody starts the VM with virsh during the removal,
// removeDefinition restores the definition.
func (l *coldMigration) removeDefinition(ctx context.Context) error {
	unlock, err := l.vms.lock(ctx, l.in.VM.ID)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := l.see(ctx)
	if err != nil {
		return err
	}
	if s.live != nil {
		return hypervisor.LeftMeanwhile(l.in.VM.Name)
	}
	for i, m := range l.disks {
		if err := l.unchanged(ctx, m, l.sent[i]); err != nil {
			return err
		}
	}
	was, err := s.kept.Marshal()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The rest of the migration must complete even if ctx ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	defer l.domains.forget(s.ref.UUID)
	if err := l.c.do(ctx, func(v *golibvirt.Libvirt) error { return v.DomainUndefineFlags(s.ref, 0) }); err != nil {
		return err
	}
	back := func(why error) error {
		x := &libvirtxml.Domain{}
		if err := x.Unmarshal(was); err != nil {
			return err
		}
		if err := (&moving{Backend: l.Backend, c: l.c}).define(ctx, x); err != nil {
			return fmt.Errorf("%w (and the VM's definition could not be restored: %w)", why, err)
		}
		return why
	}
	switch s, err := l.see(ctx); {
	case err == nil && s.live != nil:
		return back(hypervisor.LeftMeanwhile(l.in.VM.Name))
	case err != nil && !is(err, golibvirt.ErrNoDomain):
		return err
	}
	for i, m := range l.disks {
		if l.modifiedSince(ctx, m, l.sent[i]) {
			return back(hypervisor.LeftMeanwhile(l.in.VM.Name))
		}
	}
	if err := l.keepSeeds(ctx, l.in.VM.ID); err != nil {
		return err
	}
	if err := l.devices.KeepMdevs(string(l.in.VM.ID)); err != nil {
		return err
	}
	return l.dropFilters(ctx, l.c, l.in.VM.ID, nil)
}

func (l *coldMigration) modifiedSince(ctx context.Context, m *moving, before volumeFile) bool {
	f, err := l.volumeFile(ctx, l.c, m.from)
	return err == nil && !f.modified.Equal(before.modified)
}
