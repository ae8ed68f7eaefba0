package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// DeleteVM implements hypervisor.VMs. It removes the definition first, so a domain never names a deleted disk.
func (b *Backend) DeleteVM(ctx context.Context, vm fleet.VM, pools []fleet.Pool, disks bool) error {
	act := "delete " + vm.Name
	unlock, err := b.vmLocks.Lock(ctx, vm.ID)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	return conn.WrapAction(act, b.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		tree, err := readSnapshotTree(vm.ID)
		if err != nil {
			return err
		}
		if tree != nil && len(tree.Active) > 0 && !disks {
			return hypervisor.RefuseDeleteWithoutDisks(vm.Name)
		}
		release, err := b.lockSnapshots(vm)
		if err != nil {
			return err
		}
		defer release()
		var places []storage.LocalVolume
		if disks {
			files, err := b.lockFilesShared(ctx, hypervisor.ApplyWork{VM: vm, Pools: pools})
			if err != nil {
				return err
			}
			defer files.Unlock()
			if places, err = b.deletableDisks(ctx, c, vm, pools); err != nil {
				return err
			}
		}
		if tree, err = b.recordOverlays(ctx, c, vm, pools, tree, disks); err != nil {
			return err
		}
		if err := b.undefineDomain(ctx, c, vm.ID); err != nil {
			return err
		}
		if err := b.firmware.Discard(vm.ID, ""); err != nil {
			return err
		}
		if err := b.filters.RemoveNICFilters(ctx, c, vm.ID, nil); err != nil {
			return err
		}
		if err := b.devices.RemoveMdevsExcept(string(vm.ID)); err != nil {
			return err
		}
		if tree != nil {
			own := map[string]bool{}
			for _, d := range vm.Spec.Disks {
				if p, err := storage.LocalVolumeOf(d.Ref(), pools); err == nil {
					own[p.Path()] = true
				}
			}
			if _, err := hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, removeSnapshotFiles(tree, own) }); err != nil {
				return fmt.Errorf("delete the VM's snapshots: %w", err)
			}
		}
		if err := b.removeOtherSeeds(ctx, vm.ID); err != nil {
			return err
		}
		for _, p := range places {
			if err := b.pools.CheckPoolUsable(p.Pool.Name); err != nil {
				return err
			}
			all := []storage.LocalVolume{p, p.WithUnfinishedName()}
			if p.IsInBlockPool() {
				all = all[:1]
			}
			for _, v := range all {
				if err := b.removeVolume(ctx, c, v); err != nil {
					return fmt.Errorf("delete the volume %s: %w", v.Name, err)
				}
			}
			if err := b.deleteDiskSecret(ctx, c, p.Ref()); err != nil {
				return fmt.Errorf("delete the passphrase of %s: %w", p.Name, err)
			}
			b.pools.ExpirePool(p.Pool.Name)
		}
		return b.deleteOrphanedSecrets(ctx, c, vm.Spec.Disks, pools)
	}))
}

// deletableDisks returns the volumes that Quantix created for the VM's disks. These exclude existing volumes, images
// and ISOs of the spec. It refuses if another domain uses one of the volumes.
func (b *Backend) deletableDisks(ctx context.Context, c *conn.Conn, vm fleet.VM, pools []fleet.Pool) ([]storage.LocalVolume, error) {
	var keep []fleet.Volref
	for _, m := range vm.Spec.Media() {
		keep = append(keep, m.Volref)
	}
	for _, d := range vm.Spec.Disks {
		if d.Image != nil {
			keep = append(keep, *d.Image)
		}
	}
	var out []storage.LocalVolume
	for _, d := range vm.Spec.Disks {
		ref := fleet.Volref{PoolID: d.PoolID, Volume: d.Volume}
		if slices.Contains(keep, ref) || d.Existing {
			continue
		}
		p, err := storage.LocalVolumeOf(ref, pools)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return nil, nil
	}
	all, err := b.readDomains(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, p := range out {
		user, err := b.domainUsingVolume(ctx, all, vm.ID, p)
		if err != nil {
			return nil, err
		}
		if user != "" {
			return nil, fleet.Errorf(fleet.Conflict, "The volume %s of pool %s is in use by another VM of the host, so nothing was deleted. Delete the VM without its disks.", p.Name, p.Pool.Name)
		}
	}
	return out, nil
}

// undefineDomain stops the VM's guest and removes the domain with its UEFI variables, TPM state and libvirt snapshots. A
// missing domain is no error.
func (b *Backend) undefineDomain(ctx context.Context, c *conn.Conn, id fleet.VMID) error {
	s, err := b.readObservedDomain(ctx, c, id)
	switch {
	case conn.IsLibvirtCode(err, golibvirt.ErrNoDomain):
		return nil
	case err != nil:
		return err
	case !s.managed:
		return errUnmanagedDomain()
	}
	if err := b.refuseLostGuest(s); err != nil {
		return err
	}
	defer b.domains.invalidate(s.ref.UUID)
	const all = golibvirt.DomainUndefineManagedSave | golibvirt.DomainUndefineSnapshotsMetadata |
		golibvirt.DomainUndefineNvram | golibvirt.DomainUndefineCheckpointsMetadata
	return c.Do(ctx, func(l *golibvirt.Libvirt) error {
		if s.live != nil {
			// DomainDestroy fails if the guest has ended meanwhile. Then only the definition is removed.
			if err := l.DomainDestroy(s.ref); err != nil && !conn.IsLibvirtCode(err, golibvirt.ErrOperationInvalid) {
				return err
			}
		}
		// libvirt removes the state of a TPM only if the definition has a TPM. So the state of a TPM that was removed
		// earlier is removed here.
		if !s.persistent.FieldValues.Security.TPM {
			if err := os.RemoveAll(filepath.Join(domxml.TPMDir, string(id))); err != nil {
				return fmt.Errorf("remove the state of the VM's TPM: %w", err)
			}
		}
		// libvirt removes only the UEFI variables file that the definition names. An earlier change of secure boot may
		// have left a second file.
		other := domxml.SecureVarsSuffix
		if s.persistent.FieldValues.Security.SecureBoot {
			other = domxml.PlainVarsSuffix
		}
		if err := os.Remove(filepath.Join(domxml.NVRAMDir, string(id)+other)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the file of the VM's UEFI variables: %w", err)
		}
		err := l.DomainUndefineFlags(s.ref, all)
		if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
			return nil
		}
		return err
	})
}
