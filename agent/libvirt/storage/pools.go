// Package storage manages libvirt's storage pools (Pools), and finds the volumes of pools on this host (LocalVolume).
// The kinds of pools are in the table poolSourcesByKind (definition.go); blockpools.go has the kinds without files.
package storage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/watch"
	"quantix/internal/fleet"
)

// ApplyPool implements hypervisor.Storage.
func (ps *Pools) ApplyPool(ctx context.Context, pool fleet.Pool) error {
	return ps.applyPool(ctx, "apply", pool, func(context.Context, *conn.Conn) error { return nil })
}

// applyPool calls prepare, and then defines and starts the pool.
func (ps *Pools) applyPool(ctx context.Context, verb string, pool fleet.Pool, prepare func(context.Context, *conn.Conn) error) error {
	err := ps.withPoolLock(ctx, verb, pool, func(ctx context.Context, c *conn.Conn) error {
		record, known := ps.book.RecordOf(pool)
		if !known {
			var err error
			if record.Preexisting, err = priorPoolState(ctx, c, pool); err != nil {
				return err
			}
		}
		record.ID, record.Path, record.Shared, record.ByOthers = pool.ID, markerDir(pool.Spec), isSharedPool(pool.Spec), false
		if err := ps.book.Put(pool.Name, record); err != nil {
			return err
		}
		if err := prepare(ctx, c); err != nil {
			return err
		}
		return ps.startPool(ctx, c, pool)
	})
	if !errors.Is(err, context.Canceled) {
		ps.recordPoolOutcome(pool, err)
	}
	ps.ExpirePool(pool.Name)
	return err
}

// ReleasePool implements hypervisor.Storage. It removes the marker, except from a pool that other hosts share.
func (ps *Pools) ReleasePool(ctx context.Context, pool fleet.Pool) error {
	err := ps.withPoolLock(ctx, "release", pool, func(ctx context.Context, c *conn.Conn) error {
		ref, x, err := findPool(ctx, c, pool.Name)
		switch {
		case conn.IsLibvirtCode(err, golibvirt.ErrNoStoragePool):
			if err := ps.removePoolSecret(ctx, c, pool); err != nil {
				return err
			}
			return ps.forgetPool(ctx, pool)
		case err != nil:
			return err
		case !isSameStorage(x, pool.Spec):
			// libvirt's pool with this name belongs to somebody else; Quantix never created this pool.
			return ps.book.Forget(pool.Name)
		case !createdByQuantix(x, pool):
			return ps.releasePreexistingPool(ctx, c, pool, ref)
		}
		if err := ps.checkPoolUnused(ctx, c, pool, func(Guest) bool { return true }); err != nil {
			return err
		}
		if err := ps.removeMarker(ctx, pool); err != nil {
			return err
		}
		err = c.Do(ctx, func(l *golibvirt.Libvirt) error {
			active, err := l.StoragePoolIsActive(ref)
			if err == nil && active != 0 {
				err = l.StoragePoolDestroy(ref)
			}
			return err
		})
		if err != nil {
			ps.restoreMarker(ctx, pool)
			return err
		}
		if err := c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StoragePoolUndefine(ref) }); err != nil {
			return err
		}
		if err := ps.removePoolSecret(ctx, c, pool); err != nil {
			return err
		}
		return ps.book.Forget(pool.Name)
	})
	if err == nil {
		ps.recordPoolOutcome(pool, nil)
	}
	ps.ExpirePool(pool.Name)
	return err
}

// withPoolLock runs f while it holds the pool's lock, so that only one operation at a time runs for a pool.
func (ps *Pools) withPoolLock(ctx context.Context, verb string, pool fleet.Pool, f func(context.Context, *conn.Conn) error) error {
	act := verb + " pool " + pool.Name
	if err := ctx.Err(); err != nil {
		return conn.WrapAction(act, err)
	}
	// Storage may hang instead of refusing wrong credentials. An apply may have new credentials, so the apply waits for
	// the hanging attempt instead of failing.
	if err := ps.checkPoolNotHanging(pool.Name); err != nil && (verb == "release" || pool.Spec.Kind.Info().Secret == nil) {
		return err
	}
	unlock, err := ps.locks.Lock(ctx, pool.Name)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	return conn.WrapAction(act, ps.daemon.WithConn(ctx, f))
}

