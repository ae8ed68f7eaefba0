package adoption_test

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/adoption"
	"quantix/internal/fleet"
)

func TestDiscoveredPoolJoinsOnlyAnEqualQuantixPool(t *testing.T) {
	t.Parallel()
	found := fleet.DiscoveredPool{Name: "default", Spec: &fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/images"}, PoolID: "reported by the host"}
	equal := fleet.Pool{ID: "p", Name: "default", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/images", Shared: true, Description: "ours"}}
	other, dying := equal, equal
	other.Spec.Path, dying.DeletedAt = "/srv/vm", new(time.Now())
	for name, c := range map[string]struct {
		existing *fleet.Pool
		joins    fleet.PoolID
		refusal  string
	}{
		"no Quantix pool":        {nil, "", ""},
		"an equal pool":          {&equal, "p", ""},
		"another location":       {&other, "", "at another location (/srv/vm)"},
		"a pool that is deleted": {&dying, "", "being deleted"},
	} {
		got := adoption.BesideQuantixPool(found, c.existing)
		if got.PoolID != c.joins || (got.Refusal == "") != (c.refusal == "") || !strings.Contains(got.Refusal, c.refusal) {
			t.Errorf("%s: the pool joins %q with the refusal %q, want %q and %q", name, got.PoolID, got.Refusal, c.joins, c.refusal)
		}
	}
}

func TestSameDefinitionIgnoresWhatHostsDoNotHave(t *testing.T) {
	t.Parallel()
	spec := func() fleet.NetworkSpec {
		return fleet.NetworkSpec{Mode: fleet.NetworkNAT, DNS: true, IPv4: &fleet.Subnet{Gateway: "10.5.0.1/24", DHCP: &fleet.DHCP{}}, PortGroups: []fleet.PortGroup{{Name: "a"}}}
	}
	ours := spec()
	ours.Adopted, ours.Description, ours.IPv4.DHCP = true, "the lab", nil
	ours.PortGroups[0].Restricted = true
	if !adoption.SameDefinition(spec(), ours) {
		t.Error("settings that hosts do not have make a difference")
	}
	for name, change := range map[string]func(*fleet.NetworkSpec){
		"DNS":         func(s *fleet.NetworkSpec) { s.DNS = false },
		"the gateway": func(s *fleet.NetworkSpec) { s.IPv4.Gateway = "10.5.0.2/24" },
		"a VLAN":      func(s *fleet.NetworkSpec) { s.PortGroups[0].VLAN = &fleet.VLAN{ID: 7} },
		"a DHCP range": func(s *fleet.NetworkSpec) {
			s.IPv4.DHCP = &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: "10.5.0.9", End: "10.5.0.10"}}}
		},
	} {
		edited := spec()
		change(&edited)
		if adoption.SameDefinition(spec(), edited) {
			t.Errorf("%s makes no difference", name)
		}
	}
}
