package libvirt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/network"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// A cold migration of an adopted VM sends the persistent definition with the firmware state, because the spec does not
// express all of it. The source changes only the paths that differ on the target. The target checks the definition by the
// rules of live migrations, and defines it before it applies the spec.

// incomingOf returns what a definition of the VM may name on this host. The VM has its disks on this host.
func (b *Backend) incomingOf(ctx context.Context, c *conn.Conn, vm fleet.VM, pools []fleet.Pool) (domxml.Incoming, error) {
	out := domxml.Incoming{VM: vm, Disks: map[string]string{}}
	out.Backing = func(disk string) map[string]bool {
		raw := out.Disks[disk] == fleet.Raw
		files, _ := hostfile.RunWithinLookupTimeout(ctx, func() (map[string]bool, error) { return hostfile.BackingFiles(disk, raw), nil })
		return files // none after a timeout: the check refuses every backing file
	}
	out.Network = func(name string) (*libvirtxml.Network, error) { return network.ReadByName(ctx, c, name) }
	for _, p := range pools {
		if p.Spec.Path != "" {
			out.Dirs = append(out.Dirs, p.Spec.Path)
		}
	}
	if seed, err := b.seeds.PathOf(vm.ID, vm.Spec.FirstBoot); err == nil {
		out.Seed = seed
	}
	out.Media = storage.LocalPaths(vm.Spec.Media(), pools)
	for _, d := range vm.Spec.Disks {
		v, err := storage.LocalVolumeOf(d.Ref(), pools)
		if err != nil {
			return out, err
		}
		format := d.FileFormat()
		if v.IsInBlockPool() {
			format = fleet.Raw
		}
		out.Disks[filepath.Clean(v.Path())] = format
	}
	return out, nil
}

// whyUnmigratable returns why the definition of an adopted VM cannot go to another host; empty: it can, or the VM was not
// adopted.
func (b *Backend) whyUnmigratable(ctx context.Context, c *conn.Conn, record *hypervisor.AppliedRecord, id fleet.VMID, x *libvirtxml.Domain) (string, error) {
	if record == nil || !record.Adopted {
		return "", nil
	}
	text, err := x.Marshal()
	if err != nil {
		return "", err
	}
	var pools []fleet.Pool
	for id, p := range record.Pools {
		pool := fleet.Pool{ID: id, Name: p.Name, Spec: fleet.PoolSpec{Path: p.Path}}
		if p.Spec != nil {
			pool.Spec = *p.Spec
		}
		pools = append(pools, pool)
	}
	allowed, err := b.incomingOf(ctx, c, fleet.VM{Meta: fleet.Meta{ID: id}, Spec: record.Spec}, pools)
	if err == nil {
		_, err = allowed.CheckDefinition(text)
	}
	return domxml.RefusalReason(err), nil
}

// movedDefinition returns the definition that the target defines; empty: the job orders none.
func (l *migrationRun) movedDefinition(s diskMigrationState) (string, error) {
	if !l.in.Params.Definition {
		return "", nil
	}
	text, err := s.persistentXML.Marshal()
	if err != nil {
		return "", err
	}
	x, err := domxml.ParseDefinition(text, false)
	if err != nil {
		return "", err
	}
	applied := s.applied.InRun("")
	var moves []domxml.CopiedDisk
	for i, m := range l.disks {
		to, err := storage.LocalVolumeOf(l.in.Params.Disks[i].To, l.in.Pools)
		if err != nil {
			return "", err
		}
		moves = append(moves, domxml.CopiedDisk{From: m.from.Path(), To: to.Path(), Ref: to.Ref()})
		applied = (&diskMigration{from: m.from, to: to}).appliedWithNewDisk(applied)
	}
	if err := domxml.SetMovedDisks(x, moves); err != nil {
		return "", err
	}
	record, err := json.Marshal(applied)
	if err != nil {
		return "", err
	}
	stamp := s.metadata
	stamp.Applied, stamp.OwnershipMark = string(record), "" // the portal sends the mark with the first vm.apply
	x.Metadata = domxml.PutQuantixMetadata(x.Metadata, stamp)
	return domxml.DefinitionText(x)
}

