package storage

import (
	"context"
	"path"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// startPool starts the pool after it has checked that the pool's directory is allowed and is still the recorded one.
// The caller holds the pool's lock. startPool creates the directory only for a pool that was never active, because a
// missing directory may mean that the data is elsewhere.
func (ps *Pools) startPool(ctx context.Context, c *conn.Conn, p fleet.Pool) error {
	if err := ps.checkPoolAllowed(ctx, p); err != nil {
		return err
	}
	record, _ := ps.book.RecordOf(p)
	if !p.Spec.Kind.Info().Mounted {
		if _, err := ps.checkPoolDir(ctx, record); err != nil {
			return err
		}
	}
	ref, err := ps.ensurePoolDefined(ctx, c, p)
	if err != nil {
		return err
	}
	active, err := ps.poolActive(ctx, c, ref, record)
	if err != nil {
		return err
	}
	if !active {
		if err := ps.createPool(ctx, c, p, ref, p.Spec.Kind.Info().FilePool && (record.Place == nil || p.Spec.Kind.Info().Mounted)); err != nil {
			return err
		}
	}
	if _, err := ps.recordPoolDir(ctx, p, record); err != nil {
		if !active {
			ps.stopWrongPool(ctx, c, ref)
		}
		return err
	}
	err = c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StoragePoolRefresh(ref, 0) })
	if isPoolBusyError(err) {
		return nil
	}
	return err
}

// ensurePoolDefined returns libvirt's pool and defines it if it is missing.
func (ps *Pools) ensurePoolDefined(ctx context.Context, c *conn.Conn, p fleet.Pool) (golibvirt.StoragePool, error) {
	ref, x, err := findPool(ctx, c, p.Name)
	switch {
	case conn.IsLibvirtCode(err, golibvirt.ErrNoStoragePool):
		return definePool(ctx, c, p)
	case err != nil:
		return ref, err
	case !isSameStorage(x, p.Spec):
		return ref, errPoolHasOtherSource(p.Name, x)
	}
	return ref, nil
}

// poolActive reports whether the pool is active in libvirt. It stops a pool with a lost mount, because libvirt mounts
// only when it starts a pool.
func (ps *Pools) poolActive(ctx context.Context, c *conn.Conn, ref golibvirt.StoragePool, record pooldir.RecordedPool) (bool, error) {
	active, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (int32, error) { return l.StoragePoolIsActive(ref) })
	if err != nil || active == 0 {
		return false, err
	}
	now, problem := ps.checkPoolDir(ctx, record)
	if problem == nil || !record.IsUnmounted(now) {
		return true, problem
	}
	return false, c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StoragePoolDestroy(ref) })
}

// createPool starts the pool. It sets autostart before the start, so that the host's next boot retries a pool with an
// unreachable server. It checks the path again, because somebody may have replaced the built directory.
func (ps *Pools) createPool(ctx context.Context, c *conn.Conn, p fleet.Pool, ref golibvirt.StoragePool, build bool) error {
	err := c.Do(ctx, func(l *golibvirt.Libvirt) error {
		err := l.StoragePoolSetAutostart(ref, 1)
		if err == nil && build {
			err = l.StoragePoolBuild(ref, 0)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := ps.checkPoolAllowed(ctx, p); err != nil {
		return err
	}
	return c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StoragePoolCreate(ref, 0) })
}

// stopWrongPool stops a pool that started on the wrong directory. It only logs an error.
func (ps *Pools) stopWrongPool(ctx context.Context, c *conn.Conn, ref golibvirt.StoragePool) {
	if err := c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StoragePoolDestroy(ref) }); err != nil {
		ps.log.Warn("a storage pool on the wrong directory cannot be stopped", "pool", ref.Name, "error", err)
	}
}

// checkPoolAllowed refuses pools that the agent's settings forbid, and pool kinds that the agent does not know.
func (ps *Pools) checkPoolAllowed(ctx context.Context, p fleet.Pool) error {
	kind, known := poolSourcesByKind[p.Spec.Kind]
	if !known {
		return fleet.Errorf(fleet.Conflict, "This agent does not support pools of kind %q. Upgrade the agent.", string(p.Spec.Kind))
	}
	_, err := hostfile.RunWithinContext(ctx, func() (struct{}, error) {
		switch {
		case kind.blocks != nil && kind.device != nil:
			return struct{}{}, ps.roots.CheckDeviceAllowed(kind.device(p.Spec))
		case kind.blocks != nil:
			return struct{}{}, nil
		}
		if err := ps.roots.CheckDir(p.Spec.Path); err != nil || kind.device == nil {
			return struct{}{}, err
		}
		return struct{}{}, ps.roots.CheckDevice(kind.device(p.Spec), p.Spec.Path)
	})
	return err
}

