package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/image"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// volumeUser is a domain that currently uses a file.
type volumeUser struct {
	domain  string
	usage   domxml.FileUse
	running bool
}

// volumeUsers returns the domains that currently use the file under any path. It does not use a cache. It returns an
// error if storage that may have a user's disk does not answer.
func (b *Backend) volumeUsers(ctx context.Context, c *conn.Conn, p storage.LocalVolume, id hostfile.ID) ([]volumeUser, error) {
	all, err := b.readDomains(ctx, c)
	if err != nil {
		return nil, err
	}
	dirs, complete, err := b.currentPoolLocations(ctx, all)
	if err != nil {
		return nil, err
	}
	var out []volumeUser
	for _, s := range all {
		for _, use := range filesUsedBy(s) {
			at := dirs.Path(use.Path)
			if !filepath.IsAbs(at) {
				if pool := dirs.UnlistedPool(at); pool != "" && !complete && b.mayHavePool(ctx, pool) {
					return nil, fleet.Errorf(fleet.Unavailable, "The directory of the pool %s, which the VM %s uses, is unknown, so it is unknown whether the VM uses %s. Try again when libvirt lists its pools.",
						pool, s.ref.Name, p.Name)
				}
				if at == p.Path() || use.Path == domxml.VolumeRefPath(p.Pool.Name, p.Name) {
					out = append(out, volumeUser{s.ref.Name, use.usage, s.live != nil})
				}
				continue
			}
			chain, err := hostfile.RunWithinLookupTimeout(ctx, func() ([]hostfile.ID, error) { return hostfile.BackingChainIDs(at, use.Opaque), nil })
			if err != nil {
				return nil, fleet.Errorf(fleet.Unavailable, "It is unknown whether the VM %s uses %s: the storage of the VM's file %s does not answer. Try again when the storage answers.",
					s.ref.Name, p.Name, filepath.Base(at))
			}
			i := slices.Index(chain, id)
			if at != p.Path() && i < 0 {
				continue
			}
			how := use.usage
			if how == domxml.UsedAsDisk && i > 0 {
				how = domxml.UsedAsBacking
			}
			out = append(out, volumeUser{s.ref.Name, how, s.live != nil})
		}
	}
	return out, nil
}

// filesUsedBy returns the files that the domain's definitions name.
func filesUsedBy(s observedDomain) []struct {
	domxml.DiskFile
	usage domxml.FileUse
} {
	type use = struct {
		domxml.DiskFile
		usage domxml.FileUse
	}
	var out []use
	disks := s.diskFiles()
	for _, h := range disks {
		out = append(out, use{h, h.FileUsage()})
	}
	for _, f := range s.allFiles() {
		if !slices.ContainsFunc(disks, func(h domxml.DiskFile) bool { return h.Path == f }) {
			out = append(out, use{domxml.DiskFile{Path: f, Opaque: true}, domxml.UsedAsMedium})
		}
	}
	return out
}

// mayHavePool reports whether libvirt has a pool with this name. It also returns true if libvirt does not answer.
func (b *Backend) mayHavePool(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, storage.ReadTimeout)
	defer cancel()
	c, err := b.daemon.Dial(ctx)
	if err != nil {
		return true
	}
	defer c.Disconnect()
	_, err = storage.LookupPool(ctx, c, name)
	return !conn.IsLibvirtCode(err, golibvirt.ErrNoStoragePool)
}

// currentPoolLocations reads the directories of libvirt's pools if a domain names a disk by pool and volume; otherwise
// it returns none. complete reports that the list has every pool.
func (b *Backend) currentPoolLocations(ctx context.Context, all []observedDomain) (dirs storage.Locations, complete bool, err error) {
	byPool := func(f string) bool { return strings.HasPrefix(f, domxml.VolumeRefPrefix) }
	if !slices.ContainsFunc(all, func(s observedDomain) bool { return slices.ContainsFunc(s.allFiles(), byPool) }) {
		return nil, true, nil
	}
	return b.allPoolLocations(ctx)
}

