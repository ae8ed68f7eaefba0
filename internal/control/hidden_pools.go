package control

import (
	"context"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// Results of use cases have other IDs in place of pools that the actor may not see: see store.HidePools. Within this
// package, VMs have the pools' own IDs: see query.VMWithPools.

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
