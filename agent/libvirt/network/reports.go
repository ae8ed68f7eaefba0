package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/locks"
	"quantix/agent/libvirt/watch"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// networkReadTimeout is how long a host report waits for a read of the networks that is in progress.
const networkReadTimeout = 2 * time.Second

// networkWatch reads the host's networks on its own connection. libvirt locks a network while it starts, and a hanging
// start must not delay the host's report.
type networkWatch struct {
	locks locks.ByKey[string] // one operation at a time, by network name
	watch.Value[[]networkState]
}

// networkState is the state of one libvirt network.
type networkState struct {
	ref golibvirt.Network
	// definition for the next start; nil if the network is transient or the definition is unreadable
	persistent *libvirtxml.Network
	live       libvirtxml.Network // the running definition, if the network is active

	persistentGroups, liveGroups portGroupList
	leases                       []fleet.DHCPLease
	status                       fleet.NetworkStatus
}

var errNetworksNotRead = hypervisor.WrapUnreachable(errors.New("libvirt has not answered about its networks in time"))

// readRecent returns the networks of the latest read. The portal treats a network that a report omits as deleted, so
// the first read may take as long as the whole report.
func (w *networkWatch) readRecent(ctx context.Context, load func() ([]networkState, error)) (watch.State[[]networkState], error) {
	s := w.Read(ctx, 0, networkReadTimeout, load)
	if !s.Known && s.Running > 0 {
		s = w.Read(ctx, 0, conn.HostStateTimeout, load)
	}
	switch {
	case s.Running == 0 && (s.Known || s.Err != nil):
		return s, s.Err
	case !s.Known:
		return s, errNetworksNotRead
	}
	return s, nil
}

