package mock

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"quantix/agent/hypervisor"
	"quantix/internal/drift"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// NoDNSMasq in a network's name makes its start fail, as on a host without dnsmasq.
const NoDNSMasq = "no-dnsmasq"

// CutsHostOff in a network's name makes its apply fail: a bridge on a device disconnects the host from its portal, so
// the change is rolled back.
const CutsHostOff = "cuts-off"

// network is a libvirt network defined on the host.
type network struct {
	id           fleet.NetworkID
	spec         fleet.NetworkSpec // the persistent definition
	applied      fleet.NetworkSpec // the persistent definition without an administrator's edits
	live         fleet.NetworkSpec // the definition of the running network
	active       bool
	undefined    bool   // the network runs without a definition
	dnsmasqEnded bool   // the network's dnsmasq has ended
	ownAddress   string // overlay network: the host's own address
	peerCount    int    // overlay network: the number of known peers
}

// drift lists an administrator's edits that the wanted spec does not have.
func (n *network) drift(wanted fleet.NetworkSpec) []fleet.Drift {
	return drift.OfNetwork(n.applied, n.spec, wanted, nil)
}

// underlayAddress returns the host's address in the underlay of an overlay network. Each host has a different address.
func underlayAddress(s fleet.NetworkSpec, host string) string {
	p, err := netip.ParsePrefix(s.Underlay)
	if err != nil || s.Mode != fleet.NetworkVXLAN {
		return ""
	}
	a := p.Masked().Addr().Next()
	for range crc32.ChecksumIEEE([]byte(host)) % 200 {
		if next := a.Next(); p.Contains(next) {
			a = next
		}
	}
	return a.String()
}

// addDeviceState adds the state of the host's devices to the network's status.
func (n *network) addDeviceState(st *fleet.NetworkStatus) {
	switch n.spec.Mode {
	case fleet.NetworkVXLAN:
		st.VTEP, st.Peers, st.Uplink, st.MTU = n.ownAddress, n.peerCount, "eth0", cmp.Or(n.spec.MTU, 1450)
	case fleet.NetworkUplink, fleet.NetworkMacvtap, fleet.NetworkSRIOV:
		st.Uplink, st.MTU = n.spec.Device, 1500
	case fleet.NetworkBridged, fleet.NetworkOVS:
		st.MTU = 1500
	}
}

// ApplyNetwork implements hypervisor.Networks.
func (h *Host) ApplyNetwork(ctx context.Context, n fleet.Network) error {
	return h.applyNetwork(ctx, n, false)
}

// ReapplyNetwork implements hypervisor.Networks.
func (h *Host) ReapplyNetwork(ctx context.Context, n fleet.Network) error {
	return h.applyNetwork(ctx, n, true)
}

func (h *Host) applyNetwork(ctx context.Context, n fleet.Network, overwrite bool) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	if nameContains(n.Name, HangOnStart) {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := h.waitDelay(ctx, 0.3); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.notify()
	mine := h.networks[n.Name]
	if n.Spec.Adopted {
		return h.applyAdoptedNetwork(n, mine, overwrite)
	}
	switch {
	case mine != nil && mine.id != n.ID, slices.ContainsFunc(fixedNetworks(), func(r wire.NetworkReport) bool { return r.Kind == fleet.NetworkLibvirt && r.Name == n.Name }):
		return hypervisor.RefuseTakenNetworkName(n.Name)
	case mine == nil:
		mine = &network{id: n.ID, spec: *n.Spec, ownAddress: underlayAddress(*n.Spec, h.options.Name)}
		h.networks[n.Name] = mine
	case len(mine.drift(*n.Spec)) > 0 && !overwrite:
		return fleet.RefusalError(hypervisor.NetworkEditedText(drift.NetworkParts(mine.drift(*n.Spec))))
	}
	if nameContains(n.Name, CutsHostOff) && n.Spec.Mode == fleet.NetworkUplink {
		delete(h.networks, n.Name)
		return fleet.Errorf(fleet.Conflict, "The change was undone: the portal was not reached through %s within 30 s (dial tcp: i/o timeout). The host is unchanged. Repair the network there, then try again.", n.BridgeDevice())
	}
	mine.undefined, mine.spec, mine.applied, mine.peerCount = false, *n.Spec, *n.Spec, len(slices.DeleteFunc(slices.Clone(n.Peers), func(a string) bool { return a == mine.ownAddress }))
	if user := h.guestOnNetwork(n.Name, mine.bridgeName()); mine.dnsmasqEnded && user != "" {
		return fleet.Errorf(fleet.Conflict, "%s Stop %s first.", hypervisor.NoDnsmasqText, user)
	}
	if nameContains(n.Name, NoDNSMasq) && n.Spec.RunsDHCPOrDNS() {
		return fmt.Errorf("libvirt: internal error: Child process (/usr/sbin/dnsmasq --conf-file=/var/lib/libvirt/dnsmasq/%s.conf) unexpected fatal signal: No such file or directory", n.Name)
	}
	mine.active, mine.dnsmasqEnded, mine.live = true, false, mine.spec
	return nil
}

// ReleaseNetwork implements hypervisor.Networks.
func (h *Host) ReleaseNetwork(ctx context.Context, n fleet.Network) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	mine := h.networks[n.Name]
	if n.Spec.Adopted || mine == nil || mine.id != n.ID {
		return nil
	}
	if user := h.guestOnNetwork(n.Name, mine.ownBridge()); user != "" {
		return hypervisor.RefuseUsedNetwork(n.Name, user)
	}
	delete(h.networks, n.Name)
	h.notify()
	return nil
}