// checkPoolUnused refuses if a running or stopped domain has a file of the pool. It considers only the domains that
// selects accepts.
func (ps *Pools) checkPoolUnused(ctx context.Context, c *conn.Conn, pool fleet.Pool, selects func(Guest) bool) error {
	all, err := ps.guests(ctx, c)
	if err != nil {
		return err
	}
	dir := strings.TrimSuffix(path.Clean(pool.Spec.Path), "/") + "/"
	has := func(f string) bool { return strings.HasPrefix(f, dir) }
	if kind := BlockVolumeMappingOf(pool.Spec); kind != nil {
		has = func(f string) bool { return kind.volumeAt(pool, f) != "" }
	}
	for _, s := range slices.DeleteFunc(all, func(s Guest) bool { return !selects(s) }) {
		for _, f := range s.Files {
			if has(f) || strings.HasPrefix(f, domxml.VolumeRefPath(pool.Name, "")) {
				return fleet.Errorf(fleet.Conflict, "The pool %s is in use by %s (%s). Delete or move that VM first.", pool.Name, s.Name, path.Base(f))
			}
		}
	}
	return nil
}

// LookupPool looks up a pool of libvirt by name.
func LookupPool(ctx context.Context, c *conn.Conn, name string) (golibvirt.StoragePool, error) {
	return conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.StoragePool, error) { return l.StoragePoolLookupByName(name) })
}

// findPool looks up a pool by name and reads its inactive definition.
func findPool(ctx context.Context, c *conn.Conn, name string) (golibvirt.StoragePool, libvirtxml.StoragePool, error) {
	var x libvirtxml.StoragePool
	ref, err := LookupPool(ctx, c, name)
	if err != nil {
		return ref, x, err
	}
	text, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) {
		return l.StoragePoolGetXMLDesc(ref, golibvirt.StorageXMLInactive)
	})
	if err != nil {
		return ref, x, err
	}
	return ref, x, x.Unmarshal(text)
}

// definePool defines the pool in libvirt.
func definePool(ctx context.Context, c *conn.Conn, pool fleet.Pool) (golibvirt.StoragePool, error) {
	text, err := new(poolXML(pool)).Marshal()
	if err != nil {
		return golibvirt.StoragePool{}, fmt.Errorf("write the pool's definition: %w", err)
	}
	ref, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.StoragePool, error) { return l.StoragePoolDefineXML(text, 0) })
	return ref, translateSourceConflict(ctx, c, err)
}

// Refresh makes libvirt re-read the pool's directory. It only logs an error: libvirt refuses a refresh while a
// volume is being created, and a later pool check refreshes again.
func (ps *Pools) Refresh(ctx context.Context, c *conn.Conn, ref golibvirt.StoragePool) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StoragePoolRefresh(ref, 0) }); err != nil && !isPoolBusyError(err) {
		ps.log.Warn("a storage pool cannot be refreshed", "pool", ref.Name, "error", err)
	}
	ps.ExpirePool(ref.Name)
}

// IsPoolActive reports whether libvirt's pool with this name is active.
func IsPoolActive(ctx context.Context, c *conn.Conn, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*watch.StalledAfter)
	defer cancel()
	active, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (int32, error) {
		ref, err := l.StoragePoolLookupByName(name)
		if err != nil {
			return 0, err
		}
		return l.StoragePoolIsActive(ref)
	})
	if conn.IsLibvirtCode(err, golibvirt.ErrNoStoragePool) {
		return false, nil
	}
	return active != 0, err
}

// CheckedPool returns libvirt's pool for an assigned pool. The pool must be active, have the spec's source, and be on
// the recorded directory, which the agent's settings must allow.
func (ps *Pools) CheckedPool(ctx context.Context, c *conn.Conn, p fleet.Pool) (golibvirt.StoragePool, error) {
	none := golibvirt.StoragePool{}
	if _, known := ps.book.RecordOf(p); !known {
		return none, fleet.Errorf(fleet.Conflict, "The pool %s is not set up on this host. Assign the pool first.", p.Name)
	}
	if err := ps.checkPoolAllowed(ctx, p); err != nil {
		return none, err
	}
	if err := ps.CheckPoolUsable(p.Name); err != nil {
		return none, err
	}
	pool, x, err := findPool(ctx, c, p.Name)
	switch {
	case err != nil:
		return none, err
	case !isSameStorage(x, p.Spec):
		return none, errPoolHasOtherSource(p.Name, x)
	}
	active, err := IsPoolActive(ctx, c, p.Name)
	if err == nil && !active {
		err = fleet.Errorf(fleet.Conflict, "The pool %s is not active on %s. Start the pool.", p.Name, conn.Hostname())
	}
	return pool, err
}
