package libvirt

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
	"quantix/internal/fleet"
)

// ApplyPool implements hypervisor.Storage.
func (b *Backend) ApplyPool(ctx context.Context, pool fleet.Pool) error {
	err := b.withPoolLock(ctx, "apply", pool, func(ctx context.Context, c *conn.Conn) error {
		record, known := b.pools.book.RecordOf(pool)
		if !known {
			var err error
			if record.Preexisting, err = priorPoolState(ctx, c, pool); err != nil {
				return err
			}
		}
		record.ID, record.Path, record.Shared, record.ByOthers = pool.ID, markerDir(pool.Spec), isShared(pool.Spec), false
		if err := b.pools.book.Put(pool.Name, record); err != nil {
			return err
		}
		return b.startPool(ctx, c, pool)
	})
	if !errors.Is(err, context.Canceled) {
		b.recordPoolOutcome(pool, err)
	}
	b.pools.expirePool(pool.Name)
	return err
}

// ReleasePool implements hypervisor.Storage. It removes the marker, except from a pool that other hosts share.
func (b *Backend) ReleasePool(ctx context.Context, pool fleet.Pool) error {
	err := b.withPoolLock(ctx, "release", pool, func(ctx context.Context, c *conn.Conn) error {
		ref, x, err := findPool(ctx, c, pool.Name)
		switch {
		case conn.IsLibvirtCode(err, golibvirt.ErrNoStoragePool):
			if err := b.removePoolSecret(ctx, c, pool); err != nil {
				return err
			}
			return b.forgetPool(ctx, pool)
		case err != nil:
			return err
		case !isSameStorage(x, pool.Spec):
			// libvirt's pool with this name belongs to somebody else; Quantix never created this pool.
			return b.pools.book.Forget(pool.Name)
		case !createdByQuantix(x, pool):
			return b.releasePreexisting(ctx, c, pool, ref)
		}
		if err := b.checkPoolUnused(ctx, c, pool, func(observedDomain) bool { return true }); err != nil {
			return err
		}
		if err := b.removeMarker(ctx, pool); err != nil {
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
			b.restoreMarker(ctx, pool)
			return err
		}
		if err := c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StoragePoolUndefine(ref) }); err != nil {
			return err
		}
		if err := b.removePoolSecret(ctx, c, pool); err != nil {
			return err
		}
		return b.pools.book.Forget(pool.Name)
	})
	if err == nil {
		b.recordPoolOutcome(pool, nil)
	}
	b.pools.expirePool(pool.Name)
	return err
}

// withPoolLock runs f while it holds the pool's lock, so that only one operation at a time runs for a pool.
func (b *Backend) withPoolLock(ctx context.Context, verb string, pool fleet.Pool, f func(context.Context, *conn.Conn) error) error {
	act := verb + " pool " + pool.Name
	if err := ctx.Err(); err != nil {
		return conn.WrapAction(act, err)
	}
	// Storage may hang instead of refusing wrong credentials. An apply may bring new credentials, so it waits for the
	// hanging attempt instead of failing.
	if err := b.pools.checkHanging(pool.Name); err != nil && (verb != "apply" || pool.Spec.Kind.Info().Secret == nil) {
		return err
	}
	unlock, err := b.pools.locks.Lock(ctx, pool.Name)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	return conn.WrapAction(act, b.daemon.WithConn(ctx, f))
}

// checkPoolUnused refuses if a running or stopped domain that selects accepts has a file of the pool.
func (b *Backend) checkPoolUnused(ctx context.Context, c *conn.Conn, pool fleet.Pool, selects func(observedDomain) bool) error {
	all, err := b.readDomains(ctx, c)
	if err != nil {
		return err
	}
	dir := strings.TrimSuffix(path.Clean(pool.Spec.Path), "/") + "/"
	has := func(f string) bool { return strings.HasPrefix(f, dir) }
	if kind := blockMappingOf(pool.Spec); kind != nil {
		has = func(f string) bool { return kind.volumeAt(pool, f) != "" }
	}
	for _, s := range slices.DeleteFunc(all, func(s observedDomain) bool { return !selects(s) }) {
		for _, f := range s.allFiles() {
			if has(f) || strings.HasPrefix(f, domxml.VolumeRefPath(pool.Name, "")) {
				return fleet.Errorf(fleet.Conflict, "The pool %s is in use by %s (%s). Delete or move that VM first.", pool.Name, s.ref.Name, path.Base(f))
			}
		}
	}
	return nil
}

func lookupPool(ctx context.Context, c *conn.Conn, name string) (golibvirt.StoragePool, error) {
	return conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.StoragePool, error) { return l.StoragePoolLookupByName(name) })
}

// findPool looks up a pool by name and reads its inactive definition.
func findPool(ctx context.Context, c *conn.Conn, name string) (golibvirt.StoragePool, libvirtxml.StoragePool, error) {
	var x libvirtxml.StoragePool
	ref, err := lookupPool(ctx, c, name)
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

// refreshPool makes libvirt re-read the pool's directory. It only logs an error: libvirt refuses a refresh while a
// volume is being created, and a later pool check refreshes again.
func (b *Backend) refreshPool(ctx context.Context, c *conn.Conn, ref golibvirt.StoragePool) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StoragePoolRefresh(ref, 0) }); err != nil && !isPoolBusyError(err) {
		b.log.Warn("a storage pool cannot be refreshed", "pool", ref.Name, "error", err)
	}
	b.pools.expirePool(ref.Name)
}
