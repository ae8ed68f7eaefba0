package agent

import (
	"time"

	"quantix/agent/healthcheck"
	"quantix/internal/wire"
)

// readState is the part of the hypervisor's newest state that health checks judge.
type readState struct {
	hypervisor healthcheck.HypervisorState
	pools      []wire.PoolReport
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
	out := make([]healthcheck.PoolState, len(read.pools))
	for i, p := range read.pools {
		out[i] = healthcheck.PoolState{Name: p.Name, Status: p.Status}
	}
	return out, read.hypervisor.Read
}
