package placement_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/placement"
)

// newHostWithRules returns a host with HostRules.
func newHostWithRules(name string, memoryMiB int64, labels map[string]string, mates ...placement.RuleMatches) placement.Host {
	h := newHost(name, memoryMiB, 0, func(h *placement.Host) { h.Spec.Labels, h.AgentFields = labels, fleet.OptionalFieldNames() })
	h.Rules = &placement.HostRules{Matches: mates, VM: fleet.Meta{Name: "new", Labels: map[string]string{"tier": "web"}}}
	return h
}

func TestRequiredRulesExcludeHostsAndPreferredRulesRankHosts(t *testing.T) {
	t.Parallel()
	web := fleet.PlacementRule{Of: fleet.RuleVMLabels, Name: "tier=web"}
	apart, db, gone := web, fleet.PlacementRule{Of: fleet.RuleVM, Name: "db"}, placement.RuleMatches{}
	apart.Apart = true
	preferred := func(r fleet.PlacementRule) fleet.PlacementRule { r.Preferred = true; return r }
	on := fleet.PlacementRule{Of: fleet.RuleHost, Name: "b"}
	off := on
	off.Apart = true
	racks := fleet.PlacementRule{Of: fleet.RuleHostLabels, Name: "rack=4, ssd"}
	one := func(name string) placement.RuleMatches {
		return placement.RuleMatches{OnHost: 1, InFleet: 2, ExampleVM: name}
	}
	shunned := func(h placement.Host, by ...string) placement.Host { h.Rules.ExcludedBy = by; return h }
	for name, c := range map[string]struct {
		rules   []fleet.PlacementRule
		hosts   []placement.Host
		want    string // the chosen host; empty: none
		message string // the text of the refusals
	}{
		"apart":                            {[]fleet.PlacementRule{apart}, []placement.Host{newHostWithRules("a", 9000, nil, one("web-1")), newHostWithRules("b", 8000, nil, gone)}, "b", "a has web-1, and the VM must be apart from VMs with tier=web"},
		"apart from several":               {[]fleet.PlacementRule{apart}, []placement.Host{newHostWithRules("a", 9000, nil, placement.RuleMatches{OnHost: 3, InFleet: 3, ExampleVM: "web-1"})}, "", "web-1 and 2 more"},
		"apart, preferred":                 {[]fleet.PlacementRule{preferred(apart)}, []placement.Host{newHostWithRules("a", 9000, nil, one("web-1")), newHostWithRules("b", 8000, nil, gone)}, "b", ""},
		"apart, impossible":                {[]fleet.PlacementRule{preferred(apart)}, []placement.Host{newHostWithRules("a", 9000, nil, one("web-1")), newHostWithRules("b", 8000, nil, one("web-2"))}, "a", ""},
		"together":                         {[]fleet.PlacementRule{db}, []placement.Host{newHostWithRules("a", 9000, nil, placement.RuleMatches{InFleet: 1}), newHostWithRules("b", 8000, nil, placement.RuleMatches{OnHost: 1, InFleet: 1, ExampleVM: "db"})}, "b", "a has no such VM, and the VM must be with the VM db"},
		"together, preferred":              {[]fleet.PlacementRule{preferred(db)}, []placement.Host{newHostWithRules("a", 9000, nil, placement.RuleMatches{InFleet: 1}), newHostWithRules("b", 8000, nil, placement.RuleMatches{OnHost: 1, InFleet: 1, ExampleVM: "db"})}, "b", ""},
		"together with a missing VM":       {[]fleet.PlacementRule{db}, []placement.Host{newHostWithRules("a", 9000, nil, gone)}, "", "there is no such VM in the project"},
		"first of a group to be together":  {[]fleet.PlacementRule{web}, []placement.Host{newHostWithRules("a", 9000, nil, gone)}, "a", ""},
		"on a host":                        {[]fleet.PlacementRule{on}, []placement.Host{newHostWithRules("a", 9000, nil, gone), newHostWithRules("b", 8000, nil, gone)}, "b", "must be on the host b"},
		"not on a host":                    {[]fleet.PlacementRule{off}, []placement.Host{newHostWithRules("a", 8000, nil, gone), newHostWithRules("b", 9000, nil, gone)}, "a", "must not be on the host b"},
		"on a host, preferred":             {[]fleet.PlacementRule{preferred(on)}, []placement.Host{newHostWithRules("a", 9000, nil, gone), newHostWithRules("b", 600, nil, gone)}, "a", ""},
		"hosts by label":                   {[]fleet.PlacementRule{racks}, []placement.Host{newHostWithRules("a", 9000, map[string]string{"rack": "4"}, gone), newHostWithRules("b", 8000, map[string]string{"rack": "4", "ssd": ""}, gone)}, "b", "hosts with rack=4, ssd"},
		"two preferred rules outweigh one": {[]fleet.PlacementRule{preferred(apart), preferred(on)}, []placement.Host{newHostWithRules("a", 9000, nil, gone, gone), newHostWithRules("b", 8000, nil, gone, gone)}, "b", ""},
		"another VM requires to be apart":  {nil, []placement.Host{shunned(newHostWithRules("a", 9000, nil), "quiet", "still"), newHostWithRules("b", 8000, nil)}, "b", "a has quiet and 1 more, which must be apart from this VM"},
	} {
		choice := placement.Place(newSpec(func(s *fleet.VMSpec) { s.Rules = c.rules }), c.hosts)
		got := ""
		if choice.Host != nil {
			got = choice.Host.Name
		}
		why := ""
		if len(choice.Refused) > 0 {
			why = choice.RefusalText(10)
		}
		if got != c.want || !strings.Contains(why, c.message) {
			t.Errorf("%s: chose %q, want %q; %q, want %q", name, got, c.want, why, c.message)
		}
		for _, r := range choice.Refused {
			if r.Plain == "" || strings.Contains(r.Plain, "host b") || strings.Contains(r.Plain, "rack") {
				t.Errorf("%s: %q names a host", name, r.Plain)
			}
		}
	}
}

// For an existing VM only broken rules are reported; a rule without any matching VM is not broken.
func TestOnlyBrokenRequiredRulesAreReported(t *testing.T) {
	t.Parallel()
	rules := []fleet.PlacementRule{
		{Apart: true, Of: fleet.RuleVMLabels, Name: "tier=web"},
		{Of: fleet.RuleVM, Name: "gone"},
		{Of: fleet.RuleHost, Name: "b"},
		{Preferred: true, Of: fleet.RuleHost, Name: "c"},
		{Of: fleet.RuleVM, Name: "elsewhere"},
	}
	h := newHostWithRules("a", 9000, nil, placement.RuleMatches{OnHost: 1, InFleet: 1, ExampleVM: "web-2"}, placement.RuleMatches{}, placement.RuleMatches{}, placement.RuleMatches{}, placement.RuleMatches{InFleet: 1})
	if got := placement.BrokenRequiredRules(rules, h); !slices.Equal(got, []int{0, 2, 4}) {
		t.Errorf("broken are %v", got)
	}
	if got := placement.BrokenRequiredRules(rules, newHost("a", 9000, 0)); len(got) != 0 {
		t.Errorf("of a host without a Ruling: %v", got)
	}
}
