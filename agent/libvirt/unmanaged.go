package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/network"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// unmanagedAction is a power action on a domain without Quantix metadata.
type unmanagedAction struct {
	verb      string
	needsOn   bool // fails if the guest is off; otherwise a guest that is off stays off
	stopsRun  bool // the guest is off afterwards
	onRunning func(*golibvirt.Libvirt, observedDomain) error
}

var unmanagedActions = map[fleet.Action]unmanagedAction{
	fleet.ActShutdown: {"shut down", false, true, func(l *golibvirt.Libvirt, s observedDomain) error {
		return ignoreErrorIfOff(l, s.ref, l.DomainShutdown(s.ref))
	}},
	fleet.ActStop: {"force off", false, true, func(l *golibvirt.Libvirt, s observedDomain) error {
		return ignoreErrorIfOff(l, s.ref, l.DomainDestroy(s.ref))
	}},
	fleet.ActReboot: {"reboot", true, false, func(l *golibvirt.Libvirt, s observedDomain) error { return l.DomainReboot(s.ref, 0) }},
	fleet.ActReset:  {"reset", true, false, func(l *golibvirt.Libvirt, s observedDomain) error { return l.DomainReset(s.ref, 0) }},
	fleet.ActPause:  {"pause", true, false, pauseGuest},
	fleet.ActResume: {"resume", true, false, resumeGuest},
}

// ControlUnmanagedVM implements hypervisor.VMs.
func (b *Backend) ControlUnmanagedVM(ctx context.Context, id fleet.VMID, act fleet.Action) error {
	if act == fleet.ActStart {
		return b.withUnmanagedVM(ctx, id, "start", startUnmanaged)
	}
	do, known := unmanagedActions[act]
	if !known {
		return fmt.Errorf("no power action %q", act)
	}
	return b.withUnmanagedVM(ctx, id, do.verb, func(l *golibvirt.Libvirt, s observedDomain) error {
		switch {
		case s.live == nil && do.needsOn:
			return hypervisor.ErrNotRunning
		case s.live == nil:
			return nil
		case s.transient && do.stopsRun:
			return fleet.RefusalError(fleet.TransientDomainRefusal)
		}
		return do.onRunning(l, s)
	})
}

// startUnmanaged starts a domain that is off, or whose crashed guest libvirt keeps.
func startUnmanaged(l *golibvirt.Libvirt, s observedDomain) error {
	if s.live != nil {
		if p, _ := translatePower(s.state, s.reason); p != fleet.Crashed {
			return nil
		}
		if s.transient {
			return fleet.RefusalError(fleet.TransientDomainRefusal)
		}
		if err := l.DomainDestroy(s.ref); err != nil {
			return err
		}
	}
	return network.TranslateNoFreeDevice(l.DomainCreate(s.ref))
}

// withUnmanagedVM is withVM for a domain without Quantix metadata.
func (b *Backend) withUnmanagedVM(ctx context.Context, id fleet.VMID, verb string, f func(*golibvirt.Libvirt, observedDomain) error) error {
	refuseManaged := func(s observedDomain) error {
		if s.managed {
			return hypervisor.ManagedDomainError(s.ref.Name)
		}
		return nil
	}
	return b.withDomainConn(ctx, id, verb, refuseManaged, func(ctx context.Context, c *conn.Conn, s observedDomain) error {
		return c.Do(ctx, func(l *golibvirt.Libvirt) error { return f(l, s) })
	})
}

// noConsoleReason returns why the screen of an unmanaged guest cannot be shown; empty: it can, or the guest is off.
func (s observedDomain) noConsoleReason() string {
	switch {
	case s.live == nil || s.vnc.Address != "":
		return ""
	case s.spice:
		return "The VM has a SPICE display, which Quantix cannot show. Add a VNC display to the VM's definition and restart the VM."
	}
	return "The VM has no VNC display. Add a VNC display to the VM's definition and restart the VM."
}

// ReadUnmanagedVM implements hypervisor.VMs.
func (b *Backend) ReadUnmanagedVM(ctx context.Context, id fleet.VMID, pools []fleet.Pool) (out fleet.AdoptableVM, err error) {
	b.assignedPools.Record(pools)
	err = b.withDomainConn(ctx, id, "read", func(observedDomain) error { return nil }, func(ctx context.Context, c *conn.Conn, s observedDomain) error {
		if s.transient {
			out = fleet.AdoptableVM{Name: s.ref.Name, Refusals: []string{fleet.TransientAdoptionRefusal}}
			return nil
		}
		text, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) {
			return l.DomainGetXMLDesc(s.ref, golibvirt.DomainXMLInactive)
		})
		if err != nil {
			return err
		}
		x, err := domxml.ParseDefinition(text, false)
		if err != nil {
			return err
		}
		record, disks, refusals := domxml.ReadAdoptable(x, pools, b.assignedPools.Lookup())
		out = fleet.AdoptableVM{Name: x.Name, Description: shortDescription(cmp.Or(x.Description, x.Title)), Spec: record.Spec, Refusals: refusals}
		if out.Spec.Power, _ = translatePower(s.state, s.reason); out.Spec.Power == fleet.Crashed {
			out.Spec.Power = fleet.Stopped
		}
		if err := b.checkAdoptableDisks(ctx, c, s, disks, pools, &out); err != nil {
			return err
		}
		lost, err := domxml.LostElements(text, x)
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			out.Refusals = append(out.Refusals, fmt.Sprintf("An edit would remove these parts of the definition, which Quantix cannot write: %s. Remove them with virsh edit first.", strings.Join(lost, ", ")))
		}
		if out.Verbatim, err = domxml.VerbatimParts(text, x, record); err != nil {
			out.Refusals = append(out.Refusals, "The definition cannot be read for an adoption: "+err.Error())
		}
		return nil
	})
	return out, err
}

