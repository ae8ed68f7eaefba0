package libvirt

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// createDiskSecret generates a new 256-bit passphrase for a disk that is about to be created.
func (b *Backend) createDiskSecret(ctx context.Context, c *conn.Conn, p storage.LocalVolume) error {
	text, err := (&libvirtxml.Secret{
		Ephemeral: "no", Private: "yes", UUID: string(domxml.DiskSecretUUID(p.Ref())), Description: "Quantix: disk " + p.Name + " of pool " + p.Pool.Name,
		Usage: &libvirtxml.SecretUsage{Type: "volume", Volume: p.Path()},
	}).Marshal()
	if err != nil {
		return err
	}
	var key [32]byte
	if _, err := rand.Read(key[:]); err != nil {
		return err
	}
	phrase := []byte(hex.EncodeToString(key[:])) // as text, because QEMU takes the passphrase as text
	return c.Do(ctx, func(l *golibvirt.Libvirt) error {
		ref, err := l.SecretDefineXML(text, 0)
		if err != nil {
			return err
		}
		return l.SecretSetValue(ref, phrase, 0)
	})
}

// deleteDiskSecret removes the passphrase of a deleted volume. A missing passphrase is no error.
func (b *Backend) deleteDiskSecret(ctx context.Context, c *conn.Conn, ref fleet.Volref) error {
	uuid, err := conn.ParseUUID(domxml.DiskSecretUUID(ref))
	if err != nil {
		return err
	}
	err = c.Do(ctx, func(l *golibvirt.Libvirt) error {
		s, err := l.SecretLookupByUUID(uuid)
		if err != nil {
			return err
		}
		return l.SecretUndefine(s)
	})
	if conn.IsLibvirtCode(err, golibvirt.ErrNoSecret) {
		return nil
	}
	return err
}

// checkDiskSecret refuses an encrypted disk if the host lacks its passphrase.
func (b *Backend) checkDiskSecret(ctx context.Context, c *conn.Conn, p storage.LocalVolume) error {
	uuid, err := conn.ParseUUID(domxml.DiskSecretUUID(p.Ref()))
	if err != nil {
		return err
	}
	_, err = conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.Secret, error) { return l.SecretLookupByUUID(uuid) })
	if conn.IsLibvirtCode(err, golibvirt.ErrNoSecret) {
		return fleet.Errorf(fleet.Conflict, "The host has no passphrase for the encrypted volume %s of pool %s, so no VM on this host can use the volume.", p.Name, p.Pool.Name)
	}
	return err
}

// deleteOrphanedSecrets removes the passphrases of those disks whose volumes no longer exist.
func (b *Backend) deleteOrphanedSecrets(ctx context.Context, c *conn.Conn, disks []fleet.Disk, pools []fleet.Pool) error {
	var failed error
	for _, d := range disks {
		p, err := storage.LocalVolumeOf(d.Ref(), pools)
		if d.Encryption == "" || err != nil || p.IsInBlockPool() || b.pools.CheckPoolUsable(p.Pool.Name) != nil {
			continue
		}
		why, err := b.diskUnavailableReason(ctx, c, p.Pool.Name, p.Path())
		if err != nil || why != hypervisor.FileMissingReason { // an inactive pool does not prove that the file is missing
			continue
		}
		failed = errors.Join(failed, b.deleteDiskSecret(ctx, c, d.Ref()))
	}
	return failed
}
