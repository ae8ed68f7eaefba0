package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// unmanagedOverlays returns the overlays in use on the spec's disks that Quantix did not create, for example of a virsh
// snapshot.
func (d *domain) unmanagedOverlays() (out []fleet.Overlay) {
	if d.applied == nil {
		return nil
	}
	for _, s := range d.specDisks {
		own := storage.AppliedVolumePath(*d.applied, s.ref)
		if d.snapshotTree != nil {
			own = cmp.Or(d.snapshotTree.ActiveFile(s.ref), own)
		}
		if own != "" && s.path != own && filepath.IsAbs(s.path) {
			out = append(out, fleet.Overlay{Disk: s.ref, File: filepath.Base(s.path)})
		}
	}
	return out
}

// recordOverlays writes the virsh overlays and snapshot files to delete with the VM's disks into the VM's snapshot
// record, and returns the record. It must run before the domain is undefined, because only libvirt knows these files.
func (b *Backend) recordOverlays(ctx context.Context, c *conn.Conn, vm fleet.VM, pools []fleet.Pool, tree *hypervisor.SnapTree, disks bool) (*hypervisor.SnapTree, error) {
	if !disks {
		if tree != nil {
			tree.RemoveWithVM = nil
		}
		return tree, nil
	}
	var places []storage.LocalVolume
	for _, d := range vm.Spec.Disks {
		if p, err := storage.LocalVolumeOf(d.Ref(), pools); err == nil {
			places = append(places, p)
		}
	}
	s, err := b.readObservedDomain(ctx, c, vm.ID)
	if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) || err == nil && !s.managed {
		return tree, nil // an earlier attempt recorded the files before it undefined the domain
	}
	if err != nil {
		return nil, err
	}
	doomed, err := b.overlaysToDelete(ctx, c, s.ref, vm, places, tree)
	switch {
	case err != nil:
		return nil, err
	case tree == nil && len(doomed) == 0:
		return nil, nil
	case tree == nil:
		tree = &hypervisor.SnapTree{VM: vm.ID}
	}
	tree.RemoveWithVM = doomed
	if err := writeSnapshotTree(tree); err != nil {
		return nil, fmt.Errorf("nothing was deleted, because the host cannot record the files to delete: %w", err)
	}
	return tree, nil
}

// overlaysToDelete returns the overlays on the VM's disks that Quantix did not create, and the files of virsh
// snapshots. The disks' current content is in these files, so disks and overlays are deleted together. It refuses if
// the deletion would leave files behind.
func (b *Backend) overlaysToDelete(ctx context.Context, c *conn.Conn, ref golibvirt.Domain, vm fleet.VM, places []storage.LocalVolume, tree *hypervisor.SnapTree) ([]string, error) {
	defined := []*libvirtxml.Domain{}
	for _, flags := range []golibvirt.DomainXMLFlags{golibvirt.DomainXMLInactive, 0} {
		x, err := conn.ReadDefinition(ctx, c, ref, flags)
		if err != nil {
			return nil, err
		}
		defined = append(defined, x)
	}
	own := map[string]bool{}
	for _, f := range tree.AllFiles() {
		own[f] = true
	}
	for _, p := range places {
		own[p.Path()] = true
	}
	var out []string
	for _, p := range places {
		for _, x := range defined {
			d := domainDiskOf(x, p.Ref())
			if d == nil || p.IsInBlockPool() || own[domxml.DiskPathOf(d)] || !filepath.IsAbs(domxml.DiskPathOf(d)) {
				continue
			}
			above, err := hostfile.RunWithinLookupTimeout(ctx, func() ([]string, error) { return overlaysInChain(domxml.DiskPathOf(d), own), nil })
			if err != nil {
				return nil, err
			}
			if above == nil {
				return nil, hypervisor.RefuseLeftoverOverlay(vm.Name, domxml.DiskPathOf(d), "is not backed by "+p.Name)
			}
			out = append(out, above...)
		}
	}
	kept, err := virshSnapshotFiles(ctx, c, ref)
	if err != nil {
		return nil, err
	}
	for _, f := range kept {
		if !own[f] {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out, b.checkFilesDeletable(ctx, c, vm, out)
}

// overlaysInChain returns the overlays in the backing chain of the file top, down to but without the first file in own. It
// returns nil if the chain contains no file in own.
func overlaysInChain(top string, own map[string]bool) (out []string) {
	for at := top; len(out) < hostfile.MaxChainFiles; {
		out = append(out, at)
		refs := hostfile.ReadReferences(at)
		if len(refs) != 1 {
			return nil
		}
		if at = filepath.Clean(refs[0].Path); own[at] {
			return out
		}
	}
	return nil
}

// virshSnapshotFiles returns the files of the domain's external snapshots in libvirt.
func virshSnapshotFiles(ctx context.Context, c *conn.Conn, ref golibvirt.Domain) (out []string, err error) {
	names, err := virshSnapshotNames(ctx, c, ref)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) {
			snap, err := l.DomainSnapshotLookupByName(ref, name, 0)
			if err != nil {
				return "", err
			}
			return l.DomainSnapshotGetXMLDesc(snap, 0)
		})
		if err != nil {
			return nil, err
		}
		var x libvirtxml.DomainSnapshot
		if err := x.Unmarshal(text); err != nil {
			return nil, err
		}
		if x.Memory != nil && x.Memory.Snapshot == "external" {
			out = append(out, x.Memory.File)
		}
		if x.Disks == nil {
			continue
		}
		for _, d := range x.Disks.Disks {
			if path := domxml.SourcePath(d.Source); d.Snapshot == "external" && filepath.IsAbs(path) {
				out = append(out, path)
			}
		}
	}
	return out, nil
}

// checkFilesDeletable refuses files outside of the host's pools, and files that another domain uses.
func (b *Backend) checkFilesDeletable(ctx context.Context, c *conn.Conn, vm fleet.VM, files []string) error {
	if len(files) == 0 {
		return nil
	}
	all, err := b.readDomains(ctx, c)
	if err != nil {
		return err
	}
	for _, f := range files {
		dir, _, inPool := b.pools.PoolRecords().RecordContaining(f)
		if !inPool || filepath.Dir(f) != filepath.Clean(dir) {
			return hypervisor.RefuseLeftoverOverlay(vm.Name, f, "lies outside of the host's pools")
		}
		if is, err := hostfile.RunWithinContext(ctx, func() (pathClass, error) { return b.classifyPath(f, false) }); err != nil || is == pathReplaced {
			return preferFirstError(err, hypervisor.RefuseLeftoverOverlay(vm.Name, f, "is not a regular file"))
		}
		user, err := b.domainUsingVolume(ctx, all, vm.ID, storage.LocalVolume{Pool: fleet.Pool{Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: dir}}, Name: filepath.Base(f)})
		if err != nil {
			return err
		}
		if user != "" {
			return hypervisor.RefuseLeftoverOverlay(vm.Name, f, "is in use by another VM of the host")
		}
	}
	return nil
}
