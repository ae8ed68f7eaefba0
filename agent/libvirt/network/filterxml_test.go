package network

import (
	"net/netip"
	"path/filepath"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
	"quantix/internal/secgroup"
	"quantix/internal/testkit/golden"
)

// The XML of the filters matches the golden files, and is unchanged after libvirtxml has read it back.
func TestFilterDefinitionsMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	const id, vm = "01a206b5-2a62-7003-a101-340befa69b68", "01a206b5-2a62-7003-a101-340befa69b69"
	guard := true
	group := secgroup.FlatGroup{ID: id, Name: "web", Rules: []secgroup.FlatRule{
		{ID: "00000000000a", Direction: secgroup.Ingress, Protocol: secgroup.TCP, FromPort: 80, ToPort: 81, Remotes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/64")}},
		{ID: "00000000000b", Direction: secgroup.Ingress, Protocol: secgroup.ICMP, Anybody: true},
		{ID: "00000000000c", Direction: secgroup.Egress, Protocol: secgroup.UDP, FromPort: 53, Anybody: true},
		{ID: "00000000000d", Direction: secgroup.Egress, Protocol: secgroup.AnyProtocol, Remotes: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}},
		{ID: "00000000000e", Direction: secgroup.Ingress, Protocol: secgroup.TCP}, // a group without members
	}}
	for name, x := range map[string]libvirtxml.NWFilter{
		"filter-group":   groupFilter(group),
		"filter-card":    nicFilter(vm, fleet.NIC{MAC: "52:54:00:00:00:01", SecurityGroups: []fleet.SecurityGroupID{id}, AntiSpoofing: &guard}),
		"filter-guarded": nicFilter(vm, fleet.NIC{MAC: "52:54:00:00:00:01", AntiSpoofing: &guard}),
	} {
		text, err := x.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		golden.Text(t, filepath.Join("testdata", name+".xml"), text+"\n")
		var again libvirtxml.NWFilter
		if err := again.Unmarshal(text); err != nil || !isSameFilter(again, x) {
			t.Errorf("%s differs after it was read back: %v", name, err)
		}
	}
	if other := group; isSameFilter(groupFilter(group), groupFilter(secgroup.FlatGroup{ID: other.ID, Rules: other.Rules[1:]})) {
		t.Error("a filter with fewer rules counts as equal")
	}
}
