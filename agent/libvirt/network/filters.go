package network

import (
	"context"
	"slices"
	"strings"
	"sync"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/locks"
	"quantix/agent/libvirt/watch"
	"quantix/agent/state"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// Filters manages Quantix's network filters in libvirt: one for each security group and one for each NIC with security
// groups or anti-spoofing.
type Filters struct {
	daemon *conn.Daemon
	guests GuestReader
	locks  locks.ByKey[fleet.SecurityGroupID]
	book   *state.FilterDigests
	mu     sync.Mutex // held while a filter is written and recorded, or compared with the record
	drift  watch.Value[map[string]string]
	counts watch.Value[[]hypervisor.NICPacketCounts]
}

// NewFilters returns the filters of the daemon. guests reads the guests of the host, and book records the filters.
func NewFilters(daemon *conn.Daemon, guests GuestReader, book *state.FilterDigests) *Filters {
	return &Filters{daemon: daemon, guests: guests, book: book}
}

// ApplySecurityGroup implements hypervisor.Firewall. libvirt also applies a changed filter to the NICs of running
// guests.
func (fs *Filters) ApplySecurityGroup(ctx context.Context, g secgroup.FlatGroup) error {
	return fs.withSecurityGroupLock(ctx, "apply", g, func(ctx context.Context, c *conn.Conn) error {
		if err := fs.defineFilter(ctx, c, groupFilter(g), true); err != nil {
			return err
		}
		return checkBridgeFiltering(bridgeSettingsDir)
	})
}

// ReleaseSecurityGroup implements hypervisor.Firewall.
func (fs *Filters) ReleaseSecurityGroup(ctx context.Context, g secgroup.FlatGroup) error {
	return fs.withSecurityGroupLock(ctx, "release", g, func(ctx context.Context, c *conn.Conn) error {
		all, err := fs.guests(ctx, c)
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
			for _, guest := range all {
				if guest.hasNIC(func(k domxml.NICHardware) bool { return k.Filter == f.Name }) {
					return hypervisor.RefuseUsedSecurityGroup(g.Name, guest.Ref.Name)
				}
			}
			if err := fs.undefineFilter(ctx, c, f.Name); err != nil {
				return err
			}
		}
		return fs.undefineFilter(ctx, c, name)
	})
}

// withSecurityGroupLock runs f with a connection of its own, while it holds the group's lock.
func (fs *Filters) withSecurityGroupLock(ctx context.Context, verb string, g secgroup.FlatGroup, f func(context.Context, *conn.Conn) error) error {
	act := verb + " security group " + g.Name
	unlock, err := fs.locks.Lock(ctx, g.ID)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	return conn.WrapAction(act, fs.daemon.WithConn(ctx, f))
}

// DefineNICFilters defines the filters of the VM's NICs and the missing filters of their security groups. An existing
// group filter stays unchanged, because a newer job may have written it.
func (fs *Filters) DefineNICFilters(ctx context.Context, c *conn.Conn, in hypervisor.ApplyWork) error {
	for _, n := range in.VM.Spec.NICs {
		if !n.NeedsFilter() {
			continue
		}
		groups, err := hypervisor.SecurityGroupsOfNIC(n, in.Groups)
		if err != nil {
			return err
		}
		if len(groups) > 0 {
			if err := checkBridgeFiltering(bridgeSettingsDir); err != nil {
				return err
			}
		}
		for _, g := range groups {
			if err := fs.ensureGroupFilter(ctx, c, g); err != nil {
				return err
			}
		}
		if err := fs.defineFilter(ctx, c, nicFilter(in.VM.ID, n), in.Overwrites("nics")); err != nil {
			return err
		}
	}
	return nil
}

// ensureGroupFilter defines the filter of the security group if the host does not have the filter.
func (fs *Filters) ensureGroupFilter(ctx context.Context, c *conn.Conn, g secgroup.FlatGroup) error {
	unlock, err := fs.locks.Lock(ctx, g.ID)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = findFilter(ctx, c, hypervisor.GroupFilterName(g.ID))
	if conn.IsLibvirtCode(err, golibvirt.ErrNoNwfilter) {
		return fs.defineFilter(ctx, c, groupFilter(g), true)
	}
	return err
}

// RemoveNICFilters removes the filters of all NICs of the VM except the filters in keep. A filter that libvirt reports
// as in use stays.
func (fs *Filters) RemoveNICFilters(ctx context.Context, c *conn.Conn, vm fleet.VMID, keep []fleet.NIC) error {
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
		if err := fs.undefineFilter(ctx, c, f.Name); err != nil && !conn.IsLibvirtError(err) {
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
	return slices.DeleteFunc(all, func(f golibvirt.Nwfilter) bool { return !strings.HasPrefix(f.Name, secgroup.FilterPrefix+"nic-") }), err
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

// defineFilter writes the filter if it is missing or differs, and records its digest. A change of the filter made
// outside Quantix stays if Quantix's own content is the same as before, unless force is set.
func (fs *Filters) defineFilter(ctx context.Context, c *conn.Conn, want libvirtxml.NWFilter, force bool) error {
	text, err := want.Marshal()
	if err != nil {
		return err
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	defer fs.drift.Expire()
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
			return fs.book.Put(want.Name, digest)
		case !force && fs.book.Digest(want.Name) == digest:
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
	return fs.book.Put(want.Name, digest)
}

// isSameFilter reports whether the filter from libvirt equals the wanted filter.
func isSameFilter(have, want libvirtxml.NWFilter) bool {
	x, failed := have.Marshal()
	y, bad := want.Marshal()
	return failed == nil && bad == nil && x == y
}

func (fs *Filters) undefineFilter(ctx context.Context, c *conn.Conn, name string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	defer fs.drift.Expire()
	ref, err := findFilter(ctx, c, name)
	if err == nil {
		err = c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.NwfilterUndefine(ref) })
	}
	if err != nil && !conn.IsLibvirtCode(err, golibvirt.ErrNoNwfilter) {
		return err
	}
	return fs.book.Put(name, "")
}
