package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// checkISO refuses an ISO volume that is not a disc image or is the disk of another VM. A medium that is already
// inserted is not checked.
func (a *applyRun) checkISO(ctx context.Context, old *observedDomain, in domxml.EditContent) error {
	if in.ISO == "" || old != nil && old.persistent.ISO == in.ISO {
		return nil
	}
	p, err := storage.LocalVolumeOf(*a.in.VM.Spec.ISO, a.in.Pools)
	if err != nil {
		return err
	}
	if err := a.pools.CheckPoolUsable(p.Pool.Name); err != nil {
		return err
	}
	h, err := hostfile.RunWithinContext(ctx, func() (hostfile.ImageHeader, error) { return hostfile.ReadHeader(p.Path(), false) })
	if err != nil {
		return translateReadError(p, err)
	}
	if err := h.CheckISO(p.Name); err != nil {
		return err
	}
	return a.checkNotGuestDisk(ctx, p)
}

// translateReadError translates the error of a failed read of a volume into an error for people.
func translateReadError(p storage.LocalVolume, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fleet.Errorf(fleet.NotFound, "The volume %s is not in the pool %s of this host. Choose another volume.", p.Name, p.Pool.Name)
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EINVAL), errors.Is(err, hostfile.ErrNotRegular):
		return fleet.Errorf(fleet.Conflict, "The volume %s is not a plain file of the pool %s: the agent neither reads nor changes links and devices. Copy the file itself into the pool.", p.Name, p.Pool.Name)
	}
	return fmt.Errorf("read the volume %s: %w", p.Name, err)
}

// specWithMediaPaths returns the planned spec with paths on this host instead of the volumes of floppies and shared
// folders.
func (a *applyRun) specWithMediaPaths(plan hypervisor.DefinitionEdit) (fleet.VMSpec, error) {
	var wrong error
	spec := plan.WithMergedLists(a.in.VM.Spec).MapMedia(func(m fleet.Medium) fleet.Volref {
		part, _, _ := strings.Cut(m.Field, "[")
		if m.PoolID == "" || !plan.SetsField(part) {
			return m.Volref // a path outside all pools stays unchanged
		}
		p, err := storage.LocalVolumeOf(m.Volref, a.in.Pools)
		if err == nil && p.IsInBlockPool() {
			err = fleet.Errorf(fleet.Conflict, "The pool %s is a block pool, which has no files. Choose a volume of another pool.", p.Pool.Name)
		}
		if err != nil {
			wrong = cmp.Or(wrong, err)
			return m.Volref
		}
		return fleet.Volref{Volume: p.Path()}
	})
	return spec, wrong
}

// checkFloppiesAndShares runs the checks of checkISO for floppies and shared folders.
func (a *applyRun) checkFloppiesAndShares(ctx context.Context, old *observedDomain, in domxml.EditContent) error {
	local := in.Spec.Media()
	for i, m := range in.WithMergedLists(a.in.VM.Spec).Media() {
		part, _, _ := strings.Cut(m.Field, "[")
		if part == "iso" || m.PoolID == "" || !in.SetsField(part) || old != nil && domxml.SpecHasMedium(old.persistent.FieldValues, m, local[i].Volume) {
			continue
		}
		p, err := storage.LocalVolumeOf(m.Volref, a.in.Pools)
		if err != nil {
			return err
		}
		if err := a.pools.CheckPoolUsable(p.Pool.Name); err != nil {
			return err
		}
		if m.Kind == fleet.MediumFolder {
			err = a.checkSharedFolder(ctx, p)
		} else {
			err = a.checkMediumFile(ctx, p, m.Kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *applyRun) checkMediumFile(ctx context.Context, p storage.LocalVolume, kind fleet.MediumKind) error {
	h, err := hostfile.RunWithinContext(ctx, func() (hostfile.ImageHeader, error) { return hostfile.ReadHeader(p.Path(), false) })
	switch {
	case err != nil:
		return translateReadError(p, err)
	case kind == fleet.MediumISO:
		err = h.CheckISO(p.Name)
	case h.Format != "raw" || h.Size == 0:
		err = fleet.Errorf(fleet.Conflict, "The volume %s is not a plain file or is empty. Choose another volume.", p.Name)
	case kind == fleet.MediumFloppy && h.Size > fleet.MaxFloppyBytes:
		err = fleet.Errorf(fleet.Conflict, "The volume %s is larger than a floppy, which has 2.88 MB at most. Choose another volume.", p.Name)
	}
	if err != nil {
		return err
	}
	return a.checkNotGuestDisk(ctx, p)
}

// checkSharedFolder refuses a path that is not a directory directly in the pool's directory.
func (a *applyRun) checkSharedFolder(ctx context.Context, p storage.LocalVolume) error {
	info, err := hostfile.RunWithinContext(ctx, func() (os.FileInfo, error) { return os.Lstat(p.Path()) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fleet.Errorf(fleet.NotFound, "There is no folder %s in the pool %s of this host. Create the folder first.", p.Name, p.Pool.Name)
	case err != nil:
		return fmt.Errorf("read the folder %s: %w", p.Name, err)
	case !info.IsDir():
		return fleet.Errorf(fleet.Conflict, "%s is not a folder of the pool %s. Files and links cannot be shared. Choose a folder.", p.Name, p.Pool.Name)
	}
	return nil
}

// setLiveBalloon sets the running guest's memory balloon to the size in the persistent definition. A guest without a
// balloon device gets the size at the next start.
func (a *applyRun) setLiveBalloon(ctx context.Context, ref golibvirt.Domain, kept, live *libvirtxml.Domain) error {
	if b := live.Devices.MemBalloon; b == nil || b.Model == "none" {
		return nil
	}
	want, has := domxml.ConfiguredMemoryKiB(live), uint64(0)
	if c := live.CurrentMemory; c != nil {
		has = domxml.ToKiB(c.Value, c.Unit)
	}
	var s fleet.VMSpec
	if domxml.ReadBalloonSize(kept, &s); s.Memory.BalloonMiB > 0 {
		want = min(want, uint64(s.Memory.BalloonMiB)*1024)
	}
	if want == has {
		return nil
	}
	return a.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainSetMemoryFlags(ref, want, uint32(golibvirt.DomainMemLive))
	})
}