// allPoolLocations returns the directories of all pools. It opens a new connection, because a hanging pool would block
// the shared one. If libvirt does not answer, it reads libvirt's definition files and the last known list, and returns
// complete as false. That list lacks new pools without a definition file.
func (b *Backend) allPoolLocations(ctx context.Context) (dirs storage.Locations, complete bool, err error) {
	soon, cancel := context.WithTimeout(ctx, storage.ReadTimeout)
	defer cancel()
	c, err := b.daemon.Dial(soon)
	if err != nil {
		return nil, false, err
	}
	defer c.Disconnect()
	dirs, err = conn.Call(soon, c, storage.ListLocations)
	if err == nil || conn.IsLibvirtError(err) || ctx.Err() != nil {
		if err != nil {
			err = fmt.Errorf("read the directories of the host's pools: %w", err)
		}
		return dirs, err == nil, err
	}
	defined, readErr := storage.DefinedLocations(storage.DefinitionDir)
	if readErr != nil {
		return nil, false, fmt.Errorf("read the directories of the host's pools: %w", errors.Join(err, readErr))
	}
	for name, at := range b.fileWatches.poolDirWatch.State().Value {
		if _, known := defined[name]; !known {
			defined[name] = at
		}
	}
	return defined, false, nil
}

// overlayOf returns the name of a volume in the host's pools that is backed by the file. It is empty if there is
// none.
func (b *Backend) overlayOf(ctx context.Context, c *conn.Conn, p storage.LocalVolume, id hostfile.ID) (string, error) {
	is, err := b.readFileFormats(ctx, c)
	if err != nil {
		return "", err
	}
	dirs, _, err := b.allPoolLocations(ctx)
	if err != nil {
		return "", err
	}
	for pool, dir := range dirs {
		if dir.Path == "" || dir.Blocks != nil {
			continue
		}
		name, err := hostfile.RunWithinLookupTimeout(ctx, func() (string, error) { return findOverlayInDir(dir.Path, id, is) })
		if err != nil {
			return "", fleet.Errorf(fleet.Unavailable, "The pool %s cannot be read, so it is unknown whether one of its volumes is backed by %s. Repair the pool, or remove the pool from this host: %s", pool, p.Name, err)
		}
		if name != "" {
			return name, nil
		}
	}
	return "", nil
}

// findOverlayInDir returns the name of a file in the directory whose backing chain contains the file with the ID;
// empty: there is none.
func findOverlayInDir(dir string, id hostfile.ID, is hostfile.Formats) (string, error) {
	entries, err := os.ReadDir(dir)
	if hostfile.IsFileMissingError(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		at := filepath.Join(dir, e.Name())
		chain := hostfile.BackingChainIDs(at, is.IsRaw(at, hostfile.IDAt(at)))
		if i := slices.Index(chain, id); i > 0 {
			return e.Name(), nil
		}
	}
	return "", nil
}

// volumeFile reads the file of a volume, which must be a regular file of its pool. If a definition has the volume as
// raw, volumeFile ignores the content, which the guest wrote.
func (b *Backend) volumeFile(ctx context.Context, c *conn.Conn, p storage.LocalVolume) (hostfile.VolumeFile, error) {
	f, err := hostfile.RunWithinLookupTimeout(ctx, func() (hostfile.VolumeFile, error) { return hostfile.ReadVolumeFile(p.Path()) })
	if hostfile.IsFileMissingError(err) {
		return f, hypervisor.NoVolumeError(p.Name, p.Pool.Name)
	}
	if errors.Is(err, image.ErrHeaderTruncated) || err == nil && f.Format != fleet.Raw {
		is, unseen := b.readFileFormats(ctx, c)
		if unseen != nil {
			return f, unseen
		}
		if is.IsRaw(p.Path(), f.ID) {
			return f.WithoutContent(), nil
		}
	}
	if err != nil {
		return f, translateReadError(p, err)
	}
	return f, nil
}

