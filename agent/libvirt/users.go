package libvirt

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/agent/libvirt/watch"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// fileUser is a domain that uses a file.
type fileUser struct {
	id     fleet.VMID
	name   string
	usage  domxml.FileUse
	shared bool // other domains may write to the file
}

// fileUsers maps files to the domains of the host that use them. Keys are file identities, and paths for storage that
// does not answer.
type fileUsers struct {
	byID   map[hostfile.ID][]fileUser
	byPath map[string][]fileUser
	hostfile.Formats
}

// fileWatches caches facts about files between reports.
type fileWatches struct {
	diskChains    hostfile.DirCache[[]hostfile.ID]    // of the domains' disks and media
	volumes       hostfile.DirCache[hostfile.Version] // of the pools' volumes
	backingChains hostfile.DirCache[[]hostfile.ID]    // backing chains of volumes, without the volumes themselves
	poolDirWatch  watch.Value[storage.Locations]
}

// findFileUsers returns the files that the domains use. It finds a file under every path that a definition may use for
// it.
func (b *Backend) findFileUsers(ctx context.Context, how hostfile.CacheRecency, all []observedDomain) fileUsers {
	type use struct {
		domxml.DiskFile
		fileUser
	}
	var uses []use
	opaque := map[string]bool{}
	dirs := b.poolLocationsFor(ctx, how, all)
	for _, s := range all {
		disks := s.diskFiles()
		for _, f := range s.allFiles() {
			if !slices.ContainsFunc(disks, func(h domxml.DiskFile) bool { return h.Path == f }) {
				uses = append(uses, use{domxml.DiskFile{Path: dirs.Path(f), Opaque: true}, fileUser{id: s.id, name: s.ref.Name, usage: domxml.UsedAsMedium}})
			}
		}
		for _, h := range disks {
			h.Path = dirs.Path(h.Path)
			uses = append(uses, use{h, fileUser{s.id, s.ref.Name, h.FileUsage(), h.Shared}})
		}
	}
	paths := make([]string, len(uses))
	for i, u := range uses {
		paths[i] = u.Path
		old, twice := opaque[u.Path]
		opaque[u.Path] = u.Opaque && (old || !twice)
	}
	known := b.fileWatches.diskChains.Read(ctx, how, paths, func(path string) []hostfile.ID { return hostfile.BackingChainIDs(path, opaque[path]) })
	b.fileWatches.diskChains.KeepOnly(paths)
	out := fileUsers{byID: map[hostfile.ID][]fileUser{}, byPath: map[string][]fileUser{}}
	for _, u := range uses {
		out.byPath[u.Path] = append(out.byPath[u.Path], u.fileUser)
		for i, id := range known[u.Path] {
			if i == 0 && u.usage != domxml.UsedAsMedium {
				out.AddFile(id, u.Opaque)
			}
			if i > 0 && u.usage == domxml.UsedAsDisk {
				u.usage = domxml.UsedAsBacking
			}
			out.byID[id] = append(out.byID[id], u.fileUser)
		}
	}
	return out
}

// usersOfVolume returns the users of a volume's file.
func (u fileUsers) usersOfVolume(pool, volume, path string, id hostfile.ID) []fileUser {
	out := slices.Concat(u.byPath[path], u.byPath[domxml.VolumeRefPath(pool, volume)])
	if id != (hostfile.ID{}) {
		out = append(out, u.byID[id]...)
	}
	return out
}

// domainUsingVolume returns the name of a domain that uses the file, other than the VM's own domain; empty: there is none. It
// ignores domains that share an existing shareable disk, and overlays that an administrator created on a disk of the
// VM.
func (b *Backend) domainUsingVolume(ctx context.Context, all []observedDomain, vm fleet.VMID, p storage.LocalVolume) (string, error) {
	id, err := p.ReadFileID(ctx)
	if err != nil {
		return "", err
	}
	users := b.findFileUsers(ctx, hostfile.DecisionRecency, all).usersOfVolume(p.Pool.Name, p.Name, p.Path(), id)
	mine := slices.ContainsFunc(users, func(u fileUser) bool { return u.id == vm && u.usage == domxml.UsedAsDisk })
	for _, u := range users {
		if u.id == vm || mine && u.usage == domxml.UsedAsBacking || p.Shared && u.shared && u.usage == domxml.UsedAsDisk {
			continue
		}
		return u.name, nil
	}
	return "", nil
}

// checkNotGuestDisk refuses a file that is a domain's disk or in a disk's backing chain, because the content belongs to
// that guest.
func (a *applyRun) checkNotGuestDisk(ctx context.Context, p storage.LocalVolume) error {
	return a.checkNotUsedAsDisk(ctx, p, false)
}