// shortDescription returns the start of the description. It is longer than a description of Quantix if the text is.
func shortDescription(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), fleet.MaxDescription+utf8.UTFMax)], "")
}

// checkAdoptableDisks adds the sizes of the disks to the spec, their backing files, and the reasons against an adoption
// that the files give.
func (b *Backend) checkAdoptableDisks(ctx context.Context, c *conn.Conn, s observedDomain, disks []domxml.AdoptableDisk, pools []fleet.Pool, out *fleet.AdoptableVM) error {
	all, err := b.readDomains(ctx, c)
	if err != nil {
		return err
	}
	for _, d := range disks {
		refuse := func(why string) {
			out.Refusals = append(out.Refusals, fmt.Sprintf("Disk %s (%s): %s", d.Target, d.Path, why))
		}
		p, err := storage.LocalVolumeOf(d.Ref, pools)
		if err != nil {
			refuse("no pool of Quantix on this host has it. Assign the pool to the host first.")
			continue
		}
		why, err := b.diskUnavailableReason(ctx, c, p.Pool.Name, d.Path)
		if why != "" || err != nil {
			if err != nil && fleet.CodeOf(err) == "" {
				return err
			}
			if err != nil {
				why = err.Error()
			}
			refuse(why)
			continue
		}
		user, err := b.domainUsingVolume(ctx, all, s.id, p)
		if err != nil {
			return err
		}
		if user != "" {
			refuse("another VM of the host uses it, too.")
			continue
		}
		k := slices.IndexFunc(out.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref })
		if k < 0 {
			continue // the definition already gave a reason
		}
		size, why, err := b.readAdoptableDisk(ctx, c, p, out.Spec.Disks[k].FileFormat(), out)
		switch {
		case err != nil:
			return err
		case why != "":
			refuse(why)
		}
		out.Spec.Disks[k].SizeBytes = size
	}
	return nil
}

// readAdoptableDisk returns the disk's size in bytes, and adds its backing files to out. why is the reason against an
// adoption; empty: none. format is the file's format in the definition.
func (b *Backend) readAdoptableDisk(ctx context.Context, c *conn.Conn, p storage.LocalVolume, format string, out *fleet.AdoptableVM) (size int64, why string, err error) {
	if p.IsInBlockPool() {
		return b.pools.VolumeSize(p.Pool.Name, p.Name).Bytes, "", nil
	}
	f, err := b.volumeFile(ctx, c, p)
	switch {
	case fleet.CodeOf(err) != "":
		return 0, err.Error(), nil
	case err != nil:
		return 0, "", err
	case format == fleet.Raw:
		return f.Bytes, "", nil // the content of a raw file is guest data
	case f.Format != format:
		return 0, fmt.Sprintf("the definition says %s, but the file is %s.", format, f.Format), nil
	case f.Encrypted:
		return 0, "it is encrypted with a secret that only libvirt has.", nil
	}
	outside, err := hostfile.RunWithinLookupTimeout(ctx, func() (string, error) { return b.backingOutsidePools(p.Path(), out), nil })
	if err == nil && outside == "" && f.RefersTo != "" && len(out.Backing) == 0 {
		outside = f.RefersTo
	}
	if outside != "" {
		why = fmt.Sprintf("it is backed by %s, which no pool of Quantix on this host has. Adopt or create a pool with its folder first.", outside)
	}
	return f.Size, why, err
}

// backingOutsidePools adds all backing files of the image to out, and returns the first one that is in no pool.
func (b *Backend) backingOutsidePools(path string, out *fleet.AdoptableVM) string {
	seen := map[string]bool{path: true}
	for todo := hostfile.ReadReferences(path); len(todo) > 0 && len(seen) <= hostfile.MaxChainFiles; todo = todo[1:] {
		at := todo[0]
		ref := b.assignedPools.Lookup().VolumeAt(at.Path)
		switch {
		case seen[at.Path]:
			continue
		case ref == nil:
			return at.Path
		}
		seen[at.Path] = true
		out.Backing = append(out.Backing, *ref)
		if !at.Opaque {
			todo = append(todo, hostfile.ReadReferences(at.Path)...)
		}
	}
	return ""
}