// checkDefinition refuses an adopted VM whose definition the target would refuse, before anything is sent.
func (l *migrationRun) checkDefinition(ctx context.Context, s diskMigrationState) error {
	if adopted := s.applied != nil && s.applied.Adopted; adopted && !l.in.Params.Definition {
		return hypervisor.RefuseDefinitionNotListed(l.in.VM.Name)
	}
	text, err := l.movedDefinition(s)
	if err != nil || text == "" {
		return err
	}
	vm := l.in.VM
	vm.Spec = l.in.Params.SpecOnTarget(vm.Spec)
	allowed, err := l.incomingOf(ctx, l.c, vm, l.in.Pools)
	if err != nil {
		return err
	}
	if _, err := allowed.CheckDefinition(text); err != nil {
		return err
	}
	had, err := conn.Call(ctx, l.c, func(v *golibvirt.Libvirt) (string, error) {
		return v.DomainGetXMLDesc(s.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	})
	if err != nil {
		return err
	}
	lost, err := domxml.LostElements(had, s.persistentXML)
	if err != nil {
		return err
	}
	if len(lost) > 0 {
		return hypervisor.RefuseMigration(l.in.VM.Name, "Quantix cannot keep the part %s of the definition. Remove it with virsh edit.", strings.Join(lost, ", "))
	}
	return nil
}

// checkReceivedDefinition refuses a definition of another host that gives the guest more of this host than the VM's spec
// does, or that this host cannot define. It returns the definition without an ownership mark, which only the portal sends.
func (b *Backend) checkReceivedDefinition(ctx context.Context, c *conn.Conn, in hypervisor.ReceiveFirmwareWork, text string) (string, error) {
	if err := in.CheckDefinitionSent(text != ""); err != nil || text == "" {
		return "", err
	}
	allowed, err := b.incomingOf(ctx, c, in.Apply.VM, in.Apply.Pools)
	if err != nil {
		return "", err
	}
	name, err := allowed.CheckDefinition(text)
	if err != nil {
		return "", err
	}
	x, err := domxml.ParseDefinition(text, false)
	if err != nil {
		return "", fmt.Errorf("the source host sends an invalid definition: %w", err)
	}
	m, _ := domxml.ReadQuantixMetadata(x.Metadata)
	switch record := m.AppliedSpec(); {
	case x.UUID != string(in.VM) || x.Name != name || m.ID != in.VM || record == nil:
		return "", errors.New("the source host sends a definition without the VM's record")
	case !domxml.HasOwnVariables(x):
		return "", fleet.Errorf(fleet.Conflict, "The VM's definition has UEFI variables in a file that is not named after the VM's ID (element nvram).")
	}
	if file, element := b.firmware.MissingFile(x); file != "" {
		return "", fleet.Errorf(fleet.Conflict, "This host does not have the file %s (element %s) of the VM's definition. Install the same UEFI firmware on both hosts.", file, element)
	}
	if err := (&applyRun{Backend: b, c: c, in: *in.Apply}).checkNameFree(ctx, name); err != nil {
		return "", err
	}
	if m.OwnershipMark != "" {
		m.OwnershipMark = ""
		x.Metadata = domxml.PutQuantixMetadata(x.Metadata, m)
		if text, err = domxml.DefinitionText(x); err != nil {
			return "", err
		}
	}
	return text, checkStartable(ctx, c, text)
}

// checkStartable refuses a definition that libvirt cannot translate into QEMU's arguments.
func checkStartable(ctx context.Context, c *conn.Conn, text string) error {
	_, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) { return l.ConnectDomainXMLToNative("qemu-argv", text, 0) })
	if err != nil {
		return fmt.Errorf("libvirt cannot use the VM's definition for its next start: %w", err)
	}
	return nil
}

// checkNameFree refuses a name that another domain on this host has.
func (a *applyRun) checkNameFree(ctx context.Context, name string) error {
	if taken, err := a.isNameTaken(ctx, name); err != nil || !taken {
		return err
	}
	return fleet.Errorf(fleet.Conflict, "Another domain on this host has the name %s. Rename that domain with virsh.", name)
}

// defineReceivedDomain defines an adopted VM as a cold migration has brought it, and returns the domain; nil: none was
// brought. The definition was checked when it was received. The files of the firmware state come first.
func (a *applyRun) defineReceivedDomain(ctx context.Context) (*observedDomain, error) {
	text, err := a.firmware.StagedDefinition(a.in.VM.ID)
	if err != nil || text == "" {
		return nil, err
	}
	x, err := domxml.ParseDefinition(text, false)
	if err != nil {
		return nil, err
	}
	if x.UUID != string(a.in.VM.ID) {
		return nil, errors.New("the received definition is that of another VM")
	}
	if err := a.checkNameFree(ctx, x.Name); err != nil {
		return nil, err
	}
	if err := a.filters.DefineNICFilters(ctx, a.c, a.in); err != nil {
		return nil, err
	}
	if err := a.placeFirmware(ctx, x); err != nil {
		return nil, err
	}
	if err := a.defineDomain(ctx, x); err != nil {
		return nil, err
	}
	return a.existingDomain(ctx)
}
