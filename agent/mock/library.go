package mock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// dataText returns the text that represents the file's bytes. A copy has the same text.
func (f *file) dataText() string {
	if f.bytes != "" {
		return f.bytes
	}
	return fmt.Sprintf("%s %s %d", f.Name, f.Format, f.CapacityBytes)
}

// chainDataText returns the text that represents a disk's content with its backing chain. The caller holds h.mu.
func (h *Host) chainDataText(f *file) string {
	for at := f; at != nil; at = h.fileAt(at.Backing) {
		if at.bytes != "" {
			return at.bytes
		}
	}
	return f.dataText()
}

func (f *file) dataDigest() string {
	sum := sha256.Sum256([]byte(f.dataText()))
	return hex.EncodeToString(sum[:])
}

// fileStamp identifies the file, its content and the number of external changes.
func (f *file) fileStamp() string {
	return fmt.Sprintf("%s %s #%d", f.identityText(), f.dataText(), f.externalChanges)
}

// addChecksum adds the stored checksum to the volume, unless the file changed while no VM used the file.
func (f *file) addChecksum(v *fleet.Volume, sum hypervisor.VolumeChecksum) {
	was, _, _ := strings.Cut(sum.FileStamp, " #")
	now, _, _ := strings.Cut(f.fileStamp(), " #")
	if was != now || f.fileStamp() == sum.FileStamp || len(v.UsedBy)+len(v.InDrive) > 0 {
		sum.AddTo(v, was == now)
	}
}

// refuseFileOfRunningGuest refuses a file that a running guest uses. The caller holds h.mu.
func (h *Host) refuseFileOfRunningGuest(p *pool, f *file) error {
	for _, host := range h.hostsSharingPool(p) {
		for _, g := range host.guests {
			if g.isRunning() && slices.ContainsFunc(g.live.disks(), func(at string) bool { return host.volumeAt(at) == &f.Volume }) {
				return hypervisor.RefuseVolumeOfRunningVM(f.Name, g.name)
			}
		}
	}
	return nil
}

// backsAnyDisk reports whether a domain's disk is backed by the file. The caller holds h.mu.
func (h *Host) backsAnyDisk(p *pool, f *file) bool {
	users := h.diskUsers()
	for _, other := range p.dir.files {
		if other.Backing == path.Join(p.spec.Path, f.Name) && len(users[path.Join(p.spec.Path, other.Name)]) > 0 {
			return true
		}
	}
	return false
}

// checkSelfContained refuses a file that cannot be the source of an image.
func (f *file) checkSelfContained() error {
	switch {
	case f.Backing != "" || f.hasExternalData:
		return fleet.Errorf(fleet.Conflict, "The image %s refers to another file, so the image cannot be cloned.", f.Name)
	case f.contentFormat != "":
		return hypervisor.RefuseImageOfRawDisk(f.Name, f.contentFormat)
	}
	return nil
}

// HashVolume implements hypervisor.Storage.
func (h *Host) HashVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	look := func(sum *hypervisor.VolumeChecksum) func(*pool, *file) error {
		return func(p *pool, f *file) error {
			if f == nil {
				return hypervisor.NoVolumeError(in.Name, in.Pool.Name)
			}
			if err := f.checkSelfContained(); err != nil {
				return err
			}
			*sum = hypervisor.VolumeChecksum{Ref: in.Ref(), SHA256: f.dataDigest(), FileStamp: f.fileStamp()}
			return h.refuseFileOfRunningGuest(p, f)
		}
	}
	var before, after hypervisor.VolumeChecksum
	if err := h.withVolumeOfJob(ctx, in, look(&before)); err != nil {
		return err
	}
	for s := range 10 {
		in.Progress(10*s, "reading "+in.Name)
		if err := h.waitDelay(ctx, 0.1); err != nil {
			return err
		}
	}
	if err := h.withVolumeOfJob(ctx, in, look(&after)); err != nil {
		return err
	}
	if before != after {
		return hypervisor.RefuseChangedVolume(in.Name)
	}
	if err := in.RecordChecksums(after); err != nil {
		return err
	}
	if want, has := strings.CutPrefix(in.Params.Checksum, "sha256:"); has && want != after.SHA256 {
		return hypervisor.VolumeDiffersFromImageError(in.Name, after.SHA256, want)
	}
	return nil
}

