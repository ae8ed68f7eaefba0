package agent

import (
	"slices"
	"time"

	"quantix/agent/healthcheck"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// readState is the part of the hypervisor's newest state that health checks judge.
type readState struct {
	hypervisor healthcheck.HypervisorState
	pools      []healthcheck.PoolState
}

// newReadState returns what health checks judge of a state.
func newReadState(s wire.State, assigned []fleet.Pool) readState {
	out := readState{hypervisor: healthcheck.HypervisorState{Read: true, Version: s.Host.Hypervisor, Accelerators: s.Host.Inventory.Accelerators}}
	for _, p := range s.Pools {
		i := slices.IndexFunc(assigned, func(a fleet.Pool) bool { return a.Name == p.Name })
		provided := i < 0 || !assigned[i].Spec.Kind.Info().CreatesVolumes // not assigned yet: its kind is not known
		out.pools = append(out.pools, healthcheck.PoolState{Name: p.Name, Status: p.Status, Provided: provided})
	}
	return out
}

// newestRead returns what the newest successful read of the hypervisor has found.
func (r *reporter) newestRead() readState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastRead
}

// ownChecks returns the health checks of what the agent itself knows.
func (a *Agent) ownChecks() []healthcheck.Check {
	return []healthcheck.Check{
		healthcheck.Boot(func() healthcheck.HypervisorState { return a.reports.newestRead().hypervisor }),
		healthcheck.Hypervisor(a.hypervisor.Ping),
		healthcheck.Clock(a.client.ClockOffset),
		healthcheck.Certificate(a.identity.certificateValidity, time.Now),
		healthcheck.Pools(a.knownPools),
	}
}

// knownPools returns the newest states of the host's pools; false: the hypervisor was not read yet.
func (a *Agent) knownPools() ([]healthcheck.PoolState, bool) {
	read := a.reports.newestRead()
	return read.pools, read.hypervisor.Read
}
