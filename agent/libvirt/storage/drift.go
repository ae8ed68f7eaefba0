package storage

import (
	"context"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/pooldir"
	"quantix/internal/drift"
	"quantix/internal/fleet"
)

// ReapplyPool implements hypervisor.Storage.
func (ps *Pools) ReapplyPool(ctx context.Context, pool fleet.Pool) error {
	return ps.applyPool(ctx, "reapply", pool, func(ctx context.Context, c *conn.Conn) error {
		if err := ps.checkPoolAllowed(ctx, pool); err != nil {
			return err
		}
		return ps.restoreDefinition(ctx, c, pool)
	})
}

// restoreDefinition defines an edited pool again, with autostart. It stops a pool that runs with the edited definition.
// It leaves a pool that Quantix did not create, and a missing one, to the start of the pool.
func (ps *Pools) restoreDefinition(ctx context.Context, c *conn.Conn, p fleet.Pool) error {
	ref, x, err := findPool(ctx, c, p.Name)
	switch {
	case conn.IsLibvirtCode(err, golibvirt.ErrNoStoragePool):
		return nil
	case err != nil:
		return err
	case !createdByQuantix(x, p):
		return nil
	}
	live, err := livePool(ctx, c, ref)
	if err != nil {
		return err
	}
	if live != nil && !isSameStorage(*live, p.Spec) {
		if err := c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StoragePoolDestroy(ref) }); err != nil {
			return err
		}
	}
	if ref, err = definePool(ctx, c, p); err != nil {
		return err
	}
	return c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.StoragePoolSetAutostart(ref, 1) })
}

// livePool returns the definition that an active pool runs with; nil: the pool is inactive.
func livePool(ctx context.Context, c *conn.Conn, ref golibvirt.StoragePool) (*libvirtxml.StoragePool, error) {
	return conn.Call(ctx, c, func(l *golibvirt.Libvirt) (*libvirtxml.StoragePool, error) {
		active, err := l.StoragePoolIsActive(ref)
		if err != nil || active == 0 {
			return nil, err
		}
		text, err := l.StoragePoolGetXMLDesc(ref, 0)
		if err != nil {
			return nil, err
		}
		var x libvirtxml.StoragePool
		return &x, x.Unmarshal(hypervisor.EscapeInvalidText(text))
	})
}

// poolDrift lists the edits of the definition for the pool's next start. A pool of this name that is neither created by
// Quantix nor recorded as preexisting is another pool and has no drift.
func poolDrift(l *golibvirt.Libvirt, ref golibvirt.StoragePool, p fleet.Pool, record pooldir.RecordedPool) ([]fleet.Drift, error) {
	text, err := l.StoragePoolGetXMLDesc(ref, golibvirt.StorageXMLInactive)
	if err != nil {
		return nil, err
	}
	var x libvirtxml.StoragePool
	if err := x.Unmarshal(hypervisor.EscapeInvalidText(text)); err != nil {
		return nil, err
	}
	ours := createdByQuantix(x, p)
	if !ours && !record.Preexisting.Defined {
		return nil, nil
	}
	out := drift.OfPool(storageIdentityOf(poolXML(p)).source(), storageIdentityOf(x).source())
	if !ours || record.Place == nil {
		return out, nil // Quantix sets autostart only for pools that it created, before their first start
	}
	autostart, err := l.StoragePoolGetAutostart(ref)
	if err == nil && autostart == 0 {
		out = append(out, drift.OfAutostart())
	}
	return out, err
}

// source returns the storage as fields of pools.
func (at storageIdentity) source() drift.PoolSource {
	s := drift.PoolSource{Kind: at.kind, Path: at.path, Server: at.host, Export: at.dir, Device: at.device}
	if at.gluster {
		s.Kind += " (glusterfs)"
	}
	return s
}
