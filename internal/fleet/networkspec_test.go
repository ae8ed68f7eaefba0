package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func newSubnet(gateway string, ranges ...string) *fleet.Subnet {
	s := &fleet.Subnet{Gateway: gateway}
	for _, r := range ranges {
		from, to, _ := strings.Cut(r, "-")
		if s.DHCP == nil {
			s.DHCP = &fleet.DHCP{}
		}
		s.DHCP.Ranges = append(s.DHCP.Ranges, fleet.AddressRange{Start: from, End: to})
	}
	return s
}

func subnetWithLeases(gateway string, all ...string) *fleet.Subnet {
	s := &fleet.Subnet{Gateway: gateway, DHCP: &fleet.DHCP{}}
	for _, text := range all {
		words := append(strings.Fields(text), "")
		s.DHCP.Leases = append(s.DHCP.Leases, fleet.StaticLease{MAC: words[0], IP: words[1], Name: words[2]})
	}
	return s
}

// Each invalid field is reported once, with a sentence that names the problem.
func TestNetworkSpecsAreValidated(t *testing.T) {
	t.Parallel()
	const mac, other = "52:54:00:12:34:56", "52:54:00:12:34:57"
	many := func(n int, each func(int) string) (out []string) {
		for i := range n {
			out = append(out, each(i))
		}
		return out
	}
	for name, c := range map[string]struct {
		change func(*fleet.NetworkSpec)
		field  string // empty: no error
		says   string
	}{
		"valid":                    {func(*fleet.NetworkSpec) {}, "", ""},
		"isolated, without subnet": {func(s *fleet.NetworkSpec) { s.Mode, s.IPv4 = fleet.NetworkIsolated, nil }, "", ""},
		"routed, IPv6 only": {func(s *fleet.NetworkSpec) {
			s.Mode, s.IPv4, s.IPv6 = fleet.NetworkRouted, nil, newSubnet("fd00:5::1/64")
		}, "", ""},
		"unknown mode":           {func(s *fleet.NetworkSpec) { s.Mode = "bonded" }, "spec.mode", "mode"},
		"NAT without a subnet":   {func(s *fleet.NetworkSpec) { s.IPv4 = nil }, "spec.ipv4.gateway", "needs an IPv4 subnet"},
		"routed without subnet":  {func(s *fleet.NetworkSpec) { s.Mode, s.IPv4 = fleet.NetworkRouted, nil }, "spec.ipv4.gateway", "needs a subnet"},
		"isolated with a device": {func(s *fleet.NetworkSpec) { s.Mode, s.Device = fleet.NetworkIsolated, "eth1" }, "spec.device", "isolated"},
		"no gateway":             {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("") }, "spec.ipv4.gateway", "Enter the hosts' IPv4 address"},
		"gateway without prefix": {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.0.0.1") }, "spec.ipv4.gateway", "address with its prefix length, such as"},
		"gateway with markup":    {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.0.0.1/24'/><x>") }, "spec.ipv4.gateway", "Enter the hosts' IPv4 address"},
		"IPv6 under IPv4":        {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("fd00::1/64") }, "spec.ipv4.gateway", "is not an IPv4 address."},
		"IPv4 under IPv6":        {func(s *fleet.NetworkSpec) { s.IPv6 = newSubnet("10.9.0.1/24") }, "spec.ipv6.gateway", "is not an IPv6 address"},
		"IPv4-mapped IPv6":       {func(s *fleet.NetworkSpec) { s.IPv6 = newSubnet("::ffff:10.9.0.1/120") }, "spec.ipv6.gateway", "is not an IPv6 address"},
		"a zone":                 {func(s *fleet.NetworkSpec) { s.IPv6 = newSubnet("fe80::1%eth0/64") }, "spec.ipv6.gateway", "Enter the hosts' IPv6 address"},
		"the subnet's address":   {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.0/24") }, "spec.ipv4.gateway", "the subnet itself. Enter one within it, such as 10.5.0.1/24"},
		"the broadcast address":  {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.255/24") }, "spec.ipv4.gateway", "broadcast"},
		"too small":              {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.1/31") }, "spec.ipv4.gateway", "/8 to /30"},
		"too large":              {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.1/4") }, "spec.ipv4.gateway", "/8 to /30"},
		"loopback":               {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("127.0.0.1/8") }, "spec.ipv4.gateway", "loopback"},
		"link-local":             {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("169.254.3.1/24") }, "spec.ipv4.gateway", "link-local"},
		"multicast":              {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("224.0.1.1/24") }, "spec.ipv4.gateway", "multicast"},
		"reserved":               {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("250.0.1.1/24") }, "spec.ipv4.gateway", "reserved"},
		"this network":           {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("0.1.0.1/24") }, "spec.ipv4.gateway", "reserved"},
		"IPv6 link-local":        {func(s *fleet.NetworkSpec) { s.IPv6 = newSubnet("fe80::1/64") }, "spec.ipv6.gateway", "link-local"},
		"IPv6 multicast":         {func(s *fleet.NetworkSpec) { s.IPv6 = newSubnet("ff05::1/64") }, "spec.ipv6.gateway", "multicast"},
		"IPv6 prefix too short":  {func(s *fleet.NetworkSpec) { s.IPv6 = newSubnet("fd00::1/48") }, "spec.ipv6.gateway", "/64 to /126"},
		"IPv6 subnet's address":  {func(s *fleet.NetworkSpec) { s.IPv6 = newSubnet("fd00:5::/64") }, "spec.ipv6.gateway", "the subnet itself"},

		"DHCP without addresses":  {func(s *fleet.NetworkSpec) { s.IPv4.DHCP = &fleet.DHCP{} }, "spec.ipv4.dhcp.ranges", "switch DHCP off"},
		"range outside":           {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.1/24", "10.6.0.10-10.6.0.20") }, "spec.ipv4.dhcp.ranges[0]", "10.6.0.10 is outside the subnet 10.5.0.0/24"},
		"range across the subnet": {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.1/24", "10.5.0.10-10.5.1.20") }, "spec.ipv4.dhcp.ranges[0]", "10.5.1.20 is outside"},
		"range reversed":          {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.1/24", "10.5.0.20-10.5.0.10") }, "spec.ipv4.dhcp.ranges[0]", "before it begins"},
		"range with the gateway":  {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.15/24", "10.5.0.10-10.5.0.20") }, "spec.ipv4.dhcp.ranges[0]", "the hosts' own address"},
		"range from the gateway":  {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.10/24", "10.5.0.10-10.5.0.20") }, "spec.ipv4.dhcp.ranges[0]", "the hosts' own address"},
		"range to broadcast":      {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.1/24", "10.5.0.10-10.5.0.255") }, "spec.ipv4.dhcp.ranges[0]", "broadcast"},
		"range without end":       {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.1/24", "10.5.0.10") }, "spec.ipv4.dhcp.ranges[0]", "first and the last"},
		"range of IPv6":           {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.1/24", "fd00::1-fd00::9") }, "spec.ipv4.dhcp.ranges[0]", "IPv4 address"},
		"one address":             {func(s *fleet.NetworkSpec) { s.IPv4 = newSubnet("10.5.0.1/24", "10.5.0.10-10.5.0.10") }, "", ""},
		"adjacent ranges": {func(s *fleet.NetworkSpec) {
			s.IPv4 = newSubnet("10.5.0.1/24", "10.5.0.10-10.5.0.20", "10.5.0.21-10.5.0.30")
		}, "", ""},
		"ranges that overlap": {func(s *fleet.NetworkSpec) {
			s.IPv4 = newSubnet("10.5.0.1/24", "10.5.0.10-10.5.0.20", "10.5.0.20-10.5.0.30")
		}, "spec.ipv4.dhcp.ranges[1]", "overlaps"},
		"a range within another": {func(s *fleet.NetworkSpec) {
			s.IPv4 = newSubnet("10.5.0.1/24", "10.5.0.10-10.5.0.90", "10.5.0.20-10.5.0.30")
		}, "spec.ipv4.dhcp.ranges[1]", "overlaps"},
		"IPv6 ranges that overlap": {func(s *fleet.NetworkSpec) {
			s.IPv6 = newSubnet("fd00:5::1/64", "fd00:5::10-fd00:5::20", "fd00:5::15-fd00:5::30")
		}, "spec.ipv6.dhcp.ranges[1]", "overlaps"},
		"too many ranges": {func(s *fleet.NetworkSpec) {
			s.IPv4 = newSubnet("10.5.0.1/24", many(fleet.MaxRanges+1, func(i int) string { return fmt.Sprintf("10.5.0.%[1]d-10.5.0.%[1]d", 10+i) })...)
		}, "spec.ipv4.dhcp.ranges", "at most 8"},

		"leases": {func(s *fleet.NetworkSpec) {
			s.IPv4 = subnetWithLeases("10.5.0.1/24", mac+" 10.5.0.9 web", other+" 10.5.0.10")
		}, "", ""},
		"lease outside":        {func(s *fleet.NetworkSpec) { s.IPv4 = subnetWithLeases("10.5.0.1/24", mac+" 10.6.0.9") }, "spec.ipv4.dhcp.leases[0]", "10.6.0.9 is outside"},
		"lease of the gateway": {func(s *fleet.NetworkSpec) { s.IPv4 = subnetWithLeases("10.5.0.1/24", mac+" 10.5.0.1") }, "spec.ipv4.dhcp.leases[0]", "own address"},
		"two leases of a NIC": {func(s *fleet.NetworkSpec) {
			s.IPv4 = subnetWithLeases("10.5.0.1/24", mac+" 10.5.0.9", strings.ToUpper(mac)+" 10.5.0.10")
		}, "spec.ipv4.dhcp.leases[1]", "already has a lease."},
		"two leases of an address": {func(s *fleet.NetworkSpec) {
			s.IPv4 = subnetWithLeases("10.5.0.1/24", mac+" 10.5.0.9", other+" 10.5.0.9")
		}, "spec.ipv4.dhcp.leases[1]", "10.5.0.9 is already leased"},
		"lease without MAC":        {func(s *fleet.NetworkSpec) { s.IPv4 = subnetWithLeases("10.5.0.1/24", "x 10.5.0.9") }, "spec.ipv4.dhcp.leases[0]", "MAC"},
		"lease of a multicast MAC": {func(s *fleet.NetworkSpec) { s.IPv4 = subnetWithLeases("10.5.0.1/24", "01:00:5e:00:00:01 10.5.0.9") }, "spec.ipv4.dhcp.leases[0]", "unicast"},
		"lease without address":    {func(s *fleet.NetworkSpec) { s.IPv4 = subnetWithLeases("10.5.0.1/24", mac+" here") }, "spec.ipv4.dhcp.leases[0]", `"here" is not an IPv4 address`},
		"lease with a wrong name":  {func(s *fleet.NetworkSpec) { s.IPv4 = subnetWithLeases("10.5.0.1/24", mac+" 10.5.0.9 a_b") }, "spec.ipv4.dhcp.leases[0]", "host name"},
		"leases of IPv6":           {func(s *fleet.NetworkSpec) { s.IPv6 = subnetWithLeases("fd00:5::1/64", mac+" fd00:5::9") }, "spec.ipv6.dhcp.leases", "for IPv4"},
		"maximum number of leases": {func(s *fleet.NetworkSpec) {
			s.IPv4 = subnetWithLeases("10.5.0.1/16", many(fleet.MaxLeases, func(i int) string { return fmt.Sprintf("52:54:00:00:00:%02x 10.5.1.%d", i, i) })...)
		}, "", ""},
		"too many leases": {func(s *fleet.NetworkSpec) {
			s.IPv4 = subnetWithLeases("10.5.0.1/16", many(fleet.MaxLeases+1, func(i int) string { return fmt.Sprintf("52:54:00:00:%02x:%02x 10.5.1.1", i>>8, i&255) })...)
		}, "spec.ipv4.dhcp.leases", "at most 256"},

		"a domain":                      {func(s *fleet.NetworkSpec) { s.Domain = "lab.example.org" }, "", ""},
		"invalid domain":                {func(s *fleet.NetworkSpec) { s.Domain = "-lab" }, "spec.domain", "DNS domain"},
		"a domain with a line end":      {func(s *fleet.NetworkSpec) { s.Domain = "a\nserver=1.2.3.4" }, "spec.domain", "DNS domain"},
		"a bridge":                      {func(s *fleet.NetworkSpec) { s.Bridge = "qx-lab" }, "", ""},
		"a bridge of 16 bytes":          {func(s *fleet.NetworkSpec) { s.Bridge = "a-name-too-long1" }, "spec.bridge", "1–15"},
		"a bridge name with %d":         {func(s *fleet.NetworkSpec) { s.Bridge = "virbr%d" }, "spec.bridge", "1–15"},
		"a wrong device":                {func(s *fleet.NetworkSpec) { s.Device = "../eth0" }, "spec.device", "1–15"},
		"own bridge as outgoing device": {func(s *fleet.NetworkSpec) { s.Device, s.Bridge = "qx-lab", "qx-lab" }, "spec.device", "own bridge"},
		"MTU too small":                 {func(s *fleet.NetworkSpec) { s.MTU = 68 }, "spec.mtu", "576"},
		"MTU too large":                 {func(s *fleet.NetworkSpec) { s.MTU = 70000 }, "spec.mtu", "65535"},
		"too small for IPv6":            {func(s *fleet.NetworkSpec) { s.MTU, s.IPv6 = 1000, newSubnet("fd00:5::1/64") }, "spec.mtu", "1280"},
		"a long description":            {func(s *fleet.NetworkSpec) { s.Description = strings.Repeat("x", 5000) }, "spec.description", "4096"},
	} {
		spec := fleet.NetworkSpec{Mode: fleet.NetworkNAT, DNS: true, IPv4: newSubnet("192.168.50.1/24", "192.168.50.100-192.168.50.199")}
		c.change(&spec)
		var checks fleet.Checks
		spec.Check(&checks, "spec")
		err := checks.Err()
		got := fieldsWithErrors(func(c *fleet.Checks) { spec.Check(c, "spec") })
		if c.field == "" && err != nil || c.field != "" && (!slices.Equal(got, []string{c.field}) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v %v, want %s with %q", name, got, err, c.field, c.says)
		}
	}
	for _, device := range []string{"lo", "eth0", "docker0", "enp3s0", "ens18", "wlan0", "bond0", "veth12ab", "br-0123456789ab", "vnet7", "all", "default", "virbr-x"} {
		spec := fleet.NetworkSpec{Mode: fleet.NetworkIsolated, Bridge: device}
		if got := len(fieldsWithErrors(func(c *fleet.Checks) { spec.Check(c, "spec") })); got != 1 && device != "virbr-x" || got != 0 && device == "virbr-x" {
			t.Errorf("a bridge %s has %d faults", device, got)
		}
	}
}

func TestNetworkSpecTidyTrimsAndNormalizes(t *testing.T) {
	t.Parallel()
	spec := fleet.NetworkSpec{Bridge: " b ", IPv4: subnetWithLeases(" 10.5.0.1/24 ", "52-54-00-AB-CD-EF 10.5.0.9 web")}.Normalized()
	if got := fmt.Sprint(spec.Bridge, spec.IPv4.Gateway, spec.IPv4.DHCP.Leases); got != "b10.5.0.1/24[{52:54:00:ab:cd:ef 10.5.0.9 web}]" {
		t.Error(got)
	}
}

func TestNetworkActionsRefusedWithReason(t *testing.T) {
	t.Parallel()
	unmanaged := "The network was discovered on hosts and is not managed here."
	defined := fleet.NetworkView{Network: fleet.Network{Spec: &fleet.NetworkSpec{}}}
	deleting := fleet.NetworkView{Network: fleet.Network{Spec: &fleet.NetworkSpec{}, DeletedAt: &defined.CreatedAt}}
	statusOn := func(assigned, leaving bool, state fleet.NetworkState) fleet.NetworkHost {
		return fleet.NetworkHost{HostName: "h1", Assigned: assigned, Releasing: leaving, State: state}
	}
	for name, c := range map[string]struct {
		of interface {
			Allows(fleet.Action) (bool, string)
		}
		action fleet.Action
		why    string
	}{
		"assign an unmanaged network":        {fleet.NetworkView{}, fleet.ActAssign, unmanaged},
		"delete an unmanaged network":        {fleet.NetworkView{}, fleet.ActDelete, unmanaged + " It disappears when no host reports it any more."},
		"assign":                             {defined, fleet.ActAssign, ""},
		"delete":                             {defined, fleet.ActDelete, ""},
		"assign during deletion":             {deleting, fleet.ActAssign, "The network is being deleted. The deletion ends when the last host has released the network."},
		"delete during deletion":             {deleting, fleet.ActDelete, "The network is being deleted. The deletion ends when the last host has released the network."},
		"retry, failed":                      {statusOn(true, false, fleet.NetworkFailed), fleet.ActRetry, ""},
		"start, stopped":                     {statusOn(true, false, fleet.NetworkInactive), fleet.ActRetry, ""},
		"retry, active":                      {statusOn(true, false, fleet.NetworkActive), fleet.ActRetry, "The network is active there."},
		"retry, host offline":                {statusOn(true, false, fleet.NetworkUnknown), fleet.ActRetry, "The host is offline. It retries when it is online again."},
		"retry, pending":                     {statusOn(true, false, fleet.NetworkPending), fleet.ActRetry, "The host has not finished yet."},
		"retry during release":               {statusOn(false, true, fleet.NetworkFailed), fleet.ActRetry, "h1 is releasing the network."},
		"release during release":             {statusOn(false, true, fleet.NetworkActive), fleet.ActRelease, "h1 is releasing the network."},
		"release":                            {statusOn(true, false, fleet.NetworkActive), fleet.ActRelease, ""},
		"release, not assigned":              {statusOn(false, false, fleet.NetworkActive), fleet.ActRelease, "The network is not assigned to h1."},
		"release a network of the same name": {fleet.NetworkHost{HostName: "h1", Status: &fleet.NetworkStatus{NameTaken: true}}, fleet.ActRelease, "h1 has another network of this name, which Quantix did not create."},
		"grant an isolated network":          {defined, fleet.ActGrant, ""},
		"action of another type":             {defined, fleet.ActStart, `There is no action "start".`},
	} {
		if ok, why := c.of.Allows(c.action); ok != (c.why == "") || why != c.why {
			t.Errorf("%s: %v %q, want %q", name, ok, why, c.why)
		}
	}
}
