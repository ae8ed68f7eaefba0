package libvirt

import (
	"context"
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

// PlanVM implements hypervisor.VMs. It reads the current state and does not wait for a running job of the VM.
func (b *Backend) PlanVM(ctx context.Context, in hypervisor.ApplyWork) (before, after string, err error) {
	err = b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		a := applyRun{Backend: b, c: c, in: in}
		old, err := a.existingDomain(ctx)
		switch {
		case err != nil:
			return err
		case old != nil && !old.managed:
			return errUnmanagedDomain()
		case old == nil:
			after, err = a.planNewDefinition(ctx)
			return err
		case old.transient:
			return hypervisor.FaultError(hypervisor.UndefinedDomainFault())
		}
		before, after, err = a.planDefinitionEdit(ctx, *old)
		return err
	})
	return before, after, conn.WrapAction("plan "+in.VM.Name, err)
}

// planNewDefinition returns the definition that a new VM would get.
func (a *applyRun) planNewDefinition(ctx context.Context) (string, error) {
	in, _, _, err := a.checkEditPlan(ctx, nil, nil, hypervisor.PlanEdit(hypervisor.AppliedRecord{}, hypervisor.DefinedSpec{}, a.in.VM, hypervisor.OverwriteAll))
	if err != nil {
		return "", err
	}
	x, err := a.baseDefinition(ctx)
	if err != nil {
		return "", err
	}
	err = a.withFreeName(ctx, func(name string) error {
		in.Name = name
		return nil
	})
	if err != nil {
		return "", err
	}
	domxml.Edit(x, in)
	domxml.AddPCIPorts(x)
	if _, err := network.SetNICMTUs(ctx, a.c, x); err != nil {
		return "", err
	}
	return renderXML(x)
}

// planDefinitionEdit returns the VM's definition before and after the edit.
func (a *applyRun) planDefinitionEdit(ctx context.Context, old observedDomain) (before, after string, err error) {
	// The definition must not contain secrets, because it is shown to people.
	x, err := conn.ReadDefinition(ctx, a.c, old.ref, golibvirt.DomainXMLInactive)
	if err != nil {
		return "", "", err
	}
	if before, err = renderXML(x); err != nil {
		return "", "", err
	}
	was := old.applied
	if was == nil || a.in.LacksMergeBase(old.metadata.Generation, *was) {
		if was, err = a.deriveAppliedRecord(ctx, old, x); err != nil {
			return "", "", err
		}
	}
	if old.applied != nil {
		was.Adopted, was.Verbatim = old.applied.Adopted, old.applied.Verbatim
	}
	named := domxml.NameAdoptedDevices(x, *was, a.assignedPools.Lookup())
	plan := hypervisor.PlanEdit(*was, domxml.ReadDefinedSpec(x, *was, a.assignedPools.Lookup()), a.in.VM, hypervisor.OverwriteNothing)
	in, _, _, err := a.checkEditPlan(ctx, &old, was, plan)
	if err != nil {
		return "", "", err
	}
	in.Name = old.ref.Name
	if (plan.SetName || was.PendingDomainName(old.ref.Name) != "") && old.live == nil { // a running guest gets its new name once it is off
		err := a.withFreeName(ctx, func(name string) error {
			in.Name = name
			return nil
		})
		if err != nil {
			return "", "", err
		}
	}
	in.Adopted = was.Adopted
	domxml.Edit(x, in)
	if old.live != nil {
		named.Remove(x)
	}
	if _, err := network.SetNICMTUs(ctx, a.c, x); err != nil {
		return "", "", err
	}
	if after, err = renderXML(x); err != nil || after == before || was.Adopted {
		return before, after, err
	}
	domxml.AddPCIPorts(x)
	after, err = renderXML(x)
	return before, after, err
}

// renderXML renders a definition for people, without Quantix's metadata element.
func renderXML(x *libvirtxml.Domain) (string, error) {
	shown := *x
	if start, end := domxml.FindQuantixMetadata(x.Metadata); start != end {
		shown.Metadata = &libvirtxml.DomainMetadata{XML: x.Metadata.XML[:start] + x.Metadata.XML[end:]}
		if strings.TrimSpace(shown.Metadata.XML) == "" {
			shown.Metadata = nil
		}
	}
	text, err := shown.Marshal()
	return text + "\n", err
}

// checkEditPlan runs the checks of prepareEdit but creates nothing. missing are the disks whose volumes were never
// created.
func (a *applyRun) checkEditPlan(ctx context.Context, old *observedDomain, was *hypervisor.AppliedRecord, plan hypervisor.DefinitionEdit) (in domxml.EditContent, places, missing []storage.LocalVolume, err error) {
	if in, places, err = a.resolveHostPaths(plan); err != nil {
		return in, nil, nil, err
	}
	if err := a.checkDisksUnused(ctx, places); err != nil {
		return in, nil, nil, err
	}
	if err := a.checkISO(ctx, old, in); err != nil {
		return in, nil, nil, err
	}
	if err := a.checkFloppiesAndShares(ctx, old, in); err != nil {
		return in, nil, nil, err
	}
	if err := a.checkPhysicalDisks(ctx, old, in); err != nil {
		return in, nil, nil, err
	}
	for _, p := range places {
		made, err := a.checkDiskExists(ctx, p, old, was)
		if err != nil {
			return in, nil, nil, err
		}
		if !made {
			missing = append(missing, p)
		}
	}
	if first := in.Spec.FirstBoot; first.Kind != "" { // the path of the first-boot image
		if in.Seed, err = a.seeds.PathOf(a.in.VM.ID, first); err != nil {
			return in, nil, nil, err
		}
	}
	if old != nil && old.live != nil {
		in.TakenTargets = old.live.OtherDisks
	}
	in.LocatedDisks, err = a.locateDisks(ctx, places)
	return in, places, missing, err
}

// locateDisks returns the disks with the sources that the definition needs.
func (a *applyRun) locateDisks(ctx context.Context, places []storage.LocalVolume) (out []domxml.LocatedDisk, err error) {
	for _, p := range places {
		disk := domxml.LocatedDisk{Spec: a.in.VM.Spec.Disks[p.Number-1], Alias: domxml.DiskAlias(p.Ref()), Path: p.Path()}
		if kind := storage.BlockVolumeMappingOf(p.Pool.Spec); kind != nil {
			disk.Source, disk.Direct = kind.Source(p.Pool, p.Name), true
		} else {
			if disk.Path, err = a.currentDiskPath(p); err != nil {
				return nil, err
			}
			disk.Direct = hostfile.SupportsDirectIO(ctx, disk.Path)
		}
		if disk.Spec.Shareable && !disk.Direct {
			return nil, fleet.Errorf(fleet.Conflict, "The pool %s does not support direct I/O on this host, so a VM would not see what other VMs wrote to the shared disk. Use a volume of another pool.", p.Pool.Name)
		}
		out = append(out, disk)
	}
	return out, nil
}