// checkNotUsedAsDisk is checkNotGuestDisk, but with library set it accepts an image that backs disks. Images in the library
// are read-only, so they may back disks.
func (a *applyRun) checkNotUsedAsDisk(ctx context.Context, p storage.LocalVolume, library bool) error {
	all, err := a.readDomains(ctx, a.c)
	if err != nil {
		return err
	}
	id, err := p.ReadFileID(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(a.findFileUsers(ctx, hostfile.DecisionRecency, all).usersOfVolume(p.Pool.Name, p.Name, p.Path(), id), func(u fileUser) bool {
		return u.usage == domxml.UsedAsDisk || u.usage == domxml.UsedAsBacking && !library
	}) {
		return fleet.Errorf(fleet.Conflict, "The volume %s is used by a disk of a VM on this host, so the volume can be neither cloned nor inserted into a drive. Choose a volume that no VM uses.", p.Name)
	}
	return nil
}

// addVolumeUsers sets the users and the modification times of the volumes.
func (b *Backend) addVolumeUsers(ctx context.Context, all []observedDomain, pools []wire.PoolReport, hashed map[fleet.Volref]hypervisor.VolumeChecksum) {
	var paths []string
	for _, p := range pools {
		for _, v := range p.Status.Volumes {
			paths = append(paths, v.Path)
		}
	}
	ids := b.fileWatches.volumes.Read(ctx, hostfile.ReportRecency, paths, hostfile.VersionAt)
	b.fileWatches.volumes.KeepOnly(paths)
	users := b.findFileUsers(ctx, hostfile.ReportRecency, all)
	for i := range pools {
		volumes := slices.Clone(pools[i].Status.Volumes) // the pool's cache keeps the original slice
		for k := range volumes {
			if v := &volumes[k]; users.Raw[ids[v.Path].ID] {
				*v = hostfile.RawVolumeListing(*v, ids[v.Path].Bytes)
			}
		}
		pools[i].Status.Volumes, pools[i].Status.ProvisionedBytes = volumes, storage.UnallocatedBytes(volumes)
	}
	bases := b.backedVolumes(ctx, pools)
	for i := range pools {
		volumes := pools[i].Status.Volumes
		for k := range volumes {
			v := &volumes[k]
			id := ids[v.Path]
			addUsersToVolume(v, users.usersOfVolume(pools[i].Name, v.Name, v.Path, id.ID), bases[id.ID], id.Modified)
			if h, ok := hashed[fleet.Volref{PoolID: pools[i].ID, Volume: v.Name}]; ok && id.ID != (hostfile.ID{}) {
				hostfile.AddChecksum(v, h, id)
			}
		}
	}
}

// backedVolumes maps each backing file to the names of the volumes that it backs.
func (b *Backend) backedVolumes(ctx context.Context, pools []wire.PoolReport) map[hostfile.ID][]string {
	var paths []string
	for _, p := range pools {
		for _, v := range p.Status.Volumes {
			if v.Backing != "" {
				paths = append(paths, v.Path)
			}
		}
	}
	chains := b.fileWatches.backingChains.Read(ctx, hostfile.ReportRecency, paths, func(path string) []hostfile.ID { return hostfile.BackingChainIDs(path, false) })
	b.fileWatches.backingChains.KeepOnly(paths)
	out := map[hostfile.ID][]string{}
	for _, path := range paths {
		for _, id := range chains[path][min(1, len(chains[path])):] {
			out[id] = append(out[id], filepath.Base(path))
		}
	}
	return out
}

// addUsersToVolume sets the users and the modification time of the volume.
func addUsersToVolume(v *fleet.Volume, users []fileUser, bases []string, modified time.Time) {
	for _, u := range users {
		of := &v.UsedBy
		if u.usage == domxml.UsedAsMedium {
			of = &v.InDrive
		}
		if !slices.Contains(*of, u.id) {
			*of = append(*of, u.id)
		}
	}
	for _, id := range v.UsedBy {
		if !slices.ContainsFunc(users, func(u fileUser) bool { return u.id == id && u.usage == domxml.UsedAsDisk }) {
			v.BackingUsers = append(v.BackingUsers, id)
		}
	}
	slices.Sort(v.UsedBy)
	slices.Sort(v.BackingUsers)
	slices.Sort(v.InDrive)
	slices.Sort(bases)
	v.BackingUsers = slices.DeleteFunc(v.BackingUsers, func(id fleet.VMID) bool { i := slices.Index(v.UsedBy, id); return i < 0 || i >= fleet.MaxUsers })
	v.UsedBy, v.InDrive, v.BaseOf = v.UsedBy[:min(len(v.UsedBy), fleet.MaxUsers)], v.InDrive[:min(len(v.InDrive), fleet.MaxUsers)], bases[:min(len(bases), fleet.MaxUsers)]
	if len(v.UsedBy) > 0 {
		v.NotImageReason = "" // a guest may be writing to the file
	}
	if at := modified.UTC().Truncate(fleet.ModifiedResolution); !modified.IsZero() && len(v.UsedBy) == 0 {
		v.ModifiedAt = &at
	}
}

// poolLocationsFor reads the pools from libvirt only if a domain names a disk by pool and volume. It does not wait for
// hanging storage.
func (b *Backend) poolLocationsFor(ctx context.Context, how hostfile.CacheRecency, all []observedDomain) storage.Locations {
	if !slices.ContainsFunc(all, func(s observedDomain) bool {
		return slices.ContainsFunc(s.allFiles(), func(f string) bool { return strings.HasPrefix(f, domxml.VolumeRefPrefix) })
	}) {
		return nil
	}
	if how.Age == 0 {
		b.fileWatches.poolDirWatch.Expire()
	}
	return b.fileWatches.poolDirWatch.Read(ctx, 10*time.Second, storage.ReadTimeout, func() (storage.Locations, error) {
		c, err := b.daemon.Dial(b.daemon.RunContext)
		if err != nil {
			return nil, err
		}
		defer c.Disconnect()
		return conn.Call(b.daemon.RunContext, c, storage.ListLocations)
	}).Value
}
