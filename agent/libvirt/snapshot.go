package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// snapshotLimit limits the time to read domains and networks. A read of hundreds of them takes less than a second.
const snapshotLimit = 8 * time.Second

// Snapshot implements hypervisor.Telemetry. If libvirtd does not answer, it returns the last known state with the host
// disconnected, because the portal treats a missing object as deleted.
func (b *Backend) Snapshot(ctx context.Context, on hypervisor.Assigned) (wire.State, error) {
	state, err := b.snapshot(ctx, on)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.last = &state
		return state, nil
	case b.last == nil || errors.Is(ctx.Err(), context.Canceled):
		return wire.State{}, fmt.Errorf("read the host's state: %w", err)
	}
	away := *b.last
	away.Host.Connected, away.Host.Error = false, err.Error()
	return away, nil
}

// snapshot reads the host's full state within snapshotLimit.
func (b *Backend) snapshot(ctx context.Context, on hypervisor.Assigned) (wire.State, error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotLimit)
	defer cancel()
	b.assigned.note(on.Pools)
	c, err := b.reading(ctx)
	if err != nil {
		return wire.State{}, err
	}
	poolsDone := make(chan poolReports, 1)
	go func() { poolsDone <- b.reportPools(ctx, on.Pools) }()

	all, err := b.inventory(ctx, c)
	if err != nil {
		return wire.State{}, err
	}
	networks, err := b.networks(ctx, on.Networks)
	if err != nil {
		return wire.State{}, err
	}
	state := wire.State{
		VMs: []wire.VMReport{}, Discovered: []fleet.DiscoveredVM{}, Networks: networks,
		Host: fleet.HostStatus{Connected: true, Hypervisor: b.versionSeen(), Inventory: b.abilities(ctx)},
	}
	sizes := b.sizesOf(ctx, pathsOf(all...))
	b.disks.keepOnly(sizes)
	b.guests.look(b, all)
	addresses := b.addressesOf(ctx, all)
	seen := <-poolsDone
	changed := b.filtersChanged(ctx)
	state.Groups = groupsChanged(changed)
	for _, s := range all {
		st := b.statusOf(s, sizes, addresses[s.id])
		if s.ours {
			r := wire.VMReport{ID: s.id, Name: s.ref.Name, Generation: s.mark.Generation, Status: st, Proof: wire.Proof(s.id, s.secret), Stamped: s.mark.Generation}
			if s.applied != nil {
				r.SpecHash = s.applied.SpecHash
			}
			state.VMs = append(state.VMs, r)
		} else {
			state.Discovered = append(state.Discovered, fleet.DiscoveredVM{ID: s.id, Name: s.ref.Name, Status: st})
		}
	}
	slices.SortFunc(state.VMs, func(a, b wire.VMReport) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(state.Discovered, func(a, b fleet.DiscoveredVM) int { return cmp.Compare(a.ID, b.ID) })
	state.Pools, state.Host.DiscoveredPools = seen.assigned, seen.others
	b.markUsers(ctx, all, state.Pools, on.Hashed)
	return state, nil
}

// versionSeen returns the hypervisor version that libvirt reported last.
func (b *Backend) versionSeen() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version
}

// VM implements hypervisor.VMs.
func (b *Backend) VM(ctx context.Context, id fleet.VMID) (fleet.VMStatus, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	s, err := b.see(ctx, id)
	if is(err, golibvirt.ErrNoDomain) {
		return fleet.VMStatus{Power: fleet.Absent}, 0, nil
	}
	if err != nil {
		return fleet.VMStatus{}, 0, fmt.Errorf("read the VM: %w", err)
	}
	generation := s.mark.Generation
	if !s.ours {
		generation = 0
	}
	b.filtersChanged(ctx)
	return b.statusOf(s, b.sizesOf(ctx, pathsOf(s)), b.addresses.sight().value[id]), generation, nil
}

// see reads one domain over the backend's connection for state.
func (b *Backend) see(ctx context.Context, id fleet.VMID) (sighted, error) {
	c, err := b.reading(ctx)
	if err != nil {
		return sighted{}, err
	}
	return b.seeOn(ctx, c, id)
}

// seeOn reads one domain on the given connection.
func (b *Backend) seeOn(ctx context.Context, c *conn, id fleet.VMID) (sighted, error) {
	uuid, err := parseUUID(id)
	if err != nil {
		return sighted{}, err
	}
	var s sighted
	ref, err := call(ctx, c, func(l *golibvirt.Libvirt) (ref golibvirt.Domain, err error) {
		if ref, err = l.DomainLookupByUUID(uuid); err == nil {
			s.state, s.reason, err = l.DomainGetState(ref, 0)
		}
		return ref, err
	})
	if err != nil {
		return sighted{}, err
	}
	s.domain, err = b.look(ctx, c, ref)
	return s, err
}

// pathsOf returns the paths of the domains' current disks, of the disks in their specs, and of their media.
func pathsOf(all ...sighted) diskPaths {
	out := diskPaths{}
	for _, s := range all {
		for _, d := range s.now().disks {
			out[d.path] = anImage
		}
		for _, d := range s.spec {
			out[d.path] = anImage
		}
		for _, h := range s.held() {
			if _, known := out[h.path]; known && h.opaque {
				out[h.path] = aRaw
			}
		}
		for path, kind := range mediaOf(s) {
			if _, disk := out[path]; !disk && s.ours {
				out[path] = kind
			}
		}
	}
	return out
}
