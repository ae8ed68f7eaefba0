package control_test

import (
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// reportWithAge sends a report that left the host transit ago, with an inventory that was inventoryAge old at that
// time. A full report contains the VMs.
func (r *hostFixture) reportWithAge(digest string, full bool, inventoryAge, transit time.Duration, vms ...wire.VMReport) {
	r.t.Helper()
	in := wire.Report{
		Seq: r.nextSeq(), Digest: digest, StateAgeMs: inventoryAge.Milliseconds(),
		Stamp: &wire.Stamp{At: queryValue[time.Time](r, `SELECT now()`).Add(-transit - time.Minute), AgoMs: time.Minute.Milliseconds()},
	}
	if full {
		in.State = &wire.State{Host: fleet.HostStatus{Connected: true}, VMs: vms}
	}
	if _, err := r.Report(r.t.Context(), r.agent, in); err != nil {
		r.t.Fatal(err)
	}
}

// The age of a report is the time since its inventory began, not since its arrival.
func TestReportAgeCountsFromHypervisorInventory(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	if err := r.finishJob(r.claimJobs()[0], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running}}); err != nil {
		t.Fatal(err)
	}
	web := wire.VMReport{ID: id, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}}
	long, short := fleet.Freshness+time.Second, time.Second
	for name, c := range map[string]struct {
		say  func()
		vm   fleet.Phase
		host fleet.HostPhase
	}{
		"looked just now":                     {func() { r.reportWithAge("a", true, short, 0, web) }, fleet.PhaseRunning, fleet.HostOnline},
		"heard, but looked long ago":          {func() { r.reportWithAge("a", true, long, 0, web) }, fleet.PhaseUnknown, fleet.HostDegraded},
		"long under way":                      {func() { r.reportWithAge("a", true, short, long, web) }, fleet.PhaseUnknown, fleet.HostUnknown},
		"a beat that looked just now":         {func() { r.reportWithAge("a", true, long, 0, web); r.reportWithAge("a", false, short, 0) }, fleet.PhaseRunning, fleet.HostOnline},
		"a beat that looked long ago":         {func() { r.reportWithAge("a", true, long, 0, web); r.reportWithAge("a", false, long, 0) }, fleet.PhaseUnknown, fleet.HostDegraded},
		"a beat that was long under way":      {func() { r.reportWithAge("a", true, long, long, web); r.reportWithAge("a", false, short, long) }, fleet.PhaseUnknown, fleet.HostUnknown},
		"a beat that saw what nobody has yet": {func() { r.reportWithAge("a", true, long, 0, web); r.reportWithAge("b", false, short, 0) }, fleet.PhaseUnknown, fleet.HostDegraded},
		"a word from the future":              {func() { r.reportWithAge("a", true, -time.Hour, -time.Hour, web) }, fleet.PhaseRunning, fleet.HostOnline},
	} {
		r.execSQL(`UPDATE host_sessions SET seen_at = NULL, last_look = now() - interval '1 hour'`)
		c.say()
		vm, err := r.GetVM(t.Context(), fleet.SystemActor, id)
		if err != nil || vm.Phase != c.vm || vm.Attention != (c.vm == fleet.PhaseUnknown) {
			t.Errorf("%s: the VM is %s (%v), want %s", name, vm.Phase, err, c.vm)
		}
		if vm.SeenAt == nil || time.Until(vm.SeenAt.Time) > time.Minute {
			t.Errorf("%s: seen at %v", name, vm.SeenAt)
		}
		host, err := r.GetHost(t.Context(), fleet.SystemActor, r.agent.HostID)
		if err != nil || host.Phase != c.host {
			t.Errorf("%s: the host is %s (%v), want %s", name, host.Phase, err, c.host)
		}
		for filter, n := range map[string]int{"state:" + string(c.host): 1, "-state:" + string(c.host): 0} {
			if page, err := r.ListHosts(t.Context(), fleet.SystemActor, fleet.Query{Filter: filter}); err != nil || len(page.Items) != n {
				t.Errorf("%s: %s lists %d, %v", name, filter, len(page.Items), err)
			}
		}
		doubted, err := r.StaleHosts(t.Context(), fleet.SystemActor)
		b, some := doubted[r.agent.HostID]
		if !some {
			b = control.HostLiveness{Online: true, ReportFresh: true}
		}
		if err != nil || b.ReportFresh != (c.vm == fleet.PhaseRunning) || b.Online != (c.host != fleet.HostUnknown) {
			t.Errorf("%s: believed %+v, %v", name, b, err)
		}
		o, err := r.Overview(t.Context(), fleet.SystemActor)
		if err != nil || o.VMs[c.vm] != 1 {
			t.Errorf("%s: the dashboard counts %v, %v", name, o.VMs, err)
		}
	}
}

// While an agent has no connection to its hypervisor, the host's state is as old as the last inventory. Later reports
// do not make it newer.
func TestHostStateAgeIgnoresReportsWithoutHypervisor(t *testing.T) {
	r := newHostFixture(t)
	r.reportWithAge("a", true, time.Second, 0)
	_, err := r.Report(t.Context(), r.agent, wire.Report{
		Seq: r.nextSeq(), Digest: "b", StateAgeMs: 20_000, State: &wire.State{Host: fleet.HostStatus{Error: "no libvirtd"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if age := queryValue[float64](r, `SELECT extract(epoch FROM now() - looked_at) FROM host_sessions`); age > 15 {
		t.Errorf("the last inventory, read a second before the report, counts as %.0f s old", age)
	}
}
