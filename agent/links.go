package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Links sets up the host's network devices for networks; package agent/link implements it.
type Links interface {
	// Apply creates the network's devices before the hypervisor's network is created. job is the job's ID: Apply does
	// not repeat a job whose change cut the host off from the portal.
	Apply(ctx context.Context, job string, n fleet.Network) error
	// Release removes the devices after the hypervisor has released the network.
	Release(ctx context.Context, job string, n fleet.Network) error
	// AddStatus adds the state of the host's devices to a network's status.
	AddStatus(n fleet.Network, st *fleet.NetworkStatus)
	// Restore recreates the devices that existed before the host's boot.
	Restore(ctx context.Context) error
}

// noLinks implements Links for simulated hosts, which have no devices.
type noLinks struct{}

func (noLinks) Apply(context.Context, string, fleet.Network) error   { return nil }
func (noLinks) Release(context.Context, string, fleet.Network) error { return nil }
func (noLinks) AddStatus(fleet.Network, *fleet.NetworkStatus)        {}
func (noLinks) Restore(context.Context) error                        { return nil }

// networkHandler returns a handler that sets up the job's network. It creates the devices first, because the
// hypervisor's network uses them.
func networkHandler(apply func(hypervisor.Networks, context.Context, fleet.Network) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		if err := validateNetwork(j.Network); err != nil {
			return err
		}
		if err := a.links.Apply(ctx, string(j.ID), *j.Network); err != nil {
			return err
		}
		a.refreshNetworkDevices(*j.Network)
		return apply(a.hypervisor, ctx, *j.Network)
	}
}

// releaseNetwork removes the hypervisor's network first, which fails while a VM uses it, and then the devices.
func releaseNetwork(ctx context.Context, a *Agent, j *job) error {
	if err := validateNetwork(j.Network); err != nil {
		return err
	}
	if err := a.hypervisor.ReleaseNetwork(ctx, *j.Network); err != nil {
		return err
	}
	if err := a.links.Release(ctx, string(j.ID), *j.Network); err != nil {
		return err
	}
	a.refreshNetworkDevices(*j.Network)
	return nil
}

// refreshNetworkDevices triggers a new read of the hardware, so that the next report contains the changed devices.
func (a *Agent) refreshNetworkDevices(n fleet.Network) {
	if n.Spec.Mode.Info().CreatesDevices {
		a.inventory.refresh()
	}
}

// addLinkStatus adds the state of the host's devices to the assigned networks.
func (a *Agent) addLinkStatus(s *wire.State, assigned []fleet.Network) {
	for i := range s.Networks {
		for _, n := range assigned {
			if n.ID != s.Networks[i].ID {
				continue
			}
			st := &s.Networks[i].Status
			a.links.AddStatus(n, st)
			if st.NICs != nil && st.Error == "" && st.Active {
				st.Error = st.NICs.ShortageWarning(*n.Spec, countNICsOnDevice(s, n, assigned))
			}
		}
	}
}

// countNICsOnDevice counts the VM NICs on the network's physical device, including NICs on other networks of that
// device.
func countNICsOnDevice(s *wire.State, n fleet.Network, assigned []fleet.Network) (nics int) {
	names := map[string]bool{}
	for _, o := range assigned {
		if o.Spec != nil && o.Spec.Mode == n.Spec.Mode && o.Spec.Device == n.Spec.Device && o.Spec.HasExclusiveNICs() {
			names["network "+o.Name] = true
		}
	}
	count := func(st fleet.VMStatus) {
		for _, c := range st.NICs {
			if on, _, _ := strings.Cut(c.Source, ","); names[on] {
				nics++
			}
		}
	}
	for _, vm := range s.VMs {
		count(vm.Status)
	}
	for _, vm := range s.Discovered {
		count(vm.Status)
	}
	return nics
}

// restoreLinks recreates the devices that existed before the host's boot. It runs at the agent's start, without the
// portal, and retries, because a physical device may appear late.
func (a *Agent) restoreLinks(ctx context.Context) {
	wait := newBackoff(a.timing.retry, a.timing.retryMax)
	for {
		err := a.links.Restore(ctx)
		if err == nil {
			return
		}
		a.log.Warn("Some of the host's network devices could not be restored after its boot; trying again.", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// validateNetwork validates a network from the portal, because its values are written into definitions and file names.
func validateNetwork(n *fleet.Network) error {
	if n == nil || n.Spec == nil || !fleet.IsID(string(n.ID)) {
		return fmt.Errorf("the portal sent this job without its network")
	}
	var c fleet.Checks
	fleet.CheckName(&c, "name", n.Name)
	n.Spec.Check(&c, "spec")
	return c.Err()
}