// Reports returns libvirt's networks, assigned networks that are missing, and host bridges without a network, sorted
// by name.
func (ns *Networks) Reports(ctx context.Context, assigned []fleet.Network) ([]wire.NetworkReport, error) {
	// A bridge that appears after this line may belong to a network that the reading below does not have yet.
	bridges := bridgeNames()
	s, err := ns.watch.readRecent(ctx, ns.readNetworks)
	if err != nil {
		return nil, err
	}
	out, taken := []wire.NetworkReport{}, map[string]bool{}
	for _, n := range s.Value {
		st := n.status
		if s.Running > watch.StalledAfter {
			st.Error = fmt.Sprintf("libvirt has not answered about its networks since %s UTC.", s.Began.UTC().Format(time.DateTime))
		}
		id := fleet.NetworkID(conn.FormatUUID(n.ref.UUID))
		mine := true
		if k := slices.IndexFunc(assigned, func(a fleet.Network) bool { return a.ID == id || a.IsAdopted() && a.Name == n.ref.Name }); k >= 0 {
			id = assigned[k].ID
			st.Error = cmp.Or(st.Error, networkProblem(n, assigned[k]))
			// A bridged network does not own its bridge. VMs may also connect to the bridge directly, so the report
			// also lists the bridge.
			mine = assigned[k].Spec == nil || assigned[k].Spec.Mode != fleet.NetworkBridged
			st.Leases, st.Drift = n.leases, networkDrift(n, assigned[k])
			if assigned[k].IsAdopted() {
				st.Definition = n.definition()
			}
		} else {
			st.Definition = n.definition()
		}
		taken[st.Bridge] = taken[st.Bridge] || mine
		out = append(out, wire.NetworkReport{ID: id, Name: n.ref.Name, Kind: fleet.NetworkLibvirt, Status: st})
	}
	for _, a := range assigned {
		if !slices.ContainsFunc(out, func(r wire.NetworkReport) bool { return r.ID == a.ID || r.Name == a.Name }) {
			out = append(out, wire.NetworkReport{ID: a.ID, Name: a.Name, Kind: fleet.NetworkLibvirt, Absent: true, Status: fleet.NetworkStatus{Error: hypervisor.NetworkMissingText}})
		}
	}
	for _, name := range bridgeNames() {
		if !taken[name] && slices.Contains(bridges, name) {
			out = append(out, wire.NetworkReport{Name: name, Kind: fleet.NetworkBridge, Status: bridgeStatus(name)})
		}
	}
	slices.SortFunc(out, func(a, b wire.NetworkReport) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return out, nil
}

// networkProblem returns the problem of an assigned network as a sentence, or an empty string if there is none.
func networkProblem(n networkState, a fleet.Network) string {
	switch {
	case a.IsAdopted():
		return adoptedNetworkProblem(n, a)
	case n.persistent == nil && n.status.Active:
		return hypervisor.NetworkUndefinedText
	case n.persistent == nil || a.Spec == nil:
		return ""
	case readNetworkMetadata(*n.persistent).matchesDefinition(*n.persistent) && readNetworkMetadata(*n.persistent).Groups == n.persistentGroups.digest():
		if n.status.Active && len(networkUpdates(n.live, *n.persistent))+len(n.liveGroups.updatesTo(n.persistentGroups)) > 0 {
			return hypervisor.NetworkOutdatedText
		}
		return ""
	}
	if parts := differingParts(a, *n.persistent, n.persistentGroups); len(parts) > 0 {
		return hypervisor.NetworkEditedText(parts)
	}
	return ""
}

// readNetworks reads all networks of libvirt. It lists an unreadable network with the error.
func (ns *Networks) readNetworks() ([]networkState, error) {
	c, err := ns.daemon.Dial(ns.daemon.RunContext)
	if err != nil {
		return nil, err
	}
	defer c.Disconnect()
	refs, err := conn.Call(ns.daemon.RunContext, c, func(l *golibvirt.Libvirt) ([]golibvirt.Network, error) {
		all, _, err := l.ConnectListAllNetworks(1, 0)
		return all, err
	})
	if err != nil {
		return nil, err
	}
	out := make([]networkState, 0, len(refs))
	for _, ref := range refs {
		n, err := ns.readNetwork(ns.daemon.RunContext, c, ref)
		switch {
		case conn.IsLibvirtCode(err, golibvirt.ErrNoNetwork):
			continue
		case conn.IsObjectError(err):
			n.status.Error = "The host cannot read this network: " + err.Error()
		case err != nil:
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// readNetwork reads a network's definitions, state and DHCP leases.
func (ns *Networks) readNetwork(ctx context.Context, c *conn.Conn, ref golibvirt.Network) (networkState, error) {
	n := networkState{ref: ref}
	x, groups, err := readNetworkXML(ctx, c, ref, 0)
	if err != nil {
		return n, err
	}
	st := &n.status
	n.live, n.liveGroups = x, groups
	if x.Bridge != nil {
		st.Bridge = x.Bridge.Name
	}
	if x.Forward != nil {
		st.Forward = x.Forward.Mode
	}
	for _, ip := range x.IPs {
		if s := subnetPrefix(ip); s != "" {
			st.Subnets = append(st.Subnets, s)
		}
	}
	is, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (is struct{ active, persistent, autostart int32 }, err error) {
		if is.active, err = l.NetworkIsActive(ref); err != nil {
			return is, err
		}
		if is.persistent, err = l.NetworkIsPersistent(ref); err == nil && is.persistent != 0 {
			is.autostart, err = l.NetworkGetAutostart(ref)
		}
		return is, err
	})
	if err != nil {
		return n, err
	}
	st.Active, st.Autostart = is.active != 0, is.autostart != 0
	if is.persistent != 0 {
		inactive, groups, err := readNetworkXML(ctx, c, ref, inactiveNetworkXML)
		if err != nil {
			return n, err
		}
		n.persistent, n.persistentGroups = &inactive, groups
	}
	if st.Active {
		n.leases = leasesOf(ctx, c, ref)
	}
	if st.Active && hasDnsmasq(x) && !isDnsmasqRunning(ns.daemon.Socket, ref.Name) {
		st.Error = hypervisor.NoDnsmasqText
	}
	return n, nil
}

// inactiveNetworkXML requests the definition for the next start.
const inactiveNetworkXML = 1 // VIR_NETWORK_XML_INACTIVE

// subnetPrefix returns the network's prefix, such as "192.168.122.0/24", or an empty string if the network has none.
func subnetPrefix(x libvirtxml.NetworkIP) string {
	ip := net.ParseIP(x.Address)
	bits := 128
	if v4 := ip.To4(); v4 != nil {
		ip, bits = v4, 32
	}
	mask := net.CIDRMask(int(x.Prefix), bits)
	if m := net.ParseIP(x.Netmask).To4(); m != nil {
		mask = net.IPMask(m)
	}
	if ip == nil || x.Prefix == 0 && x.Netmask == "" {
		return ""
	}
	ones, _ := mask.Size()
	return ip.Mask(mask).String() + "/" + strconv.Itoa(ones)
}

// bridgeNames returns the names of the host's bridge devices.
func bridgeNames() []string {
	dirs, _ := filepath.Glob("/sys/class/net/*/bridge") // fails only for a malformed pattern
	names := make([]string, len(dirs))
	for i, d := range dirs {
		names[i] = filepath.Base(filepath.Dir(d))
	}
	return names
}

// bridgeStatus reads the state and the addresses of a bridge device from the kernel.
func bridgeStatus(name string) fleet.NetworkStatus {
	st := fleet.NetworkStatus{Bridge: name}
	flags, err := os.ReadFile(filepath.Join("/sys/class/net", name, "flags"))
	if err != nil {
		st.Error = err.Error()
		return st
	}
	const up = 1
	bits, err := strconv.ParseUint(strings.TrimSpace(string(flags)), 0, 32) // "0x1003\n"
	if err != nil {
		st.Error = "The kernel does not report the flags of the bridge: " + err.Error()
		return st
	}
	st.Active = bits&up != 0
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return st // the bridge is in another network namespace
	}
	addrs, err := dev.Addrs()
	if err != nil {
		st.Error = err.Error()
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			st.Subnets = append(st.Subnets, (&net.IPNet{IP: n.IP.Mask(n.Mask), Mask: n.Mask}).String())
		}
	}
	slices.Sort(st.Subnets)
	return st
}
