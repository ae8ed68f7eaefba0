package query

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// HostDevicesOf returns the host devices assigned to VMs, by device name. It requires permission to see the
// infrastructure.
func (b *Queries) HostDevicesOf(ctx context.Context, a fleet.Actor, id fleet.HostID) (map[string]fleet.NamedVM, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return nil, err
	}
	rows, err := b.store.HostDevicesOn(ctx, db.HostDevicesOnParams{Host: string(id), Every: true})
	out := map[string]fleet.NamedVM{}
	for _, r := range rows {
		if r.VM != "" {
			out[r.Device] = fleet.NamedVM{ID: fleet.VMID(r.VMID), Name: r.VM}
		}
	}
	return out, err
}
