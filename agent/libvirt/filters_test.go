//go:build linux

package libvirt_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

func parsePrefixes(all ...string) (out []netip.Prefix) {
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// sampleSecurityGroup returns a security group with a rule of each kind.
func sampleSecurityGroup() secgroup.FlatGroup {
	id := fleet.NewID[fleet.SecurityGroupID]()
	return secgroup.FlatGroup{ID: id, Name: "web", Revision: 1, Rules: []secgroup.FlatRule{
		{ID: "00000000000a", Direction: secgroup.Ingress, Protocol: secgroup.TCP, FromPort: 80, ToPort: 81, Remotes: parsePrefixes("10.0.0.0/8", "2001:db8::/64")},
		{ID: "00000000000b", Direction: secgroup.Ingress, Protocol: secgroup.ICMP, Anybody: true},
		{ID: "00000000000c", Direction: secgroup.Ingress, Protocol: secgroup.ICMPv6, Anybody: true},
		{ID: "00000000000d", Direction: secgroup.Egress, Protocol: secgroup.UDP, FromPort: 53, Remotes: parsePrefixes("10.0.0.53/32")},
		{ID: "00000000000e", Direction: secgroup.Egress, Protocol: secgroup.AnyProtocol, Anybody: true},
	}}
}

// editFilter adds a rule to a network filter, as virsh nwfilter-edit does.
func editFilter(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "filter.xml")
	text := strings.Replace(virsh(t, "nwfilter-dumpxml", name), "</filter>", "<rule action='accept' direction='inout' priority='1'><all/></rule></filter>", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, "nwfilter-define", file)
}

func nicWithGroups(network string, antiSpoofing bool, groups ...secgroup.FlatGroup) fleet.NIC {
	n := fleet.NIC{Network: network, MAC: "52:54:00:51:00:01", AntiSpoofing: &antiSpoofing}
	for _, g := range groups {
		n.SecurityGroups = append(n.SecurityGroups, g.ID)
	}
	return n.WithNormalizedFilter()
}

// A second apply does not rewrite filters. An unmanaged filter on a NIC is reported as drift, and only a reapply
// removes it.
func TestFiltersAreNotRewrittenWithoutChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	g := sampleSecurityGroup()
	ctx := t.Context()
	f.requireNoError(f.ApplySecurityGroup(ctx, g))
	name := hypervisor.GroupFilterName(g.ID)
	vm := f.newVM()
	vm.Spec.NICs = []fleet.NIC{nicWithGroups("default", true, g)}
	in := applyJob(vm, f.pool)
	in.Groups = []secgroup.FlatGroup{g}
	f.requireNoError(f.ApplyVM(ctx, in))
	own := hypervisor.FilterName(vm.ID, vm.Spec.NICs[0].MAC)
	// A second apply writes nothing, because libvirt returns both filters unchanged.
	for _, filter := range []string{name, own} {
		file := "/etc/libvirt/nwfilter/" + filter + ".xml"
		before, err := os.Stat(file)
		f.requireNoError(err)
		f.requireNoError(f.ApplySecurityGroup(ctx, g))
		f.requireNoError(f.ApplyVM(ctx, in))
		after, err := os.Stat(file)
		if f.requireNoError(err); !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("%s was written again", filter)
		}
	}
	// An unmanaged filter on the NIC is reported and stays.
	edit(t, string(vm.ID), "<filterref filter='"+own+"'/>", "<filterref filter='clean-traffic'/>")
	in.VM.Generation, in.VM.Spec.CPUs = 2, 2
	f.requireNoError(f.ApplyVM(ctx, in))
	s, _, err := f.VM(ctx, vm.ID)
	if f.requireNoError(err); len(s.Drift) != 1 || s.Drift[0].Field != "nics" || !strings.Contains(s.Drift[0].Actual, "network filter clean-traffic") || s.NICs[0].Filter != "clean-traffic" {
		t.Errorf("with an unmanaged filter: %+v", s)
	}
	in.Reapply = true
	f.requireNoError(f.ApplyVM(ctx, in))
	if s, _, err := f.VM(ctx, vm.ID); err != nil || len(s.Drift) != 0 || s.NICs[0].Filter != own {
		t.Errorf("after reapply: %+v %v", s, err)
	}
	if x := virsh(t, "dumpxml", string(vm.ID)); !strings.Contains(x, "<filterref filter='"+own+"'/>") {
		t.Errorf("the NIC has no filter: %s", x)
	}
}
