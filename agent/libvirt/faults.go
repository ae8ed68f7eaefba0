package libvirt

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/guest"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// specDisk is a disk of the spec that the definition has.
type specDisk struct {
	number int // position in the spec, from 1
	ref    fleet.Volref
	pool   string // pool name; empty: unknown
	alias  string
	path   string // path in the definition: after a snapshot, the overlay
}

// specDisks returns the definition's disks that belong to the applied spec, in the spec's order. If applied is nil, it
// returns the disks with an alias of Quantix.
func specDisks(x *libvirtxml.Domain, applied *hypervisor.AppliedRecord, volumeAt func(string) *fleet.Volref) []specDisk {
	if x.Devices == nil {
		return nil
	}
	var out []specDisk
	for i := range x.Devices.Disks {
		d := &x.Devices.Disks[i]
		one := specDisk{alias: domxml.AliasOf(d.Alias), path: domxml.DiskPathOf(d), ref: fleet.Volref{Volume: filepath.Base(domxml.DiskPathOf(d))}}
		if applied == nil {
			if !domxml.HasAliasPrefix(d.Alias, domxml.DiskAliasPrefix) {
				continue
			}
			if ref := volumeAt(one.path); ref != nil && domxml.DiskAlias(*ref) == one.alias {
				one.ref = *ref
			}
			one.number = len(out) + 1
			out = append(out, one)
			continue
		}
		k := slices.IndexFunc(applied.Spec.Disks, func(a fleet.Disk) bool {
			return domxml.LocatedDisk{Alias: domxml.DiskAlias(a.Ref()), Path: storage.AppliedVolumePath(*applied, a.Ref())}.Matches(d)
		})
		if k >= 0 {
			one.number, one.ref = k+1, applied.Spec.Disks[k].Ref()
			one.pool = applied.Pools[one.ref.PoolID].Name
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b specDisk) int { return a.number - b.number })
	return out
}

func (d specDisk) matchesDrive(v domxml.DiskDrive) bool {
	return v.Alias != "" && v.Alias == d.alias || v.Path == d.path
}

// volume returns the disk's volume, or nil if only its path is known.
func (d specDisk) volume() *fleet.Volref {
	if d.ref.PoolID == "" {
		return nil
	}
	return &d.ref
}

func (d specDisk) missingFault(why string) fleet.Fault {
	return hypervisor.MissingDiskFault(d.number, d.ref, d.pool, conn.Hostname(), why)
}

// statusWithFaults returns the domain's status with its faults, for the portal. A disk with a fault has no volume in
// the status.
func (b *Backend) statusWithFaults(s observedDomain, sizes map[string]hostfile.DiskSize, addresses guest.NICAddresses) fleet.VMStatus {
	st := s.status(sizes, addresses)
	st.Faults = b.domainFaults(s, sizes)
	st.Guest = b.agents.StatusOf(s.guestDomain())
	if !s.managed {
		st.NoConsole, st.Transient = s.noConsoleReason(), s.transient
	}
	if changed := b.filters.LastChangeMessages(); s.managed && len(changed) > 0 {
		for _, n := range s.persistent.NICs {
			if message := changed[n.Filter]; message != "" {
				st.RecordFilterDrift(n.MAC, message)
			}
		}
	}
	for i, d := range st.Disks {
		if d.Volume != nil && slices.ContainsFunc(st.Faults, func(f fleet.Fault) bool { return f.Disk != nil && *f.Disk == *d.Volume }) {
			st.Disks[i].Volume = nil
		}
	}
	return st
}

// domainFaults returns the VM's faults as last observed. A disk on hanging storage is unknown and has no fault.
func (b *Backend) domainFaults(s observedDomain, sizes map[string]hostfile.DiskSize) []fleet.Fault {
	var out []fleet.Fault
	if s.readErr != nil {
		out = append(out, hypervisor.UnreadableDomainFault(s.readErr))
	}
	if !s.managed {
		return out
	}
	for _, d := range s.specDisks {
		switch {
		case b.pools.SeenInactive(d.pool):
			out = append(out, d.missingFault(hypervisor.PoolInactiveReason))
		case sizes[d.path].Presence == hostfile.FileMissing:
			out = append(out, d.missingFault(hypervisor.FileMissingReason))
		case sizes[d.path].Presence == hostfile.FileReplaced:
			out = append(out, d.missingFault(hypervisor.FileReplacedReason))
		}
	}
	out = append(out, replacedMediaFaults(s, sizes)...)
	if golibvirt.DomainState(s.state) == golibvirt.DomainPaused && golibvirt.DomainPausedReason(s.reason) == golibvirt.DomainPausedIoerror {
		out = append(out, b.ioErrors.faultOf(s))
	}
	if pid, kept := b.findLostGuest(s); pid != 0 {
		out = append(out, hypervisor.GuestLostByLibvirtFault(pid, kept))
	}
	if s.transient {
		out = append(out, hypervisor.UndefinedDomainFault())
	}
	return out
}

