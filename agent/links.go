package agent

import (
	"context"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Links makes what networks need on the host beside its hypervisor; package agent/link does.
type Links interface {
	// Apply makes it before the hypervisor has the network. order is the portal's: one whose change cut the host off is not done again.
	Apply(ctx context.Context, order string, n fleet.Network) error
	// Release undoes it after the hypervisor has given the network up.
	Release(ctx context.Context, order string, n fleet.Network) error
	// Look adds to what the hypervisor says of a network what the host itself has of it.
	Look(n fleet.Network, st *fleet.NetworkStatus)
	// Restore makes again what stood before this boot of the host.
	Restore(ctx context.Context) error
}

// noLinks is for a host that is only simulated.
type noLinks struct{}

func (noLinks) Apply(context.Context, string, fleet.Network) error   { return nil }
func (noLinks) Release(context.Context, string, fleet.Network) error { return nil }
func (noLinks) Look(fleet.Network, *fleet.NetworkStatus)             {}
func (noLinks) Restore(context.Context) error                        { return nil }

// applyNetwork makes the devices first: the hypervisor's network is on them.
func applyNetwork(ctx context.Context, a *Agent, j *job) error {
	if err := checkNetwork(j.Network); err != nil {
		return err
	}
	if err := a.links.Apply(ctx, string(j.ID), *j.Network); err != nil {
		return err
	}
	a.devicesChanged(*j.Network)
	return a.hypervisor.ApplyNetwork(ctx, *j.Network)
}

// releaseNetwork undoes the devices last: the hypervisor refuses while a VM is on the network.
func releaseNetwork(ctx context.Context, a *Agent, j *job) error {
	if err := checkNetwork(j.Network); err != nil {
		return err
	}
	if err := a.hypervisor.ReleaseNetwork(ctx, *j.Network); err != nil {
		return err
	}
	if err := a.links.Release(ctx, string(j.ID), *j.Network); err != nil {
		return err
	}
	a.devicesChanged(*j.Network)
	return nil
}

// devicesChanged lets the next report tell of the devices as they are now.
func (a *Agent) devicesChanged(n fleet.Network) {
	if n.Spec.Mode.Is().Made {
		a.inventory.refresh()
	}
}

// lookAtLinks completes what the hypervisor says of the assigned networks.
func (a *Agent) lookAtLinks(s *wire.State, assigned []fleet.Network) {
	for i := range s.Networks {
		for _, n := range assigned {
			if n.ID != s.Networks[i].ID {
				continue
			}
			st := &s.Networks[i].Status
			a.links.Look(n, st)
			if st.NICs != nil && st.Error == "" && st.Active {
				st.Error = st.NICs.Short(*n.Spec, nicsBeside(s, n, assigned))
			}
		}
	}
}

// nicsBeside counts the cards of the host's VMs that take what the network's do: also those on other networks of the same device.
func nicsBeside(s *wire.State, n fleet.Network, assigned []fleet.Network) (cards int) {
	names := map[string]bool{}
	for _, o := range assigned {
		if o.Spec != nil && o.Spec.Mode == n.Spec.Mode && o.Spec.Device == n.Spec.Device && o.Spec.Counted() {
			names["network "+o.Name] = true
		}
	}
	count := func(st fleet.VMStatus) {
		for _, c := range st.NICs {
			if on, _, _ := strings.Cut(c.Source, ","); names[on] {
				cards++
			}
		}
	}
	for _, vm := range s.VMs {
		count(vm.Status)
	}
	for _, vm := range s.Discovered {
		count(vm.Status)
	}
	return cards
}

// restoreLinks makes again, at the agent's start and before the portal is reached, what stood before the host's boot. A device that is not
// there yet may come a moment later.
func (a *Agent) restoreLinks(ctx context.Context) {
	wait := newBackoff(a.times.retry, a.times.retryMost)
	for {
		err := a.links.Restore(ctx)
		if err == nil {
			return
		}
		a.log.Warn("Not all of the host's networks are as they were before it started; trying again.", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait.NextBackOff()):
		}
	}
}