// markAdoptedDomain writes the metadata of an adopted VM into the definitions of a domain without metadata. libvirt does
// this without redefining the domain, so the guest does not notice and nothing else changes.
func (a *applyRun) markAdoptedDomain(ctx context.Context, s observedDomain) (*observedDomain, error) {
	if s.transient {
		return nil, fleet.RefusalError(fleet.TransientAdoptionRefusal)
	}
	x, err := conn.ReadDefinition(ctx, a.c, s.ref, golibvirt.DomainXMLInactive)
	if err != nil {
		return nil, err
	}
	record := hypervisor.NewAppliedRecord(a.in, s.ref.Name, "", nil)
	record.Adopted, record.Verbatim = true, domxml.ReadDefinedSpec(x, record, a.assignedPools.Lookup()).VerbatimValues()
	into := golibvirt.DomainAffectConfig
	if s.live != nil {
		into |= golibvirt.DomainAffectLive
	}
	if err := setMetadata(ctx, a.c, s, domxml.NewQuantixMetadata(a.in, record, "").WithoutNamespace(), into); err != nil {
		return nil, err
	}
	a.domains.invalidate(s.ref.UUID)
	marked, err := a.readObservedDomain(ctx, a.c, a.in.VM.ID)
	return &marked, err
}

// setMetadata replaces Quantix's element in the metadata of the domain's definitions; an empty text removes it.
func setMetadata(ctx context.Context, c *conn.Conn, s observedDomain, text string, into golibvirt.DomainModificationImpact) error {
	var element, prefix golibvirt.OptString
	if text != "" {
		element, prefix = golibvirt.OptString{text}, golibvirt.OptString{domxml.MetadataPrefix}
	}
	return c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainSetMetadata(s.ref, int32(golibvirt.DomainMetadataElement), element, prefix, golibvirt.OptString{domxml.MetadataNamespace}, into)
	})
}

// ReleaseVM implements hypervisor.VMs.
func (b *Backend) ReleaseVM(ctx context.Context, vm fleet.VM) error {
	act := "release " + vm.Name
	unlock, err := b.vmLocks.Lock(ctx, vm.ID)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	return conn.WrapAction(act, b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		uuid, err := conn.ParseUUID(vm.ID)
		if err != nil {
			return err
		}
		b.domains.invalidate(uuid)
		defer b.domains.invalidate(uuid)
		s, err := b.readObservedDomain(ctx, c, vm.ID)
		if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
			return os.RemoveAll(snapshotDirOf(vm.ID))
		}
		if err != nil {
			return err
		}
		if err := b.refuseLostGuest(s); err != nil {
			return err
		}
		a := applyRun{Backend: b, c: c, in: hypervisor.ApplyWork{VM: vm, Adopted: s.applied != nil && s.applied.Adopted}}
		if err := a.removeManagedFilters(ctx, s); err != nil {
			return err
		}
		if err := b.filters.RemoveNICFilters(ctx, c, vm.ID, nil); err != nil {
			return err
		}
		// The metadata goes last, so that a repeated job finds what an interrupted one left.
		if err := a.removeMetadata(ctx, s); err != nil {
			return err
		}
		return os.RemoveAll(snapshotDirOf(vm.ID))
	}))
}

// removeManagedFilters removes the references of NICs to network filters of Quantix, from the definition and from the
// running guest.
func (a *applyRun) removeManagedFilters(ctx context.Context, s observedDomain) error {
	isFiltered := func(n domxml.NICHardware) bool { return domxml.IsManagedFilter(n.Filter) }
	if !slices.ContainsFunc(s.persistent.NICs, isFiltered) && (s.live == nil || !slices.ContainsFunc(s.live.NICs, isFiltered)) {
		return nil
	}
	x, err := conn.ReadDefinition(ctx, a.c, s.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil {
		return err
	}
	for i := range x.Devices.Interfaces {
		if n := &x.Devices.Interfaces[i]; domxml.IsManagedFilter(domxml.FilterNameOf(n)) {
			n.FilterRef = nil
		}
	}
	if !s.transient {
		if err := a.defineDomain(ctx, x); err != nil {
			return err
		}
	}
	if s.live == nil {
		return nil
	}
	return a.updateLiveFilters(ctx, s, x)
}

// emptyMetadata is what libvirt leaves in a definition whose last metadata was removed.
const emptyMetadata = "  <metadata/>\n"

// removeMetadata removes Quantix's element from the metadata of the domain's definitions. Then the
// persistent definition has its text of before the adoption; the running definition keeps an empty metadata element.
func (a *applyRun) removeMetadata(ctx context.Context, s observedDomain) error {
	into := golibvirt.DomainAffectConfig
	if s.transient {
		into = golibvirt.DomainAffectLive
	} else if s.live != nil {
		into |= golibvirt.DomainAffectLive
	}
	if err := setMetadata(ctx, a.c, s, "", into); err != nil && !conn.IsLibvirtCode(err, golibvirt.ErrNoDomainMetadata) {
		return err
	}
	if s.transient {
		return nil
	}
	return a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		text, err := l.DomainGetXMLDesc(s.ref, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
		if err != nil || !strings.Contains(text, emptyMetadata) {
			return err
		}
		_, err = l.DomainDefineXML(strings.Replace(text, emptyMetadata, "", 1))
		return err
	})
}
