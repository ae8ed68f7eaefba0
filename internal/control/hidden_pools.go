package control

import (
	"context"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// The use cases below are those of query.Queries, with the IDs of pools that the actor may not see replaced: see
// store.HidePools. Within this package, VMs have the pools' own IDs.

// GetVM returns one VM, or NotFoundError if the actor may not see the VM's project.
func (c *Control) GetVM(ctx context.Context, a fleet.Actor, id fleet.VMID) (fleet.VMView, error) {
	vm, err := c.Queries.GetVM(ctx, a, id)
	return c.hidePools(ctx, a, vm, err)
}

// ListVMs returns one page of VMs: see query.Queries.ListVMs.
func (c *Control) ListVMs(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	page, err := c.Queries.ListVMs(ctx, a, q)
	if err == nil {
		err = c.store.HidePools(ctx, a, page.Items)
	}
	return page, err
}

// shownVM returns the result of a use case as the actor may see it.
func (c *Control) shownVM(ctx context.Context, a fleet.Actor, vm fleet.VMView, err error) (fleet.VMView, error) {
	return c.hidePools(ctx, a, store.RedactVM(a, vm), err)
}

func (c *Control) hidePools(ctx context.Context, a fleet.Actor, vm fleet.VMView, err error) (fleet.VMView, error) {
	one := []fleet.VMView{vm}
	if err == nil {
		err = c.store.HidePools(ctx, a, one)
	}
	return one[0], err
}

// revealPools returns a request about the VM with the pools' own IDs.
func revealPools[T any](ctx context.Context, c *Control, a fleet.Actor, id fleet.VMID, in T) (T, error) {
	if store.SeesHosts(a) {
		return in, nil
	}
	vm, err := store.GetVM(ctx, c.store.Queries, a, id)
	if err != nil {
		return in, err
	}
	return store.RevealPools(a, vm, in)
}

// revealEdit is revealPools for an edit.
func revealEdit(ctx context.Context, c *Control, a fleet.Actor, id fleet.VMID, in UpdateVM) (UpdateVM, error) {
	if in.Spec != nil {
		spec, err := revealPools(ctx, c, a, id, *in.Spec)
		if err != nil {
			return in, err
		}
		in.Spec = &spec
	}
	if in.grow != nil {
		grow := *in.grow
		var err error
		if grow.disk, err = revealPools(ctx, c, a, id, grow.disk); err != nil {
			return in, err
		}
		in.grow = &grow
	}
	return in, nil
}
