package libvirt

import (
	"context"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// ApplySecurityGroup implements hypervisor.Firewall. libvirt also applies a changed filter to the NICs of running
// guests.
func (b *Backend) ApplySecurityGroup(ctx context.Context, g fleet.FlatGroup) error {
	return b.withSecurityGroupLock(ctx, "apply", g, func(ctx context.Context, c *conn.Conn) error {
		if err := b.defineFilter(ctx, c, groupFilter(g), true); err != nil {
			return err
		}
		return checkBridgeFiltering(bridgeSettingsDir)
	})
}

// ReleaseSecurityGroup implements hypervisor.Firewall.
func (b *Backend) ReleaseSecurityGroup(ctx context.Context, g fleet.FlatGroup) error {
	return b.withSecurityGroupLock(ctx, "release", g, func(ctx context.Context, c *conn.Conn) error {
		all, err := b.readDomains(ctx, c)
		if err != nil {
			return err
		}
		name := hypervisor.GroupFilterName(g.ID)
		defined, err := listNICFilters(ctx, c)
		if err != nil {
			return err
		}
		for _, f := range defined {
			x, err := filterXML(ctx, c, f)
			if conn.IsLibvirtCode(err, golibvirt.ErrNoNwfilter) {
				continue
			}
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(x.Entries, func(e libvirtxml.NWFilterEntry) bool { return e.Ref != nil && e.Ref.Filter == name }) {
				continue
			}
			if user := userOfFilter(all, f.Name); user != "" {
				return hypervisor.RefuseUsedSecurityGroup(g.Name, user)
			}
			if err := b.undefineFilter(ctx, c, f.Name); err != nil {
				return err
			}
		}
		return b.undefineFilter(ctx, c, name)
	})
}

// withSecurityGroupLock runs f with a connection of its own, while it holds the group's lock.
func (b *Backend) withSecurityGroupLock(ctx context.Context, verb string, g fleet.FlatGroup, f func(context.Context, *conn.Conn) error) error {
	act := verb + " security group " + g.Name
	unlock, err := b.filterLocks.Lock(ctx, g.ID)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	return conn.WrapAction(act, b.daemon.WithConn(ctx, f))
}

// defineNICFilters defines the filters of the VM's NICs and the missing filters of their security groups. An existing
// group filter stays unchanged, because a newer job may have written it.
func (a *applyRun) defineNICFilters(ctx context.Context) error {
	for _, n := range a.in.VM.Spec.NICs {
		if !n.NeedsFilter() {
			continue
		}
		groups, err := hypervisor.SecurityGroupsOfNIC(n, a.in.Groups)
		if err != nil {
			return err
		}
		if len(groups) > 0 {
			if err := checkBridgeFiltering(bridgeSettingsDir); err != nil {
				return err
			}
		}
		for _, g := range groups {
			if err := a.ensureGroupFilter(ctx, g); err != nil {
				return err
			}
		}
		if err := a.defineFilter(ctx, a.c, nicFilter(a.in.VM.ID, n), a.in.Reapply); err != nil {
			return err
		}
	}
	return nil
}

// ensureGroupFilter defines the filter of the security group if the host does not have the filter.
func (a *applyRun) ensureGroupFilter(ctx context.Context, g fleet.FlatGroup) error {
	unlock, err := a.filterLocks.Lock(ctx, g.ID)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = findFilter(ctx, a.c, hypervisor.GroupFilterName(g.ID))
	if conn.IsLibvirtCode(err, golibvirt.ErrNoNwfilter) {
		return a.defineFilter(ctx, a.c, groupFilter(g), true)
	}
	return err
}

// updateLiveFilters gives the NICs of the running guest the filters of the persistent definition.
func (a *applyRun) updateLiveFilters(ctx context.Context, guest observedDomain, kept *libvirtxml.Domain) error {
	live, err := conn.ReadDefinition(ctx, a.c, guest.ref, 0)
	if err != nil {
		return err
	}
	for _, n := range live.Devices.Interfaces {
		k := slices.IndexFunc(kept.Devices.Interfaces, func(o libvirtxml.DomainInterface) bool { return domxml.NICMACOf(&o) == domxml.NICMACOf(&n) })
		if k < 0 || !domxml.HasAliasPrefix(n.Alias, domxml.NICAliasPrefix) {
			continue
		}
		now, want := domxml.FilterNameOf(&n), domxml.FilterNameOf(&kept.Devices.Interfaces[k])
		if now == want || !domxml.IsManagedFilter(now) && !domxml.IsManagedFilter(want) {
			continue
		}
		n.FilterRef = kept.Devices.Interfaces[k].FilterRef
		text, err := n.Marshal()
		if err != nil {
			return err
		}
		err = a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
			return l.DomainUpdateDeviceFlags(guest.ref, text, golibvirt.DomainDeviceModifyLive)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeNICFilters removes the filters of all NICs of the VM except keep. A filter that libvirt reports as in use
// stays.
func (b *Backend) removeNICFilters(ctx context.Context, c *conn.Conn, vm fleet.VMID, keep []fleet.NIC) error {
	all, err := listNICFilters(ctx, c)
	if conn.IsLibvirtError(err) {
		return nil // a libvirt without support for network filters
	}
	if err != nil {
		return err
	}
	for _, f := range all {
		if !strings.HasSuffix(f.Name, "-"+string(vm)) || slices.ContainsFunc(keep, func(n fleet.NIC) bool { return n.NeedsFilter() && hypervisor.FilterName(vm, n.MAC) == f.Name }) {
			continue
		}
		if err := b.undefineFilter(ctx, c, f.Name); err != nil && !conn.IsLibvirtError(err) {
			return err
		}
	}
	return nil
}

func listNICFilters(ctx context.Context, c *conn.Conn) ([]golibvirt.Nwfilter, error) {
	all, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) ([]golibvirt.Nwfilter, error) {
		all, _, err := l.ConnectListAllNwfilters(1, 0)
		return all, err
	})
	return slices.DeleteFunc(all, func(f golibvirt.Nwfilter) bool { return !strings.HasPrefix(f.Name, fleet.FilterPrefix+"nic-") }), err
}

// userOfFilter returns the name of a domain with a NIC that uses the filter, or "".
func userOfFilter(all []observedDomain, filter string) string {
	has := func(k domxml.NICHardware) bool { return k.Filter == filter }
	for _, s := range all {
		if slices.ContainsFunc(s.persistent.NICs, has) || slices.ContainsFunc(s.currentHardware().NICs, has) {
			return s.ref.Name
		}
	}
	return ""
}

func findFilter(ctx context.Context, c *conn.Conn, name string) (golibvirt.Nwfilter, error) {
	return conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.Nwfilter, error) { return l.NwfilterLookupByName(name) })
}

