package control_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// A stolen host key and known UUIDs must not let a host take VMs of other hosts.
func TestHostCannotClaimVMsOfOtherHosts(t *testing.T) {
	p := newTwoHostFixture(t)
	claim := func(proof string, power fleet.Power) {
		t.Helper()
		d := p.vmReport(power)
		d.Proof = proof
		p.otherHost.reportState("claim "+proof, d)
	}
	guess := wire.OwnershipProof(p.vmID, strings.Repeat("0", 32))
	for _, proof := range []string{"", guess, p.ownershipMark} {
		claim(proof, fleet.Running)
		p.reportState("gone " + proof)
		vm := p.wantOnOwnHost("claimed with "+proof, fleet.PhaseMissing)
		if !p.isListedUnmanaged(p.otherHost) {
			t.Error("the claim is not shown")
		}
		if _, err := p.ChooseVMHost(t.Context(), chief, p.vmID, p.otherHost.agent.HostID); fleet.CodeOf(err) != fleet.Conflict {
			t.Errorf("a person can choose the host: %v", err)
		}
		if ok, why := vm.Allows(fleet.ActStart); !ok {
			t.Errorf("claimed with %q, the VM is not started: %s", proof, why)
		}
		p.reportFromOwnHost(fleet.Running)
		claim(proof, fleet.Running)
		p.reportFromOwnHost(fleet.Running)
		p.wantOnOwnHost("claimed with "+proof, fleet.PhaseRunning)
	}
	p.otherHost.reportState("found")
	_, err := p.Report(t.Context(), p.otherHost.agent, wire.Report{Seq: p.otherHost.nextSeq(), Digest: "foreign", State: &wire.State{
		Host: fleet.HostStatus{Connected: true}, Discovered: []fleet.DiscoveredVM{{ID: p.vmID, Name: "web", Status: fleet.VMStatus{Power: fleet.Running}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.reportFromOwnHost(fleet.Stopped)
	if ok, _ := p.wantOnOwnHost("with a domain without any stamp", fleet.PhaseStopped).Allows(fleet.ActStart); !ok {
		t.Error("a domain without any stamp keeps the VM from starting")
	}
	if _, err := p.DeleteVM(t.Context(), chief, p.vmID, true, "web"); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "h2") {
		t.Errorf("disks are deleted under a guest that runs on another host: %v", err)
	}
	p.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, p.otherHost.agent.HostID)
	if ok, why := p.wantOnOwnHost("with the other host silent", fleet.PhaseStopped).Allows(fleet.ActStart); !ok {
		t.Errorf("a host that is offline and shows no mark keeps it from starting: %s", why)
	}
	// Both hosts report the VM as running and prove its ownership mark. This raises an alarm, and the VM stays assigned to
	// its own host.
	p.reportFromOwnHost(fleet.Running)
	p.reportRunningOnBothHosts()
}

func TestReportAnswerContainsMissingOwnershipMark(t *testing.T) {
	p := newTwoHostFixture(t)
	bare := p.vmReport(fleet.Running)
	bare.Proof = ""
	for _, proof := range []string{"", wire.OwnershipProof(p.vmID, "other")} {
		bare.Proof = proof
		if answer := p.reportState("bare"+proof, bare); len(answer.Marks) != 1 || answer.Marks[p.vmID] != p.ownershipMark {
			t.Errorf("showing %q, the host is given %v", proof, answer.Marks)
		}
	}
	if answer := p.reportState("marked", p.vmReport(fleet.Running)); len(answer.Marks) != 0 {
		t.Errorf("the host is given %v again", answer.Marks)
	}
	// A host does not get the ownership mark of a VM that is assigned to another host or that does not exist.
	if answer := p.otherHost.reportState("claim", bare); len(answer.Marks) != 0 {
		t.Errorf("another host is given %v", answer.Marks)
	}
	gone := bare
	gone.Status.Power = fleet.Absent
	if answer := p.reportState("gone", gone); len(answer.Marks) != 0 {
		t.Errorf("a host without the VM is given %v", answer.Marks)
	}
}

func TestOwnershipMarkIsNeverShown(t *testing.T) {
	p := newTwoHostFixture(t)
	if queryValue[string](p.hostFixture, `SELECT vm_proof(vm_id, mark) FROM vm_marks`) != wire.OwnershipProof(p.vmID, p.ownershipMark) {
		t.Error("the proof in SQL is another than in Go")
	}
	if len(p.ownershipMark) != 32 || p.ownershipMark == queryValue[string](p.hostFixture, `SELECT new_mark()`) {
		t.Errorf("the mark %q is no 128-bit secret", p.ownershipMark)
	}
}
