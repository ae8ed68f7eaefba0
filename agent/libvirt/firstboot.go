package libvirt

import (
	"context"
	"fmt"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// createSeed sets in.Seed if the spec has first-boot data and the definition uses it. It creates the seed file if the
// file is missing. defined is the first-boot setting of the current definition.
func (a *applyRun) createSeed(ctx context.Context, defined fleet.VMFirstBoot, in *domxml.EditContent) error {
	want := a.in.VM.Spec.FirstBoot
	if want.Kind == "" || !in.SetsField("firstBoot") && defined != want {
		return nil
	}
	file, err := a.seeds.PathOf(a.in.VM.ID, want)
	if err != nil {
		return err
	}
	in.Seed = file
	have, err := hostfile.RunWithinContext(ctx, func() (bool, error) { return a.seeds.Exists(a.in.VM.ID, want) })
	if err != nil || have {
		return err
	}
	if a.in.FirstBoot == nil {
		return fleet.Errorf(fleet.Conflict, "The VM's first-boot data is not on this host. Enter the first-boot data again.")
	}
	files, err := a.in.FirstBoot(ctx)
	if err != nil {
		return err
	}
	_, err = hostfile.RunWithinContext(ctx, func() (struct{}, error) { return struct{}{}, a.seeds.Write(a.in.VM.ID, want, files) })
	if err != nil {
		return fmt.Errorf("create the first-boot seed: %w", err)
	}
	return nil
}

// removeUnusedSeeds removes seeds that no definition, running guest or snapshot with memory uses.
func (a *applyRun) removeUnusedSeeds(ctx context.Context, x *libvirtxml.Domain, live *domxml.Hardware) error {
	keep := []string{domxml.SeedPathOf(x)}
	tree, err := hostfile.RunWithinContext(ctx, func() (*hypervisor.SnapTree, error) { return readSnapshotTree(a.in.VM.ID) })
	if err != nil {
		return nil //nolint:nilerr // all seeds stay, because an unknown snapshot may use any of them
	}
	if tree != nil {
		for _, n := range tree.Nodes {
			keep = append(keep, n.Seed)
		}
		if w := tree.Work; w != nil && w.Node != nil {
			keep = append(keep, w.Node.Seed)
		}
	}
	if live != nil {
		keep = append(keep, live.Seed)
	}
	return a.removeOtherSeeds(ctx, a.in.VM.ID, keep...)
}

// removeOtherSeeds removes the VM's first-boot seeds except the given files.
func (b *Backend) removeOtherSeeds(ctx context.Context, id fleet.VMID, files ...string) error {
	_, err := hostfile.RunWithinContext(ctx, func() (struct{}, error) { return struct{}{}, b.seeds.RemoveExcept(id, files...) })
	if err != nil {
		return fmt.Errorf("remove the first-boot seed: %w", err)
	}
	return nil
}
