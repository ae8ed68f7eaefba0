package network

import (
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// CellOf is the network's part on one host.
func CellOf(n fleet.NetworkView, host fleet.HostID) fleet.NetworkHost {
	for _, h := range n.Hosts {
		if h.HostID == host {
			return h
		}
	}
	return fleet.NetworkHost{NetworkID: n.ID, HostID: host}
}

// says is one thing that a host says about a network.
func says(key string, kind fleet.NetworkKind, s *fleet.NetworkStatus) string {
	switch key {
	case "forward":
		return forwardWord(fleet.NetworkView{Network: fleet.Network{Kind: kind}}, s)
	case "bridge":
		return s.Bridge
	case "subnets":
		return subnetWords(fleet.NetworkView{}, s)
	}
	return startsWithHost(kind, s)
}

func kindWord(k fleet.NetworkKind) string {
	if k == fleet.NetworkBridge {
		return "Bridge"
	}
	return "Network of libvirt"
}

func lastKnown(h fleet.NetworkHost, now time.Time) string {
	switch {
	case fleet.Fresh(h.SeenAt, now) || h.Status == nil:
		return ""
	case h.Status.Active:
		return "The host is not heard. Last known: active."
	}
	return "The host is not heard. Last known: inactive."
}

var forwardWords = map[string]string{"nat": "NAT", "route": "Routed", "bridge": "Bridged", "open": "Open", "": "Isolated"}

func forwardWord(n fleet.NetworkView, s *fleet.NetworkStatus) string {
	if n.Kind == fleet.NetworkBridge {
		return ""
	}
	if word, ok := forwardWords[s.Forward]; ok {
		return word
	}
	return s.Forward
}

func subnetWords(_ fleet.NetworkView, s *fleet.NetworkStatus) string {
	return strings.Join(s.Subnets, ", ")
}

// eachOf joins the different values that hosts report, in the order of hosts.
func eachOf(n fleet.NetworkView, value func(fleet.NetworkView, *fleet.NetworkStatus) string) string {
	var out []string
	seen := map[string]bool{"": true}
	for _, h := range n.Hosts {
		if h.Status == nil {
			continue
		}
		if v := value(n, h.Status); !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return kit.Dash(strings.Join(out, "; "))
}

// hostNames names few hosts and counts many.
func hostNames(n fleet.NetworkView) string {
	if len(n.Hosts) > 6 || len(n.Hosts) > 0 && n.Hosts[0].HostName == "" {
		return kit.Count(len(n.Hosts), "host")
	}
	names := make([]string, len(n.Hosts))
	for i, h := range n.Hosts {
		names[i] = h.HostName
	}
	return kit.Dash(strings.Join(names, ", "))
}

func startsWithHost(kind fleet.NetworkKind, s *fleet.NetworkStatus) string {
	switch {
	case kind == fleet.NetworkBridge:
		return "–"
	case s.Autostart:
		return "Yes"
	}
	return "No"
}
