package policy_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

func labNetworkSpec() fleet.NetworkSpec {
	return fleet.NetworkSpec{Mode: fleet.NetworkNAT, IPv4: &fleet.Subnet{Gateway: "10.0.0.1/28", DHCP: &fleet.DHCP{
		Ranges: []fleet.AddressRange{{Start: "10.0.0.8", End: "10.0.0.12"}},
		Leases: []fleet.StaticLease{{MAC: "m:web", IP: "10.0.0.2", Name: "web"}, {MAC: "m:gone", IP: "10.0.0.9"}},
	}}}
}

func seenAddresses(by fleet.AddressSource, ips ...string) (out []fleet.SeenAddress) {
	for _, ip := range ips {
		out = append(out, fleet.SeenAddress{IP: ip, By: []fleet.AddressSource{by}})
	}
	return out
}

func TestAddressListContainsConflicts(t *testing.T) {
	t.Parallel()
	h1, h2, away := policy.ReportingHost{ID: "1", Name: "h1", Fresh: true}, policy.ReportingHost{ID: "2", Name: "h2", Fresh: true}, policy.ReportingHost{ID: "3", Name: "h3"}
	lease := func(h policy.ReportingHost, mac, ip string) policy.AddressLease {
		return policy.AddressLease{Host: h, DHCPLease: fleet.DHCPLease{MAC: mac, IP: ip, Name: "box"}}
	}
	for name, c := range map[string]struct {
		nics    []policy.AddressNIC
		leases  []policy.AddressLease
		holders []policy.MACHolder
		want    string // kinds and addresses of the conflicts
		message string
	}{
		"no conflict": {
			nics:   []policy.AddressNIC{{h1, "v1", "web", "m:web", seenAddresses(fleet.FromAgent, "10.0.0.2", "172.17.0.1")}, {h1, "v2", "db", "m:db", seenAddresses(fleet.FromARP, "10.0.0.5")}},
			leases: []policy.AddressLease{lease(h1, "m:x", "10.0.0.8")},
		},
		"same address on two hosts": {
			nics: []policy.AddressNIC{{h1, "v1", "a", "m:a", seenAddresses(fleet.FromAgent, "10.0.0.5")}, {h2, "v2", "b", "m:b", seenAddresses(fleet.FromAgent, "10.0.0.5")}},
		},
		"two NICs with one address": {
			nics:   []policy.AddressNIC{{h1, "v1", "a", "m:a", seenAddresses(fleet.FromAgent, "10.0.0.8")}},
			leases: []policy.AddressLease{lease(h1, "m:b", "10.0.0.8")},
			want:   "inRange 10.0.0.8, twice 10.0.0.8", message: "On h1 both a (m:a) and a machine with the host name box (m:b) have 10.0.0.8",
		},
		"another machine has a reserved address": {
			nics: []policy.AddressNIC{{h2, "v1", "thief", "m:a", seenAddresses(fleet.FromARP, "10.0.0.2")}},
			want: "reserved 10.0.0.2", message: "thief (m:a) on h2 has 10.0.0.2, which is reserved for m:web",
		},
		"NIC without its reserved address": {
			nics: []policy.AddressNIC{{h1, "v1", "web", "m:web", seenAddresses(fleet.FromLease, "10.0.0.10")}},
			want: "astray 10.0.0.10", message: "10.0.0.2 is reserved for this machine",
		},
		"NIC with its reserved and another address": {
			nics: []policy.AddressNIC{{h1, "v1", "web", "m:web", seenAddresses(fleet.FromLease, "10.0.0.2", "10.0.0.10")}},
		},
		"machine with the gateway's address": {
			nics: []policy.AddressNIC{{h1, "v1", "web", "m:a", seenAddresses(fleet.FromARP, "10.0.0.1")}},
			want: "gateway 10.0.0.1", message: "the network's gateway address",
		},
		"offline host causes no conflict": {
			nics:   []policy.AddressNIC{{away, "v1", "a", "m:a", seenAddresses(fleet.FromAgent, "10.0.0.8", "10.0.0.2")}},
			leases: []policy.AddressLease{lease(away, "m:b", "10.0.0.8")},
		},
		"MAC address on two machines": {
			nics:    []policy.AddressNIC{{h1, "v1", "web", "m:a", nil}},
			holders: []policy.MACHolder{{"m:a", fleet.MACHolder{VMID: "v1", Name: "web", HostName: "h1"}}, {"m:a", fleet.MACHolder{Name: "old", HostName: "h2"}}},
			want:    "mac ", message: "old on h2, which Quantix did not create, has the MAC address m:a of web on h1",
		},
	} {
		got := policy.MergeNetworkAddresses(labNetworkSpec(), c.nics, c.leases, c.holders)
		var kinds, texts []string
		for _, x := range got.Conflicts {
			kinds, texts = append(kinds, string(x.Kind)+" "+x.IP), append(texts, x.Text)
		}
		if strings.Join(kinds, ", ") != c.want || !strings.Contains(strings.Join(texts, "\n"), c.message) {
			t.Errorf("%s: %q %q", name, kinds, texts)
		}
	}
}

