package mock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/agent"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// NoDNSMasq in a network's name makes its start fail, as on a host without dnsmasq.
const NoDNSMasq = "no-dnsmasq"

// network is a libvirt network that was defined on the host.
type network struct {
	id        fleet.NetworkID
	spec      fleet.NetworkSpec
	active    bool
	undefined bool     // its definition is gone while it runs
	edited    []string // what an administrator changed
	unserved  bool     // its dnsmasq has ended
}

// ApplyNetwork implements agent.Hypervisor.
func (h *Host) ApplyNetwork(ctx context.Context, n fleet.Network) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	if misbehaves(n.Name, HangStart) {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := h.step(ctx, 0.3); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.notify()
	mine := h.networks[n.Name]
	switch {
	case mine != nil && mine.id != n.ID, slices.ContainsFunc(fixedNetworks(), func(r wire.NetworkReport) bool { return r.Kind == fleet.NetworkLibvirt && r.Name == n.Name }):
		return agent.NetworkTaken(n.Name)
	case mine == nil:
		mine = &network{id: n.ID, spec: *n.Spec}
		h.networks[n.Name] = mine
	case len(mine.edited) > 0:
		return fleet.Errorf(fleet.Conflict, "%s", agent.NetworkEdited(mine.edited))
	}
	mine.undefined = false
	if user := h.userOf(n.Name, mine.bridge()); mine.unserved && user != "" {
		return fleet.Errorf(fleet.Conflict, "%s Stop %s first.", agent.NetworkUnserved, user)
	}
	if misbehaves(n.Name, NoDNSMasq) && n.Spec.Served() {
		return fmt.Errorf("libvirt: internal error: Child process (/usr/sbin/dnsmasq --conf-file=/var/lib/libvirt/dnsmasq/%s.conf) unexpected fatal signal: No such file or directory", n.Name)
	}
	mine.active, mine.unserved = true, false
	return nil
}

// ReleaseNetwork implements agent.Hypervisor.
func (h *Host) ReleaseNetwork(ctx context.Context, n fleet.Network) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	mine := h.networks[n.Name]
	if mine == nil || mine.id != n.ID {
		return nil
	}
	if user := h.userOf(n.Name, mine.bridge()); user != "" {
		return agent.NetworkInUse(n.Name, user)
	}
	delete(h.networks, n.Name)
	h.notify()
	return nil
}

// userOf is the name of a guest with a card on the network or its bridge; h.mu is held.
func (h *Host) userOf(name, bridge string) string {
	on := func(n fleet.NIC) bool { return n.Network == name || n.Bridge == bridge }
	for _, g := range h.guests {
		if slices.ContainsFunc(g.def.spec.NICs, on) || g.on() && slices.ContainsFunc(g.live.spec.NICs, on) {
			return g.name
		}
	}
	return ""
}

func (n *network) bridge() string { return cmp.Or(n.spec.Bridge, "virbr-"+string(n.id[:6])) }

func (n *network) status() fleet.NetworkStatus {
	st := fleet.NetworkStatus{Active: n.active, Autostart: !n.undefined, Bridge: n.bridge()}
	if n.spec.Mode != fleet.NetworkIsolated {
		st.Forward = string(n.spec.Mode)
	}
	for _, p := range n.spec.Prefixes() {
		st.Subnets = append(st.Subnets, p.String())
	}
	switch {
	case n.undefined:
		st.Error = agent.NetworkUndefined
	case n.active && n.unserved:
		st.Error = agent.NetworkUnserved
	}
	return st
}

// reportNetworks tells of all networks, and of the assigned ones that there are not; h.mu is held.
func (h *Host) reportNetworks(assigned []fleet.Network) []wire.NetworkReport {
	out := fixedNetworks()
	for name, n := range h.networks {
		r := wire.NetworkReport{ID: n.id, Name: name, Kind: fleet.NetworkLibvirt, Status: n.status()}
		if len(n.edited) > 0 && slices.ContainsFunc(assigned, func(a fleet.Network) bool { return a.ID == n.id }) {
			r.Status.Error = cmp.Or(r.Status.Error, agent.NetworkEdited(n.edited))
		}
		out = append(out, r)
	}
	for _, a := range assigned {
		if !slices.ContainsFunc(out, func(r wire.NetworkReport) bool {
			return r.Kind == fleet.NetworkLibvirt && (r.ID == a.ID || r.Name == a.Name)
		}) {
			out = append(out, wire.NetworkReport{ID: a.ID, Name: a.Name, Kind: fleet.NetworkLibvirt, Status: fleet.NetworkStatus{Error: agent.NetworkMissing}})
		}
	}
	slices.SortFunc(out, func(a, b wire.NetworkReport) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	return out
}

// StopNetwork stops a network past the agent, as virsh net-destroy does.
func (h *Host) StopNetwork(name string) {
	h.alterNetwork(name, func(n *network) { n.active = false })
}

// UndefineNetwork removes a network's definition past the agent, as virsh net-undefine does.
func (h *Host) UndefineNetwork(name string) {
	h.alterNetwork(name, func(n *network) { n.undefined = true })
}

// EndDNSMasq ends the server of a network's names and addresses.
func (h *Host) EndDNSMasq(name string) {
	h.alterNetwork(name, func(n *network) { n.unserved = true })
}

// DefineNetwork makes and starts a network past the agent, as virsh does.
func (h *Host) DefineNetwork(name string, spec fleet.NetworkSpec) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.networks[name] = &network{id: fleet.NewID[fleet.NetworkID](), spec: spec, active: true}
	h.notify()
}

func (h *Host) alterNetwork(name string, how func(*network)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.networks[name]; n != nil {
		how(n)
		if n.undefined && !n.active {
			delete(h.networks, name)
		}
	}
	h.notify()
}
