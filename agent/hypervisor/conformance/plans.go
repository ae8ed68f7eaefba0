package conformance

import (
	"reflect"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// planVM returns the plan of the VM's definition.
func (h *testHost) planVM(vm fleet.VM) fleet.DefinitionDiff {
	h.t.Helper()
	before, after, err := h.PlanVM(h.ctx, h.applyJob(vm))
	h.requireNoError("plan", err)
	return hypervisor.DiffDefinitions(before, after)
}

// changedLines returns the added or removed lines of a plan without their indent.
func changedLines(d fleet.DefinitionDiff, op fleet.LineOp) string {
	var out []string
	for _, l := range d.Lines {
		if l.Op == op {
			out = append(out, strings.TrimSpace(l.Text))
		}
	}
	return strings.Join(out, "\n")
}

// A plan lists the changed lines of a definition, and changes nothing.
func testPlanVM(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.newVM(newDisk(p))
	vm.Spec.NICs = []fleet.NIC{{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}}
	fresh := h.planVM(vm)
	comes := changedLines(fresh, fleet.LineAdded)
	for _, want := range []string{"<name>" + vm.Name + "</name>", ">131072</memory>", vm.Spec.Disks[0].Volume, vm.Spec.NICs[0].MAC} {
		if !strings.Contains(comes, want) {
			t.Errorf("the plan of a new VM lacks %q:\n%s", want, comes)
		}
	}
	if changedLines(fresh, fleet.LineSame)+changedLines(fresh, fleet.LineRemoved) != "" {
		t.Errorf("the plan of a new VM has unchanged or removed lines: %+v", fresh)
	}
	if s := h.wantStatus(vm.ID, 0); s.Power != fleet.Absent {
		t.Errorf("the plan created a VM: %+v", s)
	}
	h.wantNoVolume(p, vm.Spec.Disks[0].Volume)

	h.apply(vm)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	was := h.wantPower(vm.ID, fleet.Running)
	if d := h.planVM(vm); len(d.Lines) != 0 {
		t.Errorf("without a change, the plan is %+v, want no lines", d)
	}
	more := vm
	more.Generation++
	more.Spec.MemoryMiB = 192
	more.Spec.Disks = append([]fleet.Disk{}, more.Spec.Disks...)
	more.Spec.Disks = append(more.Spec.Disks, newDisk(p))
	more.Spec.NICs = nil
	d := h.planVM(more)
	comes, goes := changedLines(d, fleet.LineAdded), changedLines(d, fleet.LineRemoved)
	if !strings.Contains(comes, ">196608</memory>") || !strings.Contains(comes, more.Spec.Disks[1].Volume) || !strings.Contains(goes, ">131072</memory>") || !strings.Contains(goes, vm.Spec.NICs[0].MAC) {
		t.Errorf("the plan adds\n%s\nand removes\n%s", comes, goes)
	}
	if strings.Contains(comes+goes, "quantix.dev") || strings.Contains(comes+goes, "generation") {
		t.Errorf("the plan contains Quantix's metadata; the plan adds\n%s\nand removes\n%s", comes, goes)
	}
	if again := h.planVM(more); !reflect.DeepEqual(again, d) {
		t.Errorf("a second plan of the same change differs: %+v", again)
	}
	if now := h.wantStatus(vm.ID, vm.Generation); !reflect.DeepEqual(now, was) {
		t.Errorf("the plan changed the VM's status to %+v, before %+v", now, was)
	}
	h.wantNoVolume(p, more.Spec.Disks[1].Volume)

	// A user without the permission sees the guest's hardware, but no paths of the host.
	told := d.VisibleToUser(false)
	text := changedLines(told, fleet.LineAdded) + changedLines(told, fleet.LineRemoved)
	if told.Hidden == 0 || strings.Contains(text, p.Spec.Path) || !strings.Contains(text, ">196608</memory>") || len(d.VisibleToUser(true).Lines) != len(d.Lines) {
		t.Errorf("a user without the permission sees\n%s\nand %d lines are hidden", text, told.Hidden)
	}

	// ApplySecurityGroup sends the rules of a NIC's groups, so a plan needs no rules.
	grouped := vm
	grouped.Spec.NICs = []fleet.NIC{vm.Spec.NICs[0]}
	grouped.Spec.NICs[0].SecurityGroups = []fleet.SecurityGroupID{fleet.NewID[fleet.SecurityGroupID]()}
	if _, _, err := h.PlanVM(h.ctx, h.applyJob(grouped)); err != nil {
		t.Errorf("plan a NIC that joins a security group: %v", err)
	}

	gone := more
	gone.Spec.Disks = append([]fleet.Disk{}, more.Spec.Disks...)
	gone.Spec.Disks[1].PoolID = fleet.NewID[fleet.PoolID]()
	if _, _, err := h.PlanVM(h.ctx, h.applyJob(gone)); err == nil {
		t.Error("a disk in a pool that the host lacks is planned")
	}
	foreign := vm
	foreign.ID = h.harness.DefineUnmanagedVM(t, uniqueName("foreign"))
	if _, _, err := h.PlanVM(h.ctx, h.applyJob(foreign)); err == nil {
		t.Error("an edit of an unmanaged domain is planned")
	}
}