// checkUnusedVolume refuses a volume that has a user. Users are running and stopped domains of the host that name the
// volume as a disk, a backing file or a medium; volumes backed by this volume; and any QEMU, also on another host, that
// has the file open.
func (b *Backend) checkUnusedVolume(ctx context.Context, c *conn.Conn, p storage.LocalVolume, id hostfile.ID) error {
	users, err := b.volumeUsers(ctx, c, p, id)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return hypervisor.RefuseUsedVolume(p.Name, users[0].domain)
	}
	other, err := b.overlayOf(ctx, c, p, id)
	if err != nil {
		return err
	}
	if other != "" {
		return hypervisor.RefuseBackingVolume(p.Name, other)
	}
	return checkVolumeNotOpen(ctx, p)
}

// checkNotWrittenByGuest refuses a volume that a running guest may write to. Stopped guests do not write, and guests only read
// a medium.
func (b *Backend) checkNotWrittenByGuest(ctx context.Context, c *conn.Conn, p storage.LocalVolume, id hostfile.ID) error {
	users, err := b.volumeUsers(ctx, c, p, id)
	if err != nil {
		return err
	}
	for _, u := range users {
		if u.running && u.usage != domxml.UsedAsMedium {
			return hypervisor.RefuseVolumeOfRunningVM(p.Name, u.domain)
		}
	}
	return nil
}

// checkVolumeNotOpen returns an error if a QEMU has the volume open.
func checkVolumeNotOpen(ctx context.Context, p storage.LocalVolume) error {
	open, err := hostfile.RunWithinLookupTimeout(ctx, func() (bool, error) { return hostfile.IsOpenByQEMU(p.Path()) })
	if err != nil {
		return fmt.Errorf("check whether %s is in use: %w", p.Name, err)
	}
	if open {
		return fleet.Errorf(fleet.Conflict, "A QEMU process on this or another host has the volume %s open. Find that process, and stop it first.", p.Name)
	}
	return nil
}

// checkSameFormat returns libvirt's volume for a file with the given header. It fails if libvirt's format differs from
// the header's, because libvirt and QEMU use the format from the pool's last refresh.
func (b *Backend) checkSameFormat(ctx context.Context, c *conn.Conn, pool golibvirt.StoragePool, name string, h hostfile.ImageHeader) (golibvirt.StorageVol, error) {
	for refreshed := false; ; refreshed = true {
		volume, format, err := storage.VolumeFormat(ctx, c, pool, name)
		switch {
		case err == nil && format == h.Format:
			return volume, nil
		case refreshed && err == nil:
			return volume, fleet.Errorf(fleet.Conflict, "libvirt reports the volume %s as %s, but the header of the file has the format %s. The volume was not changed.", name, format, h.Format)
		case refreshed || err != nil && !conn.IsLibvirtCode(err, golibvirt.ErrNoStorageVol):
			return volume, err
		}
		b.pools.Refresh(ctx, c, pool)
	}
}

// readFileFormats reads the definitions of all domains now.
func (b *Backend) readFileFormats(ctx context.Context, c *conn.Conn) (hostfile.Formats, error) {
	all, err := b.readDomains(ctx, c)
	if err != nil {
		return hostfile.Formats{}, fmt.Errorf("read the disks of the host's VMs: %w", err)
	}
	return b.findFileUsers(ctx, hostfile.DecisionRecency, all).Formats, nil
}

// readImageSource reads the facts that decide whether an image may be created from a volume. It refuses a raw disk that
// looks like another format, because readers of the copy would use that format.
func (b *Backend) readImageSource(ctx context.Context, c *conn.Conn, p storage.LocalVolume) (hostfile.ImageHeader, error) {
	f, err := b.volumeFile(ctx, c, p)
	if err != nil {
		return hostfile.ImageHeader{}, err
	}
	if f.LooksLikeOtherFormat() {
		return hostfile.ImageHeader{}, hypervisor.RefuseImageOfRawDisk(p.Name, f.ContentFormat)
	}
	h, err := hostfile.RunWithinContext(ctx, func() (hostfile.ImageHeader, error) { return hostfile.InspectImage(p.Path()) })
	if err != nil {
		return h, translateReadError(p, err)
	}
	return h, nil
}