// diskUnavailableReason checks a disk now and returns why it is unavailable, or "" if it is available. pool is "" if it
// is unknown.
func (b *Backend) diskUnavailableReason(ctx context.Context, c *conn.Conn, pool, path string) (string, error) {
	if pool != "" {
		switch err := b.pools.CheckPoolUsable(pool); {
		case fleet.CodeOf(err) == fleet.Conflict:
			return hypervisor.PoolReplacedReason, nil
		case err != nil:
			return "", err
		}
		active, err := storage.IsPoolActive(ctx, c, pool)
		if err != nil || !active {
			b.pools.ExpirePool(pool)
			return hypervisor.PoolInactiveReason, err
		}
	}
	if at, volume, ok := b.assignedPools.BlockVolumeAt(path); ok && at.Name == pool {
		there, err := b.blockVolumeExists(ctx, c, storage.LocalVolume{Pool: at, Name: volume})
		if err == nil && !there {
			return hypervisor.VolumeMissingReason, nil
		}
		return "", err
	}
	if !filepath.IsAbs(path) {
		return "", nil // network storage: QEMU reports errors at the start
	}
	there, err := hostfile.Exists(ctx, path)
	if err != nil {
		return "", err
	}
	why := hypervisor.FileMissingReason
	if there {
		is, err := hostfile.RunWithinContext(ctx, func() (pathClass, error) { return b.classifyPath(path, false) })
		if err != nil || is == pathAsExpected {
			return "", err
		}
		why = hypervisor.FileReplacedReason
	}
	b.diskSizes.ExpireDir(filepath.Dir(path))
	return why, nil
}

// checkDisksAvailable refuses a guest with an unavailable disk.
func (b *Backend) checkDisksAvailable(ctx context.Context, c *conn.Conn, s observedDomain) error {
	for _, d := range s.specDisks {
		why, err := b.diskUnavailableReason(ctx, c, d.pool, d.path)
		if err != nil {
			return err
		}
		if why != "" {
			return hypervisor.FaultError(d.missingFault(why))
		}
	}
	return nil
}

// ioErrors stores the newest I/O error event of each guest, because a query to QEMU may hang with the storage.
type ioErrors struct {
	mu     sync.Mutex
	newest map[golibvirt.UUID]golibvirt.DomainEventIOErrorReasonMsg
}

func (e *ioErrors) record(m golibvirt.DomainEventIOErrorReasonMsg) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.newest == nil {
		e.newest = map[golibvirt.UUID]golibvirt.DomainEventIOErrorReasonMsg{}
	}
	e.newest[m.Dom.UUID] = m
}

// keepOnly removes the events of guests that are not in all.
func (e *ioErrors) keepOnly(all []observedDomain) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.newest, func(id golibvirt.UUID, _ golibvirt.DomainEventIOErrorReasonMsg) bool {
		return !slices.ContainsFunc(all, func(s observedDomain) bool { return s.ref.UUID == id })
	})
}

// faultOf returns the fault of a guest that QEMU paused after an I/O error.
func (e *ioErrors) faultOf(s observedDomain) fleet.Fault {
	e.mu.Lock()
	m := e.newest[s.ref.UUID]
	e.mu.Unlock()
	var ref *fleet.Volref
	which := "a disk"
	if i := slices.IndexFunc(s.specDisks, func(d specDisk) bool { return d.alias == m.DevAlias || d.path == m.SrcPath }); i >= 0 {
		d := s.specDisks[i]
		which, ref = fmt.Sprintf("disk %d", d.number), d.volume()
		if d.pool != "" {
			which += fmt.Sprintf(" (pool %s, volume %s)", d.pool, d.ref.Volume)
		}
	}
	return hypervisor.PausedByDiskErrorFault(which, ref, m.Reason == "enospc")
}