func TestAddressListContainsRangesReservationsAndNextFreeAddress(t *testing.T) {
	t.Parallel()
	h1, h2, away := policy.ReportingHost{ID: "1", Name: "h1", Fresh: true}, policy.ReportingHost{ID: "2", Name: "h2", Fresh: true}, policy.ReportingHost{ID: "3", Name: "h3"}
	got := policy.MergeNetworkAddresses(labNetworkSpec(), []policy.AddressNIC{
		{h1, "v1", "web", "m:web", seenAddresses(fleet.FromAgent, "10.0.0.3", "10.0.0.8")},
		{h2, "v2", "db", "m:db", seenAddresses(fleet.FromLease, "10.0.0.10", "10.0.0.11")},
		{away, "v3", "far", "m:far", seenAddresses(fleet.FromLease, "10.0.0.4", "10.0.0.8", "10.0.0.12", "10.0.0.10")},
	}, nil, nil)
	if r := got.Ranges[0]; r.Size != 5 || r.Used != 2 || r.HostName != "h2" || r.Reserved != 1 {
		t.Errorf("the range is %+v", r)
	}
	if r := got.Reservations; len(r) != 2 || r[0].VMName != "web" || r[0].InRange || r[1].VMID != "" || !r[1].InRange {
		t.Errorf("reservations %+v", r)
	}
	if got.Next != "10.0.0.5" {
		t.Errorf("the next free address is %q", got.Next)
	}
	if n := len(got.InUse); n != 8 || !got.InUse[n-1].Unknown || got.InUse[0].Unknown {
		t.Errorf("in use: %+v", got.InUse)
	}
	full := labNetworkSpec()
	full.IPv4.Gateway = "10.0.0.1/30"
	full.IPv4.DHCP.Ranges = []fleet.AddressRange{{Start: "10.0.0.2", End: "10.0.0.2"}}
	if got := policy.MergeNetworkAddresses(full, nil, nil, nil).Next; got != "" {
		t.Errorf("next address of a full network: %q", got)
	}
	full.IPv4.DHCP.Leases = nil
	if got := policy.MergeNetworkAddresses(full, nil, nil, nil).Next; got != "10.0.0.2" {
		t.Errorf("where DHCP gives out all, the next is %q", got)
	}
	v6 := fleet.NetworkSpec{Mode: fleet.NetworkIsolated, IPv6: &fleet.Subnet{Gateway: "fd00::1/64", DHCP: &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: "fd00::1:0", End: "fd00::2:ff"}, {Start: "fd00::2", End: "fd00::ffff:ffff:ffff:ffff"}}}}}
	if r := policy.MergeNetworkAddresses(v6, nil, nil, nil).Ranges; r[0].Size != 0x10100 || r[1].Size < 1<<62 {
		t.Errorf("IPv6 ranges: %+v", r)
	}
}
