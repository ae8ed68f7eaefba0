package control_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// A stolen host key and known UUIDs must not let a host take VMs of other hosts.
func TestHostCannotTakeVMsOfOtherHosts(t *testing.T) {
	p := newTwoHostFixture(t)
	claim := func(proof string, power fleet.Power) {
		t.Helper()
		d := p.domain(power)
		d.Proof = proof
		p.other.report("claim "+proof, d)
	}
	guess := wire.Proof(p.id, strings.Repeat("0", 32))
	for _, proof := range []string{"", guess, p.mark} {
		claim(proof, fleet.Running)
		p.report("gone " + proof)
		vm := p.wantOnOwn("claimed with "+proof, fleet.PhaseMissing)
		if !p.listedUnmanaged(p.other) {
			t.Error("the claim is not shown")
		}
		if _, err := p.PlaceVM(t.Context(), chief, p.id, p.other.agent.HostID); fleet.CodeOf(err) != fleet.Conflict {
			t.Errorf("a person can choose the host: %v", err)
		}
		if ok, why := vm.Allows(fleet.ActStart); !ok {
			t.Errorf("claimed with %q, the VM is not started: %s", proof, why)
		}
		p.reportOwn(fleet.Running)
		claim(proof, fleet.Running)
		p.reportOwn(fleet.Running)
		p.wantOnOwn("claimed with "+proof, fleet.PhaseRunning)
	}
	p.other.report("found")
	_, err := p.Report(t.Context(), p.other.agent, wire.Report{Seq: p.other.next(), Digest: "foreign", State: &wire.State{
		Host: fleet.HostStatus{Connected: true}, Discovered: []fleet.DiscoveredVM{{ID: p.id, Name: "web", Status: fleet.VMStatus{Power: fleet.Running}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.reportOwn(fleet.Stopped)
	if ok, _ := p.wantOnOwn("with a domain without any stamp", fleet.PhaseStopped).Allows(fleet.ActStart); !ok {
		t.Error("a domain without any stamp keeps the VM from starting")
	}
	if _, err := p.DeleteVM(t.Context(), chief, p.id, true, "web"); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "h2") {
		t.Errorf("disks are deleted under a guest that runs on another host: %v", err)
	}
	p.exec(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, p.other.agent.HostID)
	if ok, why := p.wantOnOwn("with the other host silent", fleet.PhaseStopped).Allows(fleet.ActStart); !ok {
		t.Errorf("a host that is offline and shows no mark keeps it from starting: %s", why)
	}
	// The other host proves the right ownership mark while the VM's own host runs the VM: this raises an alarm, and the
	// VM stays on its own host.
	p.reportOwn(fleet.Running)
	p.runOnBothHosts()
}

func TestVMsWithoutOwnershipMarkGetOne(t *testing.T) {
	p := newTwoHostFixture(t)
	bare := p.domain(fleet.Running)
	bare.Proof = ""
	for _, proof := range []string{"", wire.Proof(p.id, "other")} {
		bare.Proof = proof
		if answer := p.report("bare"+proof, bare); len(answer.Marks) != 1 || answer.Marks[p.id] != p.mark {
			t.Errorf("showing %q, the host is given %v", proof, answer.Marks)
		}
	}
	if answer := p.report("marked", p.domain(fleet.Running)); len(answer.Marks) != 0 {
		t.Errorf("the host is given %v again", answer.Marks)
	}
	// No host gets the ownership mark of another host's VM or of an unknown VM.
	if answer := p.other.report("claim", bare); len(answer.Marks) != 0 {
		t.Errorf("another host is given %v", answer.Marks)
	}
	gone := bare
	gone.Status.Power = fleet.Absent
	if answer := p.report("gone", gone); len(answer.Marks) != 0 {
		t.Errorf("a host without the VM is given %v", answer.Marks)
	}
}

func TestOwnershipMarkIsNeverShown(t *testing.T) {
	p := newTwoHostFixture(t)
	if one[string](p.rig, `SELECT vm_proof(vm_id, mark) FROM vm_marks`) != wire.Proof(p.id, p.mark) {
		t.Error("the proof in SQL is another than in Go")
	}
	if len(p.mark) != 32 || p.mark == one[string](p.rig, `SELECT new_mark()`) {
		t.Errorf("the mark %q is no 128-bit secret", p.mark)
	}
}
