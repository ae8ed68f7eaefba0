package drift_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"quantix/internal/drift"
	"quantix/internal/fleet"
)

func natSpec() fleet.NetworkSpec {
	return fleet.NetworkSpec{
		Mode: fleet.NetworkNAT, DNS: true, Domain: "lab.example.org", Bridge: "qx-lan",
		IPv4: &fleet.Subnet{Gateway: "10.5.0.1/24", DHCP: &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: "10.5.0.100", End: "10.5.0.150"}}}},
	}
}

func TestIgnoredDriftShowsAgainWhenHostValueChanges(t *testing.T) {
	t.Parallel()
	reported := []fleet.Drift{{Field: "cpus", Applied: "1", Actual: "3"}, {Field: "memoryMiB", Applied: "1", Actual: "2", Ignored: true}}
	ignored, err := drift.Ignore(nil, reported, map[string]string{"cpus": "3"})
	if err != nil {
		t.Fatal(err)
	}
	marked := drift.MarkIgnored(reported, ignored)
	if !marked[0].Ignored || marked[1].Ignored || len(drift.Open(marked)) != 1 {
		t.Errorf("the drift is %+v: a host's report cannot ignore drift, and a user can", marked)
	}
	if reported[0].Ignored {
		t.Error("the report itself was changed")
	}
	reported[0].Actual = "4"
	if marked := drift.MarkIgnored(reported, ignored); marked[0].Ignored {
		t.Error("another value of the host is ignored, too")
	}
	for name, seen := range map[string]map[string]string{"no field": {}, "a value that changed": {"cpus": "3"}, "no drift": {"name": ""}} {
		if _, err := drift.Ignore(ignored, reported, seen); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	if left := drift.Forget(ignored, []string{"cpus"}); left == nil || len(left) != 0 {
		t.Errorf("after the drift is shown again, %+v is ignored", left)
	}
}

func TestNetworkDriftNamesFieldsWithTheirValues(t *testing.T) {
	t.Parallel()
	applied, actual := natSpec(), natSpec()
	actual.DNS, actual.MTU, actual.Bridge = false, 9000, "virbr9"
	subnet := *actual.IPv4
	subnet.DHCP = &fleet.DHCP{Ranges: subnet.DHCP.Ranges, Leases: []fleet.StaticLease{{MAC: "52:54:00:AA:00:01", IP: "10.5.0.9", Name: "db"}}}
	actual.IPv4 = &subnet
	got := drift.OfNetwork(applied, actual, applied, []string{drift.PartMTU, drift.PartForward, drift.PartOther})
	var lines []string
	for _, d := range got {
		lines = append(lines, d.Field+": "+d.Applied+" -> "+d.Actual+" "+string(d.Take))
	}
	want := []string{
		"bridge: qx-lan -> virbr9 ",
		"mtu: default -> 9000 9000",
		"dns: on -> off false",
		`ipv4.reservations: none -> 10.5.0.9 for 52:54:00:aa:00:01 db [{"mac":"52:54:00:AA:00:01","ip":"10.5.0.9","name":"db"}]`,
		"mode: NAT -> NAT, with settings that Quantix does not have ",
		"other: none -> none, with settings that Quantix does not have ",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the drift is\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if parts := drift.NetworkParts(got); !slices.Equal(parts, []string{drift.PartForward, drift.PartBridge, drift.PartMTU, drift.PartDNS, drift.PartAddresses, drift.PartOther}) {
		t.Errorf("the parts are %q", parts)
	}
	// A field whose value on the host is the wanted one was accepted.
	if left := drift.OfNetwork(applied, actual, actual, []string{drift.PartMTU}); len(left) != 0 {
		t.Errorf("after all values were accepted, the drift is %+v", left)
	}
}

func TestAcceptedNetworkDriftChangesOnlyItsField(t *testing.T) {
	t.Parallel()
	applied, actual := natSpec(), natSpec()
	actual.MTU, actual.Domain, actual.Mode = 1400, "", fleet.NetworkRouted
	actual.IPv4 = &fleet.Subnet{Gateway: "10.6.0.1/24", DHCP: &fleet.DHCP{Leases: []fleet.StaticLease{{MAC: "52:54:00:aa:00:01", IP: "10.5.0.9"}}}}
	all := drift.OfNetwork(applied, actual, applied, nil)
	spec := natSpec()
	before := *spec.IPv4
	for _, f := range []string{"mtu", "domain", "ipv4.ranges", "ipv4.reservations"} {
		if err := drift.Accept(&spec, *drift.Find(all, f)); err != nil {
			t.Errorf("accept %s: %v", f, err)
		}
	}
	want := natSpec()
	want.MTU, want.Domain, want.IPv4 = 1400, "", &fleet.Subnet{Gateway: "10.5.0.1/24", DHCP: &fleet.DHCP{Leases: actual.IPv4.DHCP.Leases}}
	if !reflect.DeepEqual(spec, want) {
		t.Errorf("the spec is %+v, want %+v", spec, want)
	}
	if len(before.DHCP.Ranges) != 1 || len(before.DHCP.Leases) != 0 {
		t.Errorf("the earlier spec was changed in place: %+v", before.DHCP)
	}
	for _, f := range []string{"mode", "ipv4.gateway"} {
		if why := drift.WhyNotAcceptable(*drift.Find(all, f)); !strings.Contains(why, "fixed") {
			t.Errorf("%s: %q", f, why)
		}
	}
	if why := drift.WhyNotAcceptable(drift.OfAutostart()); why == "" {
		t.Error("the drift of autostart is acceptable")
	}
	if err := drift.Accept(&spec, fleet.Drift{Field: "mtu", Take: []byte(`"big"`)}); err == nil {
		t.Error("a value that is no number is accepted")
	}
	if got := drift.ChangedNetworkFields(natSpec(), want); !slices.Equal(got, []string{"mtu", "domain", "ipv4.ranges", "ipv4.reservations"}) {
		t.Errorf("the changed fields are %q", got)
	}
}

func TestPoolDriftComparesSources(t *testing.T) {
	t.Parallel()
	got := drift.OfPool(drift.PoolSource{Kind: "netfs", Path: "/mnt/a", Server: "nas", Export: "/vm"}, drift.PoolSource{Kind: "dir", Path: "/srv/b"})
	want := []fleet.Drift{
		{Field: "kind", Applied: "netfs", Actual: "dir"},
		{Field: "path", Applied: "/mnt/a", Actual: "/srv/b"},
		{Field: "server", Applied: "nas", Actual: "none"},
		{Field: "export", Applied: "/vm", Actual: "none"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the drift is %+v", got)
	}
	for _, d := range append(got, drift.OfAutostart()) {
		if drift.Label(d.Field) == d.Field {
			t.Errorf("%s has no label", d.Field)
		}
	}
}
