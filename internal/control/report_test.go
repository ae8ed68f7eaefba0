package control_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestOldReportIgnored(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	running := wire.VMReport{ID: id, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running, CPUs: 1}}
	slow := wire.Report{Seq: r.nextSeq(), Digest: "old", State: &wire.State{Host: fleet.HostStatus{Connected: true}}}
	r.reportState("new", running)
	if _, err := r.Report(t.Context(), r.agent, slow); err != nil {
		t.Fatal(err)
	}
	if power := queryValue[string](r, `SELECT status->>'power' FROM vms`); power != "running" {
		t.Fatalf("an older report made the VM %s", power)
	}
}

func TestVMMissingInFullReportIsAbsent(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.reportState("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	r.reportState("2")
	if power := queryValue[string](r, `SELECT status->>'power' FROM vms`); power != "absent" {
		t.Fatalf("power %s", power)
	}
}

func TestReportWithoutHypervisorKeepsVMStatus(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.reportState("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	_, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.nextSeq(), Digest: "2", State: &wire.State{Host: fleet.HostStatus{Error: "no libvirtd"}}})
	if err != nil {
		t.Fatal(err)
	}
	if power := queryValue[string](r, `SELECT status->>'power' FROM vms`); power != "running" {
		t.Fatalf("power %s", power)
	}
}

func TestUnchangedHeartbeatWritesNoVMRow(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	report := wire.VMReport{ID: id, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running, NICs: []fleet.NICState{{MAC: "52:54:00:00:00:01"}}}}
	r.reportState("1", report)
	version := queryValue[string](r, `SELECT xmin::text || ctid::text FROM vms`)
	r.reportState("1", report) // even a full report writes nothing
	if answer, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.nextSeq(), Digest: "1"}); err != nil || answer.Resend {
		t.Fatalf("answer %+v, %v", answer, err)
	}
	if now := queryValue[string](r, `SELECT xmin::text || ctid::text FROM vms`); now != version {
		t.Fatal("a heartbeat in which nothing changed wrote a new row version")
	}
}

func TestUnmanagedVMsAreListed(t *testing.T) {
	r := newHostFixture(t)
	unknownVM := fleet.NewID[fleet.VMID]()
	_, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.nextSeq(), Digest: "1", State: &wire.State{
		Host:       fleet.HostStatus{Connected: true},
		VMs:        []wire.VMReport{{ID: unknownVM, Name: "stamped-elsewhere", Status: fleet.VMStatus{Power: fleet.Running}}},
		Discovered: []fleet.DiscoveredVM{{ID: fleet.NewID[fleet.VMID](), Name: "legacy", Status: fleet.VMStatus{Power: fleet.Stopped}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	names := queryValue[[]string](r, `SELECT array_agg(name ORDER BY name) FROM found_vms`)
	if diff := cmp.Diff([]string{"legacy", "stamped-elsewhere"}, names); diff != "" {
		t.Fatal(diff)
	}
	r.reportState("2")
	if n := queryValue[int](r, `SELECT count(*) FROM found_vms`); n != 0 {
		t.Fatal("domains that are gone are still shown")
	}
}

func TestVMsUnknownWhenHypervisorIsLost(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.reportState("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	blind := func(digest string) {
		_, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.nextSeq(), Digest: digest, State: &wire.State{Host: fleet.HostStatus{Error: "no libvirtd"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	blind("2")
	r.execSQL(`UPDATE host_sessions SET blind_since = now() - interval '31 seconds'`)
	blind("3") // the agent is still online
	vm, err := r.GetVM(t.Context(), fleet.SystemActor, id)
	if err != nil || vm.Phase != fleet.PhaseUnknown {
		t.Fatalf("phase %s, %v", vm.Phase, err)
	}
	host, err := r.GetHost(t.Context(), fleet.SystemActor, r.agent.HostID)
	if err != nil || host.Phase != fleet.HostDegraded {
		t.Fatalf("host %s, %v", host.Phase, err)
	}
	r.reportState("4", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	if vm, _ = r.GetVM(t.Context(), fleet.SystemActor, id); vm.Phase != fleet.PhaseRunning {
		t.Fatalf("phase %s after the hypervisor came back", vm.Phase)
	}
}
