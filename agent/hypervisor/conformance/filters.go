package conformance

import (
	"context"
	"net/netip"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// newSecurityGroup returns a security group that accepts one port from one address, and all outgoing packets. The
// test's cleanup releases the group.
func (h *testHost) newSecurityGroup() secgroup.FlatGroup {
	h.t.Helper()
	g := secgroup.FlatGroup{ID: fleet.NewID[fleet.SecurityGroupID](), Name: uniqueName("group"), Revision: 1, Rules: []secgroup.FlatRule{
		{ID: "00000000000a", Direction: secgroup.Ingress, Protocol: secgroup.TCP, FromPort: 80, ToPort: 80, Remotes: []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32")}},
		{ID: "00000000000b", Direction: secgroup.Egress, Protocol: secgroup.AnyProtocol, Anybody: true},
	}}
	h.cleanup("release "+g.Name, func(ctx context.Context) error { return h.ReleaseSecurityGroup(ctx, g) })
	return g
}

// applyJobWithGroups returns a job for the VM with these security groups.
func (h *testHost) applyJobWithGroups(vm fleet.VM, groups ...secgroup.FlatGroup) hypervisor.ApplyWork {
	return changedJob(h.applyJob(vm), func(o *hypervisor.ApplyWork) { o.Groups = groups })
}

// packetCounts returns the packet counts of the VM's only NIC by rule. It returns nil if the NIC has no counters.
func (h *testHost) packetCounts(vm fleet.VMID) (rules map[string]secgroup.PassCount) {
	h.t.Helper()
	all, err := h.FilterCounts(h.ctx)
	h.requireNoError("read counters", err)
	for _, c := range all {
		if c.VM != vm {
			continue
		}
		rules = map[string]secgroup.PassCount{}
		for _, chain := range c.Chains {
			for rule, n := range chain {
				rules[rule] = rules[rule].Plus(n)
			}
		}
	}
	return rules
}

// A security group exists on the host while a NIC is in the group. A NIC gets and loses its filter while its guest
// runs.
func testSecurityGroups(t *testing.T, h *testHost) {
	g, other := h.newSecurityGroup(), h.newSecurityGroup()
	h.requireNoError("apply a group", h.ApplySecurityGroup(h.ctx, g))
	h.requireNoError("apply the group again", h.ApplySecurityGroup(h.ctx, g))
	vm := h.newVM()
	card := fleet.NIC{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}
	grouped := card
	grouped.SecurityGroups = []fleet.SecurityGroupID{g.ID, other.ID}
	vm.Spec.NICs = []fleet.NIC{grouped}
	if err := h.ApplyVM(h.ctx, h.applyJobWithGroups(vm, g)); err == nil {
		t.Error("a NIC with a group that is not in the job was applied")
	}
	h.requireNoError("apply", h.ApplyVM(h.ctx, h.applyJobWithGroups(vm, g, other)))
	filter := hypervisor.FilterName(vm.ID, card.MAC)
	if s := h.wantStatus(vm.ID, 1); len(s.NICs) != 1 || s.NICs[0].Filter != filter || len(s.Drift) != 0 {
		t.Errorf("after the NIC joined security groups, the VM's status is %+v, want the NIC's filter", s)
	}
	if h.packetCounts(vm.ID) != nil {
		t.Error("packets are counted at a NIC of a stopped VM")
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.waitUntil("the host counts the packets of each rule", func() bool {
		rules := h.packetCounts(vm.ID)
		_, first := rules[g.Rules[0].ID]
		_, second := rules[g.Rules[1].ID]
		return first && second
	})
	g.Rules[0].Remotes, g.Revision = nil, 2
	h.requireNoError("apply other rules", h.ApplySecurityGroup(h.ctx, g))
	h.requireRefusal("release", h.ReleaseSecurityGroup(h.ctx, g), vm.Name)
	vm.Generation, vm.Spec.NICs = 2, []fleet.NIC{card}
	h.requireNoError("remove the NIC from the group", h.ApplyVM(h.ctx, h.applyJobWithGroups(vm)))
	if s := h.wantStatus(vm.ID, 2); s.NICs[0].Filter != "" || len(s.NextBoot) != 0 || len(s.Drift) != 0 {
		t.Errorf("after the NIC left its security groups, the VM's status is %+v, want no filter", s)
	}
	guard := true
	guarded := card
	guarded.AntiSpoofing = &guard
	vm.Generation, vm.Spec.NICs = 3, []fleet.NIC{guarded}
	h.requireNoError("enable anti-spoofing", h.ApplyVM(h.ctx, h.applyJobWithGroups(vm)))
	if s := h.wantStatus(vm.ID, 3); s.NICs[0].Filter != filter || len(s.NextBoot) != 0 {
		t.Errorf("after anti-spoofing was enabled, the VM's status is %+v, want the NIC's filter", s)
	}
	h.requireNoError("release", h.ReleaseSecurityGroup(h.ctx, g))
	h.requireNoError("release the group again", h.ReleaseSecurityGroup(h.ctx, g))
}

// Filters edited outside Quantix are reported at the group or the NIC, and stay until they are reapplied.
func testFilterDrift(t *testing.T, h *testHost) {
	g := h.newSecurityGroup()
	h.requireNoError("apply a group", h.ApplySecurityGroup(h.ctx, g))
	vm := h.newVM()
	card := fleet.NIC{Network: h.harness.ActiveNetwork, MAC: uniqueMAC(), SecurityGroups: []fleet.SecurityGroupID{g.ID}}
	vm.Spec.NICs = []fleet.NIC{card}
	in := h.applyJobWithGroups(vm, g)
	h.requireNoError("apply", h.ApplyVM(h.ctx, in))
	changed := func() string {
		for _, x := range h.hostState().Groups {
			if x.ID == g.ID {
				return x.Changed
			}
		}
		return ""
	}
	if said := changed(); said != "" {
		t.Errorf("an unchanged security group is reported as changed: %q", said)
	}
	h.harness.EditFilter(t, hypervisor.GroupFilterName(g.ID))
	h.waitUntil("the group shows that somebody changed it", func() bool { return changed() == hypervisor.FilterChangedText(hypervisor.GroupFilterName(g.ID)) })
	if h.requireNoError("apply the VM", h.ApplyVM(h.ctx, in)); changed() == "" {
		t.Error("a job for a VM reverted the change of its group")
	}
	h.requireNoError("reapply the group", h.ApplySecurityGroup(h.ctx, g))
	h.waitUntil("the group has no change", func() bool { return changed() == "" })

	filter := hypervisor.FilterName(vm.ID, card.MAC)
	h.harness.EditFilter(t, filter)
	h.wantDrift(vm.ID, "after the NIC's filter was changed", "nics")
	if s := h.wantStatus(vm.ID, 1); s.NICs[0].FilterDrift != hypervisor.FilterChangedText(filter) || s.Drift[0].Take != nil {
		t.Errorf("after an edit of the NIC's filter, the NICs are %+v and the drift is %+v", s.NICs, s.Drift)
	}
	in.VM.Generation, in.VM.Spec.CPUs = 2, 2
	h.requireNoError("edit another field", h.ApplyVM(h.ctx, in))
	h.wantDrift(vm.ID, "after another edit", "nics")
	in.Reapply = true
	h.requireNoError("reapply", h.ApplyVM(h.ctx, in))
	h.wantDrift(vm.ID, "after the reapply")
	in.Reapply = false
	h.harness.UndefineFilter(t, filter)
	h.waitUntil("the NIC shows that its filter is missing", func() bool {
		s, _, err := h.VM(h.ctx, vm.ID)
		return err == nil && len(s.NICs) == 1 && s.NICs[0].FilterDrift == hypervisor.FilterMissingText(filter)
	})
	in.Reapply = true
	h.requireNoError("reapply", h.ApplyVM(h.ctx, in))
	h.wantDrift(vm.ID, "after its filter was created again")
}
