package libvirt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/firmware"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// snapshotsDir has one directory for each VM with snapshots, beside libvirt's own state. The directory has tree.json,
// which lists every file in readable form, and the UEFI variables and TPM state of each snapshot. Disk and memory files
// are large, so they are in the pools of the disks.
const snapshotsDir = "/var/lib/libvirt/quantix/snapshots"

// snapshotDirOf returns the VM's snapshot directory.
func snapshotDirOf(id fleet.VMID) string { return filepath.Join(snapshotsDir, string(id)) }

// maxTreeBytes limits the size of tree.json. A tree with the maximum number of snapshots is far smaller.
const maxTreeBytes = 4 << 20

// readSnapshotTree reads the VM's snapshot tree. It returns nil if the VM has none.
func readSnapshotTree(id fleet.VMID) (*hypervisor.SnapTree, error) {
	f, err := hostfile.OpenImage(filepath.Join(snapshotDirOf(id), "tree.json"), false)
	if hostfile.IsFileMissingError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTreeBytes))
	if err != nil {
		return nil, err
	}
	t := &hypervisor.SnapTree{}
	if err := json.Unmarshal(text, t); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if t.VM != id {
		return nil, fmt.Errorf("the file %s belongs to another VM, %q", f.Name(), t.VM)
	}
	return t, nil
}

// writeSnapshotTree replaces the tree's file. It syncs the new file before it returns; a crash leaves the old file or
// the new one.
func writeSnapshotTree(t *hypervisor.SnapTree) error {
	text, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return err
	}
	dir := snapshotDirOf(t.VM)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".tree.*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, "tree.json")); err != nil {
		return err
	}
	return firmware.SyncDir(dir)
}

// createOverlays creates an empty overlay on each base, in the pools of the disks.
func (w *snapshotJob) createOverlays(ctx context.Context, next []hypervisor.SnapLayer) error {
	for _, n := range next {
		p, err := storage.LocalVolumeOf(n.Disk, w.in.Pools)
		if err != nil {
			return err
		}
		h, err := hostfile.RunWithinLookupTimeout(ctx, func() (hostfile.ImageHeader, error) { return hostfile.ReadHeader(n.Base, false) })
		if err != nil {
			return fmt.Errorf("read %s: %w", filepath.Base(n.Base), err)
		}
		pool, err := w.pools.CheckedPool(ctx, w.c, p.Pool)
		if err != nil {
			return err
		}
		text := volumeXML(filepath.Base(n.File), newVolumeSpec{format: "qcow2", size: h.Size, base: n.Base, baseFormat: "qcow2"})
		err = w.c.Do(ctx, func(l *golibvirt.Libvirt) error {
			_, err := l.StorageVolCreateXML(pool, text, 0)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeTrash removes files that no snapshot needs any more and updates the tree. The next job retries a failed
// removal.
func (w *snapshotJob) removeTrash(ctx context.Context) error {
	if len(w.tree.Trash) == 0 {
		return nil
	}
	needed := map[string]bool{}
	kept := *w.tree
	kept.Trash = nil
	for _, f := range kept.AllFiles() {
		needed[f] = true
	}
	var left []string
	for _, path := range w.tree.Trash {
		if needed[path] || !w.isSnapshotPath(path) {
			continue
		}
		_, err := hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, os.RemoveAll(path) })
		if err != nil {
			w.log.Warn("a file of a deleted snapshot cannot be removed yet", "vm", w.in.VM.ID, "file", path, "error", err)
			left = append(left, path)
		}
	}
	w.tree.Trash = left
	for _, p := range w.in.Pools {
		if !p.Spec.Kind.Info().FilePool {
			continue
		}
		if ref, err := storage.LookupPool(ctx, w.c, p.Name); err == nil {
			w.pools.Refresh(ctx, w.c, ref)
		}
		w.expirePoolCaches(p)
	}
	return w.save()
}

// isSnapshotPath reports whether the path may belong to a snapshot. Such a path is in the VM's snapshot directory, or
// beside a disk in one of the VM's pools.
func (w *snapshotJob) isSnapshotPath(path string) bool {
	if filepath.Dir(path) == snapshotDirOf(w.in.VM.ID) {
		return true
	}
	for _, p := range w.in.Pools {
		if p.Spec.Kind.Info().FilePool && filepath.Dir(path) == filepath.Clean(p.Spec.Path) {
			return strings.HasSuffix(path, ".qcow2") || strings.HasSuffix(path, ".mem")
		}
	}
	return false
}

// recordLayerSizes records the allocated size of the snapshots' read-only files.
func recordLayerSizes(t *hypervisor.SnapTree) {
	took := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return hostfile.AllocatedBytes(info, info.Size())
	}
	for i := range t.Nodes {
		for k := range t.Nodes[i].Layers {
			t.Nodes[i].Layers[k].Bytes = took(t.Nodes[i].Layers[k].File)
		}
		if t.Nodes[i].Memory != "" {
			t.Nodes[i].MemSize = took(t.Nodes[i].Memory)
		}
	}
}

// currentDiskPath returns the file that the VM writes to for a disk. For a VM with snapshots, this file is an overlay,
// and the disk's own volume is read-only.
func (a *applyRun) currentDiskPath(p storage.LocalVolume) (string, error) {
	t, err := readSnapshotTree(a.in.VM.ID)
	if err != nil || t == nil {
		return p.Path(), err
	}
	return cmp.Or(t.ActiveFile(p.Ref()), p.Path()), nil
}

// refuseSnapshotDiskRemoval refuses to remove disks from the definition if snapshots need the disks.
func (a *applyRun) refuseSnapshotDiskRemoval(disks []fleet.Disk) error {
	if len(disks) == 0 {
		return nil
	}
	t, err := readSnapshotTree(a.in.VM.ID)
	if err != nil || t == nil {
		return err
	}
	for _, d := range disks {
		if t.ActiveFile(d.Ref()) != "" {
			return hypervisor.RefuseVMWithSnapshots(a.in.VM.Name)
		}
	}
	return nil
}

// removeSnapshotFiles removes all files of the VM's snapshots and the snapshot tree. It keeps the files in own.
func removeSnapshotFiles(t *hypervisor.SnapTree, own map[string]bool) error {
	for _, f := range t.AllFiles() {
		if own[f] {
			continue
		}
		if err := os.RemoveAll(f); err != nil {
			return err
		}
	}
	return os.RemoveAll(snapshotDirOf(t.VM))
}