// checkPoolDir inspects the pool's directory and refuses a directory other than the recorded one.
func (ps *Pools) checkPoolDir(ctx context.Context, record pooldir.RecordedPool) (pooldir.DirReading, error) {
	if record.Path == "" {
		return pooldir.DirReading{}, nil // libvirt identifies a block pool by its source
	}
	now, err := hostfile.RunWithinContext(ctx, func() (pooldir.DirReading, error) { return pooldir.InspectDir(record.Path) })
	if err != nil {
		return now, err
	}
	return now, record.CheckDir(now)
}

// markerDir returns the directory that holds the pool's marker. It is empty for a block pool.
func markerDir(s fleet.PoolSpec) string {
	if !s.Kind.Info().FilePool {
		return ""
	}
	return path.Clean(s.Path)
}

// isSharedPool reports whether other hosts may write to the pool's files.
func isSharedPool(s fleet.PoolSpec) bool { return s.Shared || s.Kind.Info().Mounted }

// recordPoolDir checks the directory of an active pool, records it, and creates the marker at first use. A directory
// that lost its marker gets no new one.
func (ps *Pools) recordPoolDir(ctx context.Context, p fleet.Pool, record pooldir.RecordedPool) (pooldir.DirReading, error) {
	record.ID, record.Path, record.Shared = p.ID, markerDir(p.Spec), isSharedPool(p.Spec)
	if record.Path == "" {
		record.Place = &pooldir.RecordedDir{}
		record.Boot, record.Failing, record.ByOthers = ps.book.BootID(), false, false
		ps.recordPool(p, record)
		return pooldir.DirReading{}, nil
	}
	now, err := ps.checkPoolDir(ctx, record)
	if err == nil && record.Place == nil && !now.Exists {
		return now, fleet.Errorf(fleet.Conflict, "The directory %s does not exist any more.", record.Path)
	}
	if err != nil {
		return now, err
	}
	if now.Marker == "" && (record.Place == nil || !record.Place.Marked) {
		_, failed := hostfile.RunWithinContext(ctx, func() (struct{}, error) { return struct{}{}, pooldir.WriteMarker(record.Path, p.ID) })
		if failed != nil && record.Place == nil {
			ps.log.Warn("the marker of a storage pool cannot be written; the mount and inode identify the directory", "pool", p.Name, "error", failed)
		}
		if now, err = ps.checkPoolDir(ctx, record); err != nil {
			return now, err // another pool wrote its marker to the directory at the same time
		}
	}
	record.Place = &pooldir.RecordedDir{Marked: now.Marker == p.ID, Mount: now.Mount, Inode: now.Inode}
	record.Boot, record.Failing, record.ByOthers = ps.book.BootID(), false, false
	ps.recordPool(p, record)
	return now, nil
}

// forgetPool removes the records of a pool that libvirt does not have.
func (ps *Pools) forgetPool(ctx context.Context, p fleet.Pool) error {
	if err := ps.removeMarker(ctx, p); err != nil {
		return err
	}
	return ps.book.Forget(p.Name)
}

// removeMarker removes the marker before libvirt unmounts the pool's directory. A shared pool keeps the marker until
// the pool is deleted, because other hosts identify the pool by the marker.
func (ps *Pools) removeMarker(ctx context.Context, p fleet.Pool) error {
	if p.Spec.Shared && p.DeletedAt == nil || !p.Spec.Kind.Info().FilePool {
		return nil
	}
	_, err := hostfile.RunWithinContext(ctx, func() (struct{}, error) { return struct{}{}, pooldir.RemoveMarker(p.Spec.Path, p.ID) })
	return err
}

// restoreMarker restores the marker after a failed release.
func (ps *Pools) restoreMarker(ctx context.Context, p fleet.Pool) {
	record, known := ps.book.RecordOf(p)
	if !known || record.Place == nil || !record.Place.Marked {
		return
	}
	if _, err := hostfile.RunWithinContext(ctx, func() (struct{}, error) { return struct{}{}, pooldir.WriteMarker(record.Path, p.ID) }); err != nil {
		ps.log.Warn("the marker of a storage pool cannot be restored", "pool", p.Name, "error", err)
	}
}
