package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/network"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// HostState implements hypervisor.Telemetry. If libvirtd does not answer, it returns the last known state with the host
// disconnected, because the portal treats a missing object as deleted.
func (b *Backend) HostState(ctx context.Context, on hypervisor.Assignment) (wire.State, error) {
	state, err := b.readHostState(ctx, on)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.lastState = &state
		return state, nil
	case b.lastState == nil || errors.Is(ctx.Err(), context.Canceled):
		return wire.State{}, fmt.Errorf("read the host's state: %w", err)
	}
	away := *b.lastState
	away.Host.Connected, away.Host.Error = false, err.Error()
	return away, nil
}

// readHostState reads the host's full state within conn.HostStateTimeout.
func (b *Backend) readHostState(ctx context.Context, on hypervisor.Assignment) (wire.State, error) {
	ctx, cancel := context.WithTimeout(ctx, conn.HostStateTimeout)
	defer cancel()
	b.assignedPools.Record(on.Pools)
	c, err := b.stateConn(ctx)
	if err != nil {
		return wire.State{}, err
	}
	poolsDone := make(chan storage.Reports, 1)
	go func() { poolsDone <- b.pools.Report(ctx, on.Pools) }()

	all, err := b.readDomains(ctx, c)
	if err != nil {
		return wire.State{}, err
	}
	networks, err := b.networks.Reports(ctx, on.Networks)
	if err != nil {
		return wire.State{}, err
	}
	state := wire.State{
		VMs: []wire.VMReport{}, Discovered: []fleet.DiscoveredVM{}, Networks: networks,
		Host: fleet.HostStatus{Connected: true, Hypervisor: b.lastHypervisorVersion(), Inventory: b.capabilityInventory(ctx)},
	}
	sizes := b.diskSizesOf(ctx, diskPathsOf(all...))
	b.diskSizes.KeepOnly(sizes)
	b.agents.StartDueQueries(guestDomainsOf(all))
	addresses := b.agents.Addresses(ctx, guestDomainsOf(all))
	seen := <-poolsDone
	changed := b.filters.ChangeMessages(ctx)
	state.Groups = network.ChangedGroupReports(changed)
	for _, s := range all {
		st := b.statusWithFaults(s, sizes, addresses[s.id])
		if s.managed {
			r := wire.VMReport{ID: s.id, Name: s.ref.Name, Generation: s.metadata.Generation, Status: st, Proof: wire.OwnershipProof(s.id, s.ownershipMark), Stamped: s.metadata.Generation}
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
	state.Pools, state.Host.DiscoveredPools = seen.Assigned, seen.Others
	b.addVolumeUsers(ctx, all, state.Pools, on.Checksums)
	return state, nil
}

// lastHypervisorVersion returns the hypervisor version that libvirt reported last.
func (b *Backend) lastHypervisorVersion() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.version
}

// VM implements hypervisor.VMs.
func (b *Backend) VM(ctx context.Context, id fleet.VMID) (fleet.VMStatus, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, conn.CallTimeout)
	defer cancel()
	s, err := b.readVM(ctx, id)
	if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
		return fleet.VMStatus{Power: fleet.Absent}, 0, nil
	}
	if err != nil {
		return fleet.VMStatus{}, 0, fmt.Errorf("read the VM: %w", err)
	}
	generation := s.metadata.Generation
	if !s.managed {
		generation = 0
	}
	b.filters.ChangeMessages(ctx)
	return b.statusWithFaults(s, b.diskSizesOf(ctx, diskPathsOf(s)), b.agents.LastAddresses(id)), generation, nil
}

// readVM reads one domain over the backend's connection for state.
func (b *Backend) readVM(ctx context.Context, id fleet.VMID) (observedDomain, error) {
	c, err := b.stateConn(ctx)
	if err != nil {
		return observedDomain{}, err
	}
	return b.readObservedDomain(ctx, c, id)
}

// readObservedDomain reads one domain on the given connection.
func (b *Backend) readObservedDomain(ctx context.Context, c *conn.Conn, id fleet.VMID) (observedDomain, error) {
	uuid, err := conn.ParseUUID(id)
	if err != nil {
		return observedDomain{}, err
	}
	var s observedDomain
	ref, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (ref golibvirt.Domain, err error) {
		if ref, err = l.DomainLookupByUUID(uuid); err == nil {
			s.state, s.reason, err = l.DomainGetState(ref, 0)
		}
		return ref, err
	})
	if err != nil {
		return observedDomain{}, err
	}
	s.domain, err = b.readDomain(ctx, c, ref)
	return s, err
}

// diskPathsOf returns the paths of the domains' current disks, of the disks in their specs, and of their media.
func diskPathsOf(all ...observedDomain) hostfile.DiskPaths {
	out := hostfile.DiskPaths{}
	for _, s := range all {
		for _, d := range s.currentHardware().Disks {
			out[d.Path] = hostfile.ReadImageHeader
		}
		for _, d := range s.specDisks {
			out[d.path] = hostfile.ReadImageHeader
		}
		for _, h := range s.diskFiles() {
			if _, known := out[h.Path]; known && h.Opaque {
				out[h.Path] = hostfile.ReadFileLength
			}
		}
		for path, kind := range mediaPaths(s) {
			if _, disk := out[path]; !disk && s.managed {
				out[path] = kind
			}
		}
	}
	return out
}