// guestOnNetwork returns the name of a guest with a NIC on the network or its bridge. The caller holds h.mu.
func (h *Host) guestOnNetwork(name, bridge string) string {
	on := func(n fleet.NIC) bool { return n.Network == name || bridge != "" && n.Bridge == bridge }
	for _, g := range h.guests {
		if slices.ContainsFunc(g.persistent.spec.NICs, on) || g.isRunning() && slices.ContainsFunc(g.live.spec.NICs, on) {
			return g.name
		}
	}
	return ""
}

// ownBridge returns the network's own bridge. It is empty if the network uses a bridge of the host.
func (n *network) ownBridge() string {
	if t := n.spec.Mode.Info(); !t.CreatesDevices && !t.HostAddresses {
		return ""
	}
	return n.bridgeName()
}

func (n *network) bridgeName() string {
	switch t := n.spec.Mode.Info(); {
	case t.CreatesDevices:
		return fleet.Network{ID: n.id, Spec: &n.spec}.BridgeDevice()
	case !t.HostAddresses:
		return n.spec.Bridge
	}
	return cmp.Or(n.spec.Bridge, "virbr-"+string(n.id[:6]))
}

func (h *Host) networkStatus(n *network) fleet.NetworkStatus {
	st := fleet.NetworkStatus{Active: n.active, Autostart: !n.undefined, Bridge: n.bridgeName()}
	st.Forward = n.spec.Forward()
	n.addDeviceState(&st)
	if n.spec.HasExclusiveNICs() && n.active {
		st.NICs = h.nicCapacity(n.spec)
	}
	for _, p := range n.spec.Prefixes() {
		st.Subnets = append(st.Subnets, p.String())
	}
	switch {
	case n.undefined:
		st.Error = hypervisor.NetworkUndefinedText
	case n.spec.Mode == fleet.NetworkSRIOV && st.NICs != nil && st.NICs.Total == 0:
		st.Error = "The device " + n.spec.Device + " of this host has no virtual functions. Enable virtual functions on the host: write their number to /sys/class/net/" + n.spec.Device + "/device/sriov_numvfs."
	case n.active && n.dnsmasqEnded:
		st.Error = hypervisor.NoDnsmasqText
	case n.active && !reflect.DeepEqual(n.spec, n.live):
		st.Error = hypervisor.NetworkOutdatedText
	}
	return st
}

// reportNetworks reports all networks, and the assigned networks that are missing. The caller holds h.mu.
func (h *Host) reportNetworks(assigned []fleet.Network) []wire.NetworkReport {
	out := fixedNetworks()
	if addDefinition(&out[0], defaultNetwork, assigned) {
		out[0].Status.Leases = h.leases(out[0].Name)
	}
	for name, n := range h.networks {
		r := wire.NetworkReport{ID: n.id, Name: name, Kind: fleet.NetworkLibvirt, Status: h.networkStatus(n)}
		if i := slices.IndexFunc(assigned, func(a fleet.Network) bool { return a.ID == n.id }); i < 0 {
			if addDefinition(&r, n.spec, assigned) {
				r.Status.Leases = h.leases(name)
			}
		} else {
			r.Status.Leases, r.Status.Drift = h.leases(name), n.drift(*assigned[i].Spec)
			if parts := drift.NetworkParts(r.Status.Drift); len(parts) > 0 && (r.Status.Error == "" || r.Status.Error == hypervisor.NetworkOutdatedText) {
				r.Status.Error = hypervisor.NetworkEditedText(parts)
			}
		}
		out = append(out, r)
	}
	for _, a := range assigned {
		if !slices.ContainsFunc(out, func(r wire.NetworkReport) bool {
			return r.Kind == fleet.NetworkLibvirt && (r.ID == a.ID || r.Name == a.Name)
		}) {
			out = append(out, wire.NetworkReport{ID: a.ID, Name: a.Name, Kind: fleet.NetworkLibvirt, Absent: true, Status: fleet.NetworkStatus{Error: hypervisor.NetworkMissingText}})
		}
	}
	slices.SortFunc(out, func(a, b wire.NetworkReport) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	return out
}

// StopNetwork stops a network, like virsh net-destroy.
func (h *Host) StopNetwork(name string) {
	h.changeNetwork(name, func(n *network) { n.active = false })
}

// UndefineNetwork removes a network's definition, like virsh net-undefine.
func (h *Host) UndefineNetwork(name string) {
	h.changeNetwork(name, func(n *network) { n.undefined = true })
}

// EditNetwork changes the definition of a network and the running network, like virsh net-update --config --live.
func (h *Host) EditNetwork(name string, change func(*fleet.NetworkSpec)) {
	h.changeNetwork(name, func(n *network) {
		change(&n.spec)
		n.live = n.spec
	})
}

// StopDnsmasq ends a network's DHCP and DNS server.
func (h *Host) StopDnsmasq(name string) {
	h.changeNetwork(name, func(n *network) { n.dnsmasqEnded = true })
}

// DefineNetwork creates and starts a network, like virsh.
func (h *Host) DefineNetwork(name string, spec fleet.NetworkSpec) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.networks[name] = &network{id: fleet.NewID[fleet.NetworkID](), spec: spec, applied: spec, live: spec, active: true}
	h.notify()
}

func (h *Host) changeNetwork(name string, how func(*network)) {
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
