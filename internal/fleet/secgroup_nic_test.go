package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestFilterChangeOfNICTakesEffectNow(t *testing.T) {
	t.Parallel()
	const groupID = "01a206b5-2a62-7003-a101-340befa69b68"
	yes := true
	a := fleet.VMSpec{NICs: []fleet.NIC{{MAC: "52:54:00:00:00:01", Network: "lan"}}}
	for name, c := range map[string]struct {
		change func(*fleet.NIC)
		when   fleet.EffectTime
		says   string
	}{
		"a security group": {func(n *fleet.NIC) { n.SecurityGroups = []fleet.SecurityGroupID{groupID} }, fleet.WhenNow, "into 1 more security group"},
		"anti-spoofing":    {func(n *fleet.NIC) { n.AntiSpoofing = &yes }, fleet.WhenNow, "anti-spoofing on"},
		"the network":      {func(n *fleet.NIC) { n.Network, n.AntiSpoofing = "other", &yes }, fleet.WhenNextBoot, "→"},
	} {
		b := fleet.VMSpec{NICs: slices.Clone(a.NICs)}
		c.change(&b.NICs[0])
		got := a.Diff(b, true)
		if len(got) != 1 || got[0].When != c.when || !strings.Contains(got[0].Words, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestInvalidSecurityGroupsOfNICRefused(t *testing.T) {
	t.Parallel()
	many := make([]fleet.SecurityGroupID, fleet.MaxNICGroups+1)
	for i := range many {
		many[i] = fleet.NewID[fleet.SecurityGroupID]()
	}
	for name, ids := range map[string][]fleet.SecurityGroupID{"too many": many, "none": {"web"}, "twice": {many[0], many[0]}} {
		spec := fleet.VMSpec{CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS, Power: fleet.Stopped, NICs: []fleet.NIC{{Network: "lan", SecurityGroups: ids}}}
		var checks fleet.Checks
		spec.Check(&checks, "spec")
		var err *fleet.Error
		if !errors.As(checks.Err(), &err) || !strings.HasPrefix(err.Fields[0].Field, "spec.nics[0].securityGroups") {
			t.Errorf("%s: %v", name, checks.Err())
		}
	}
}
