package storage

import (
	"context"
	"regexp"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// createdByQuantix reports whether Quantix created libvirt's pool. Such a pool has the UUID of the Quantix pool; any
// other pool is preexisting.
func createdByQuantix(x libvirtxml.StoragePool, p fleet.Pool) bool { return x.UUID == string(p.ID) }

// priorPoolState returns the state of a preexisting pool before Quantix first uses it.
func priorPoolState(ctx context.Context, c *conn.Conn, p fleet.Pool) (pooldir.PriorPoolState, error) {
	ref, x, err := findPool(ctx, c, p.Name)
	if conn.IsLibvirtCode(err, golibvirt.ErrNoStoragePool) || err == nil && createdByQuantix(x, p) {
		return pooldir.PriorPoolState{}, nil
	}
	if err != nil {
		return pooldir.PriorPoolState{}, err
	}
	return readPoolState(ctx, c, ref)
}

// readPoolState reads whether the pool is active and has autostart.
func readPoolState(ctx context.Context, c *conn.Conn, ref golibvirt.StoragePool) (pooldir.PriorPoolState, error) {
	return conn.Call(ctx, c, func(l *golibvirt.Libvirt) (pooldir.PriorPoolState, error) {
		active, err := l.StoragePoolIsActive(ref)
		if err != nil {
			return pooldir.PriorPoolState{}, err
		}
		autostart, err := l.StoragePoolGetAutostart(ref)
		return pooldir.PriorPoolState{Defined: true, Active: active != 0, Autostart: autostart != 0}, err
	})
}

// releasePreexistingPool releases a preexisting pool. The pool stays defined, and its active and autostart states become
// what they were before Quantix used the pool. It stays active while unmanaged domains of the host use it.
func (ps *Pools) releasePreexistingPool(ctx context.Context, c *conn.Conn, p fleet.Pool, ref golibvirt.StoragePool) error {
	if err := ps.checkPoolUnused(ctx, c, p, func(s Guest) bool { return s.Managed }); err != nil {
		return err
	}
	record, _ := ps.book.RecordOf(p)
	now, err := readPoolState(ctx, c, ref)
	if err != nil {
		return err
	}
	if err := ps.removeMarker(ctx, p); err != nil {
		return err
	}
	was, used := record.Preexisting, ps.checkPoolUnused(ctx, c, p, func(Guest) bool { return true })
	err = c.Do(ctx, func(l *golibvirt.Libvirt) error {
		if was.Defined && !was.Autostart && now.Autostart {
			if err := l.StoragePoolSetAutostart(ref, 0); err != nil {
				return err
			}
		}
		if was.Defined && !was.Active && now.Active && used == nil {
			return l.StoragePoolDestroy(ref)
		}
		return nil
	})
	if err != nil {
		ps.restoreMarker(ctx, p)
		return err
	}
	if err := ps.removePoolSecret(ctx, c, p); err != nil {
		return err
	}
	return ps.book.Forget(p.Name)
}

var sourceConflict = regexp.MustCompile(`conflict with pool: '(.+)'`)

// translateSourceConflict translates libvirt's error about another pool with the same source into an error for people.
func translateSourceConflict(ctx context.Context, c *conn.Conn, err error) error {
	if err == nil {
		return nil
	}
	m := sourceConflict.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	where := ""
	if _, x, err := findPool(ctx, c, m[1]); err == nil {
		where = storageIdentityOf(x).describe()
	}
	return hypervisor.RefuseTakenPoolSource(m[1], where)
}

// discoveredPools returns all pools of libvirt, sorted by name. It lists an unreadable pool with the error.
func (ps *Pools) discoveredPools() ([]fleet.DiscoveredPool, error) {
	c, err := ps.daemon.Dial(ps.daemon.RunContext)
	if err != nil {
		return nil, err
	}
	defer c.Disconnect()
	out, err := conn.Call(ps.daemon.RunContext, c, func(l *golibvirt.Libvirt) (out []fleet.DiscoveredPool, err error) {
		all, _, err := l.ConnectListAllStoragePools(1, 0)
		if err != nil {
			return nil, err
		}
		for _, ref := range all {
			one, err := discoveredPool(l, ref)
			switch {
			case conn.IsLibvirtCode(err, golibvirt.ErrNoStoragePool):
				continue
			case conn.IsObjectError(err):
				one = fleet.DiscoveredPool{Name: ref.Name, Error: conn.TranslateError(err).Error()}
			case err != nil:
				return nil, err
			}
			out = append(out, one)
		}
		return out, nil
	})
	slices.SortFunc(out, func(a, b fleet.DiscoveredPool) int { return strings.Compare(a.Name, b.Name) })
	return out, err
}

// discoveredPool reads one pool of libvirt.
func discoveredPool(l *golibvirt.Libvirt, ref golibvirt.StoragePool) (fleet.DiscoveredPool, error) {
	out := fleet.DiscoveredPool{Name: ref.Name}
	text, err := l.StoragePoolGetXMLDesc(ref, golibvirt.StorageXMLInactive)
	if err != nil {
		return out, err
	}
	var x libvirtxml.StoragePool
	if err := x.Unmarshal(hypervisor.EscapeInvalidText(text)); err != nil {
		return out, err
	}
	active, err := l.StoragePoolIsActive(ref)
	if err != nil {
		return out, err
	}
	autostart, err := l.StoragePoolGetAutostart(ref)
	out.Kind, out.Place, out.Active, out.Autostart = x.Type, storageIdentityOf(x).describe(), active != 0, autostart != 0
	out.Spec, out.Adoptability = hostPool(x)
	return out, err
}