// CopyVolume implements hypervisor.Storage.
func (h *Host) CopyVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	of := in.Pool
	if in.SourcePool != nil {
		of = *in.SourcePool
	}
	switch {
	case in.Params.SourcePool != "" && (in.SourcePool == nil || in.SourcePool.ID != in.Params.SourcePool):
		return hypervisor.NoSourcePoolError()
	case !fleet.IsVolumeName(in.Params.Source) || of.ID == in.Pool.ID && in.Params.Source == in.Name:
		return fleet.Errorf(fleet.Invalid, "%q is not a volume that can be copied.", in.Params.Source)
	}
	if err := h.options.Roots.CheckDir(of.Spec.Path); err != nil {
		return err
	}
	name := in.Params.Source
	if s := in.Params.Snapshot; s != nil {
		file, release, err := h.readSnapshot(*s, fleet.Volref{PoolID: of.ID, Volume: name})
		if err != nil {
			return err
		}
		defer release()
		name = file
	}
	var source hypervisor.VolumeChecksum
	data := ""
	err := h.makeVolume(ctx, in, func(*pool) (fleet.Volume, error) {
		none := fleet.Volume{}
		p, err := h.activePool(of.ID, []fleet.Pool{of})
		if err != nil {
			return none, err
		}
		from, ok := p.dir.files[name]
		if !ok {
			return none, hypervisor.NoVolumeError(name, of.Name)
		}
		// A snapshot's file may be copied while the guest runs, because the guest does not write to the file.
		if err := h.refuseFileOfRunningGuest(p, from); err != nil && in.Params.Snapshot == nil {
			return none, err
		}
		want, has := strings.CutPrefix(in.Params.Checksum, "sha256:")
		source, data = hypervisor.VolumeChecksum{Ref: fleet.Volref{PoolID: of.ID, Volume: from.Name}, SHA256: from.dataDigest(), FileStamp: from.fileStamp()}, from.dataText()
		switch {
		case in.Params.Flatten:
			if _, there := p.dir.files[path.Base(from.Backing)]; from.hasExternalData || from.Backing != "" && (path.Dir(from.Backing) != p.spec.Path || !there) {
				return none, fleet.Errorf(fleet.Conflict, "The disk %s is backed by %s, which is not a file of the pool %s, so no image can be created from the disk.", from.Name, from.Backing, of.Name)
			}
			data = h.chainDataText(from) + " flat"
			return fleet.Volume{Format: "qcow2", CapacityBytes: from.CapacityBytes, AllocBytes: from.AllocBytes}, nil
		case from.Backing != "" || from.hasExternalData:
			return none, fleet.Errorf(fleet.Conflict, "The image %s refers to another file, so the image cannot be cloned.", from.Name)
		case has && want != source.SHA256:
			return none, hypervisor.RefuseDifferentCopy(from.Name, source.SHA256, want)
		}
		return fleet.Volume{Format: from.Format, CapacityBytes: from.CapacityBytes, AllocBytes: from.AllocBytes}, nil
	})
	if err != nil {
		return err
	}
	var own hypervisor.VolumeChecksum
	err = h.withVolumeOfJob(ctx, in, func(_ *pool, f *file) error {
		if f == nil {
			return hypervisor.NoVolumeError(in.Name, in.Pool.Name)
		}
		if data != "" { // otherwise an earlier job created the volume
			f.bytes = data
		}
		own = hypervisor.VolumeChecksum{Ref: in.Ref(), SHA256: f.dataDigest(), FileStamp: f.fileStamp()}
		return nil
	})
	switch {
	case err != nil:
		return err
	case in.Params.Flatten || source.SHA256 == "":
		return in.RecordChecksums(own)
	}
	return in.RecordChecksums(source, own)
}

func errDiskInUse(name string) error {
	return fleet.Errorf(fleet.Conflict, "The volume %s is used by a disk of a VM on this host, so the volume can be neither cloned nor inserted into a drive. Choose a volume that no VM uses.", name)
}
