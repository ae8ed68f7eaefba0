package storage

import (
	"context"
	"path/filepath"
	"strings"

	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// ReadFileID reads the file's identity without the cache, because a cached identity may belong to an earlier file.
func (p LocalVolume) ReadFileID(ctx context.Context) (hostfile.ID, error) {
	if !filepath.IsAbs(p.Path()) {
		return hostfile.ID{}, nil
	}
	return hostfile.RunWithinContext(ctx, func() (hostfile.ID, error) { return hostfile.IDAt(p.Path()), nil })
}

// PartialSuffix marks an unfinished disk. A disk is created under a name with this suffix and then renamed, so a name
// without the suffix always means a complete disk, even after a crash. The next attempt removes the unfinished file of
// a failed one. The file pools of Quantix are directories, so the agent renames the file; libvirt cannot rename
// volumes.
const PartialSuffix = fleet.PartialSuffix

// LocalVolume is a volume of a pool on this host.
type LocalVolume struct {
	Pool   fleet.Pool
	Name   string
	Number int          // number of the disk among the VM's disks, from 1
	Size   int64        // requested size in bytes; 0: the image's size
	Image  *LocalVolume // the image to clone

	Format      string // of the disk's file: see fleet.Disk.FileFormat
	Preexisting bool   // the volume existed before the VM: Quantix never creates, changes or deletes it
	Shared      bool   // other VMs may use the volume, too
	Encrypted   bool   // the volume is encrypted
	InLibrary   bool   // the image is in the library, so it may back other disks, too
	Overlay     bool   // the disk is an overlay of the image

	NoImage error // why the image is unavailable on this host; matters only until the disk is created
}

// Path returns the volume's file. For a block pool it returns the volume's address, which is an absolute path only for
// a device.
func (p LocalVolume) Path() string {
	if kind := BlockVolumeMappingOf(p.Pool.Spec); kind != nil {
		return kind.address(p.Pool, p.Name)
	}
	return filepath.Join(p.Pool.Spec.Path, p.Name)
}

// IsInBlockPool reports whether the volume is in a block pool.
func (p LocalVolume) IsInBlockPool() bool { return BlockVolumeMappingOf(p.Pool.Spec) != nil }

// Ref returns the pool's ID and the volume's name.
func (p LocalVolume) Ref() fleet.Volref { return fleet.Volref{PoolID: p.Pool.ID, Volume: p.Name} }

// WithUnfinishedName returns the volume under its unfinished name.
func (p LocalVolume) WithUnfinishedName() LocalVolume {
	return LocalVolume{Pool: p.Pool, Name: p.Name + PartialSuffix}
}

// LocalVolumeOf returns the volume on this host that ref names. It fails if the volume's name is invalid or the
// volume's pool is not in pools.
func LocalVolumeOf(ref fleet.Volref, pools []fleet.Pool) (LocalVolume, error) {
	if ref.Volume == "" || filepath.Base(ref.Volume) != ref.Volume || ref.Volume == "." || ref.Volume == ".." {
		return LocalVolume{}, fleet.Errorf(fleet.Invalid, "%q is not a valid volume name.", ref.Volume)
	}
	for _, p := range pools {
		if p.ID == ref.PoolID {
			return LocalVolume{Pool: p, Name: ref.Volume}, nil
		}
	}
	return LocalVolume{}, fleet.Errorf(fleet.Conflict, "The pool of the volume %s is not assigned to this host. Assign the pool first.", ref.Volume)
}

// LocalPaths returns the paths of the media. It leaves out media whose pool is not assigned to this host.
func LocalPaths(media []fleet.Medium, pools []fleet.Pool) (out []string) {
	for _, m := range media {
		if v, err := LocalVolumeOf(m.Volref, pools); err == nil {
			out = append(out, filepath.Clean(v.Path()))
		}
	}
	return out
}

// WithFinalName returns the volume under its final name.
func (p LocalVolume) WithFinalName() LocalVolume {
	p.Name = strings.TrimSuffix(p.Name, PartialSuffix)
	return p
}
