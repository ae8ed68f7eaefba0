package cli

import (
	"context"
	"fmt"
	"sync"

	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

// restoreHost creates the pools, networks, VMs and power states of an earlier run again on a simulated host, from the
// portal's records, because a mock host stores nothing. It must run before the host's agent starts.
func (s *fleetSetup) restoreHost(ctx context.Context, host *mock.Host, id fleet.HostID, name string) error {
	pools, err := s.restorePools(ctx, host, id)
	if err != nil {
		return err
	}
	if err := s.restoreNetworks(ctx, host, id); err != nil {
		return err
	}
	vms, err := query.ReadAllPages(ctx, s.actor, fleet.Query{Filter: "host:" + name}, s.Control.ListVMs)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for _, vm := range vms {
		if vm.HostID != id || vm.Status == nil || vm.Status.Power == fleet.Absent {
			continue
		}
		all.Go(func() {
			// Ignore errors: some demo VMs fail on purpose, as in the earlier run, and the host's report shows the failure.
			in := hypervisor.ApplyWork{
				VM: vm.VM, Project: vm.ProjectName, Pools: pools,
				RecordDisk: func(fleet.Volref) error { return nil }, Progress: func(int, string) {},
			}
			if host.ApplyVM(ctx, in) == nil && vm.Status.Power == fleet.Running {
				_ = host.StartVM(ctx, vm.ID)
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

func (s *fleetSetup) restoreNetworks(ctx context.Context, host *mock.Host, id fleet.HostID) error {
	known, err := s.Control.NetworksOnHost(ctx, s.actor, id)
	for _, n := range known {
		if n.Spec != nil && len(n.Hosts) > 0 && n.Hosts[0].Assigned {
			_ = host.ApplyNetwork(ctx, n.Network)
		}
	}
	return err
}

// restorePools applies the pools assigned to the host and returns them. A pool that cannot start on the host fails
// again at its next job.
func (s *fleetSetup) restorePools(ctx context.Context, host *mock.Host, id fleet.HostID) ([]fleet.Pool, error) {
	known, err := query.ReadAllPages(ctx, s.actor, fleet.Query{}, s.Control.ListPools)
	if err != nil {
		return nil, err
	}
	var pools []fleet.Pool
	for _, p := range known {
		pool, err := s.Control.GetPool(ctx, s.actor, p.ID)
		if err != nil {
			return nil, fmt.Errorf("read the pool %s: %w", p.Name, err)
		}
		for _, on := range pool.Hosts {
			if on.HostID == id && on.Assigned {
				_ = host.ApplyPool(ctx, pool.Pool)
				pools = append(pools, pool.Pool)
			}
		}
	}
	return pools, nil
}