func filterXML(ctx context.Context, c *conn.Conn, f golibvirt.Nwfilter) (x libvirtxml.NWFilter, err error) {
	text, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) { return l.NwfilterGetXMLDesc(f, 0) })
	if err != nil {
		return x, err
	}
	return x, x.Unmarshal(text)
}

// defineFilter writes the filter if it is missing or differs, and records its digest. If somebody changed the filter
// outside Quantix and Quantix's own content is the same as before, that change stays unless force is set.
func (b *Backend) defineFilter(ctx context.Context, c *conn.Conn, want libvirtxml.NWFilter, force bool) error {
	text, err := want.Marshal()
	if err != nil {
		return err
	}
	b.filterMu.Lock()
	defer b.filterMu.Unlock()
	defer b.filterDriftWatch.Expire()
	digest := filterDigest(want)
	ref, err := findFilter(ctx, c, want.Name)
	switch {
	case conn.IsLibvirtCode(err, golibvirt.ErrNoNwfilter):
	case err != nil:
		return err
	default:
		have, err := filterXML(ctx, c, ref)
		switch {
		case err != nil:
			return err
		case isSameFilter(have, want):
			return b.filterBook.Put(want.Name, digest)
		case !force && b.filterBook.Digest(want.Name) == digest:
			return nil
		}
	}
	err = c.Do(ctx, func(l *golibvirt.Libvirt) error {
		_, err := l.NwfilterDefineXML(text)
		return err
	})
	if err != nil {
		return err
	}
	return b.filterBook.Put(want.Name, digest)
}

// isSameFilter reports whether the filter from libvirt equals the wanted filter.
func isSameFilter(have, want libvirtxml.NWFilter) bool {
	x, failed := have.Marshal()
	y, bad := want.Marshal()
	return failed == nil && bad == nil && x == y
}

func (b *Backend) undefineFilter(ctx context.Context, c *conn.Conn, name string) error {
	b.filterMu.Lock()
	defer b.filterMu.Unlock()
	defer b.filterDriftWatch.Expire()
	ref, err := findFilter(ctx, c, name)
	if err == nil {
		err = c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.NwfilterUndefine(ref) })
	}
	if err != nil && !conn.IsLibvirtCode(err, golibvirt.ErrNoNwfilter) {
		return err
	}
	return b.filterBook.Put(name, "")
}
