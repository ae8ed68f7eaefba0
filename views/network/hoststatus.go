package network

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// StatusOnHost is the network's status on one host.
func StatusOnHost(n fleet.NetworkView, host fleet.HostID) fleet.NetworkHost {
	for _, h := range n.Hosts {
		if h.HostID == host {
			return h
		}
	}
	return fleet.NetworkHost{NetworkID: n.ID, HostID: host}
}

// reportedValue is the text in the column with the given key, from the host's report about the network.
func reportedValue(key string, kind fleet.NetworkKind, s *fleet.NetworkStatus) string {
	switch key {
	case "forward":
		return ForwardModeName(kind, s.Forward)
	case "bridge":
		return s.Bridge
	case "subnets":
		return strings.Join(s.Subnets, ", ")
	case "uplink":
		return s.Uplink
	case "vtep":
		return s.VTEP
	case "nics":
		if s.NICs != nil {
			return fmt.Sprintf("%d of %d used", s.NICs.Used, s.NICs.Total)
		}
		return ""
	case "mtu":
		if s.MTU > 0 {
			return strconv.Itoa(s.MTU)
		}
		return ""
	}
	return autostartText(kind, s)
}

func networkKindName(n fleet.NetworkView) string {
	switch {
	case n.Kind == fleet.NetworkBridge:
		return "Bridge"
	case n.IsAdopted():
		return "Adopted"
	case n.Spec != nil:
		return "Managed"
	}
	return "libvirt network"
}

// knownPeersText describes to how many of the overlay's other hosts this host can send packets: "2 of 3".
func knownPeersText(n fleet.NetworkView, s *fleet.NetworkStatus) string {
	if s.VTEP == "" {
		return ""
	}
	others := len(n.Peers)
	if slices.Contains(n.Peers, s.VTEP) {
		others--
	}
	return strconv.Itoa(s.Peers) + " of " + strconv.Itoa(others)
}

// lastChangeRolledBack reports whether the host has rolled back the newest change of the network. It is false if the host's
// report is not current.
func lastChangeRolledBack(h fleet.NetworkHost) bool {
	return h.State != fleet.NetworkUnknown && h.Status != nil && h.Status.RolledBack != nil
}

// sourceText describes where a managed network's addresses or traffic come from: its subnets, its VNI and underlay, or
// its device and VLAN. It is empty for discovered networks.
func sourceText(n fleet.NetworkView) string {
	if n.Spec == nil {
		return ""
	}
	var out []string
	for _, p := range n.Spec.Prefixes() {
		out = append(out, p.String())
	}
	if n.Spec.Underlay != "" {
		out = append(out, "VNI "+strconv.Itoa(n.Spec.VNI)+" over "+n.Spec.Underlay)
	}
	if !n.Spec.Mode.Info().HostAddresses && n.Spec.Underlay == "" {
		out = append(out, cmp.Or(n.Spec.Device, n.Spec.Bridge))
		if n.Spec.VLAN > 0 {
			out = append(out, "VLAN "+strconv.Itoa(n.Spec.VLAN))
		}
	}
	return strings.Join(out, ", ")
}

func dnsText(s fleet.NetworkSpec) string {
	switch {
	case !s.DNS:
		return "off"
	case s.Domain != "":
		return "on, domain " + s.Domain
	}
	return "on"
}

func deviceLabel(s fleet.NetworkSpec) string {
	if s.Mode.Info().HostAddresses {
		return "Uplink"
	}
	return "Device"
}

func onOrOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func originText(n fleet.NetworkView) string {
	if n.Spec == nil || n.Spec.Adopted {
		return "Discovered"
	}
	return "Created"
}

// stoppedOutsideQuantix reports whether the network was stopped on the host outside of Quantix. It is false if the host's
// report is not current.
func stoppedOutsideQuantix(h fleet.NetworkHost) bool {
	return h.State == fleet.NetworkInactive && h.Status != nil && h.Status.StoppedOutside
}

func lastReportedStateText(h fleet.NetworkHost, now time.Time) string {
	switch {
	case fleet.IsReportFresh(h.SeenAt, now) || h.Status == nil:
		return ""
	case h.Status.Active:
		return "The host is offline. Last known: active."
	}
	return "The host is offline. Last known: inactive."
}

var forwardModeNames = map[string]string{"nat": "NAT", "route": "Routed", "bridge": "Bridged", "open": "Open", "": "Isolated"}

// ForwardModeName is the name of a forward mode of libvirt on pages; empty for a bridge.
func ForwardModeName(kind fleet.NetworkKind, forward string) string {
	if kind == fleet.NetworkBridge {
		return ""
	}
	if word, ok := forwardModeNames[forward]; ok {
		return word
	}
	return forward
}

// maxReportedValues is the maximum number of reported values in a text.
const maxReportedValues = 4

// joinReportedValues joins reported values, at most maxReportedValues of them.
func joinReportedValues(values []string) string {
	values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
	if len(values) > maxReportedValues {
		values = append(values[:maxReportedValues], "…")
	}
	return kit.TextOrDash(strings.Join(values, "; "))
}

// ModeText is the network's mode in the spec. For a network without a spec, it is the mode that hosts report.
func ModeText(n fleet.NetworkView) string {
	if n.Spec != nil {
		return n.Spec.Mode.Info().Word
	}
	words := make([]string, len(n.Health.Forwards))
	for i, f := range n.Health.Forwards {
		words[i] = ForwardModeName(n.Kind, f)
	}
	return joinReportedValues(words)
}

// SubnetsText lists the subnets in the spec. For a network without a spec, it lists the subnets that hosts report.
func SubnetsText(n fleet.NetworkView) string {
	if n.Spec != nil {
		return kit.TextOrDash(sourceText(n))
	}
	return joinReportedValues(n.Health.Subnets)
}

// hostNamesOrCount lists the hosts by name if all names are known, else it is the number of hosts.
func hostNamesOrCount(n fleet.NetworkView) string {
	if len(n.Hosts) < n.Health.Hosts || len(n.Hosts) > 0 && n.Hosts[0].HostName == "" {
		return kit.CountText(n.Health.Hosts, "host")
	}
	names := make([]string, len(n.Hosts))
	for i, h := range n.Hosts {
		names[i] = h.HostName
	}
	return kit.TextOrDash(strings.Join(names, ", "))
}

func autostartText(kind fleet.NetworkKind, s *fleet.NetworkStatus) string {
	switch {
	case kind == fleet.NetworkBridge:
		return "–"
	case s.Autostart:
		return "Yes"
	}
	return "No"
}
