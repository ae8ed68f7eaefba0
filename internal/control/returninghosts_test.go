package control_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// A host returns after a month. Its VM runs on another host since then. The host gets no job of the VM, its old result is
// refused, and its old definition is listed as another host's report.
func TestHostBackAfterMonthGetsNoMovedVM(t *testing.T) {
	p := newTwoHostFixture(t)
	p.queueVMJob(p.vmID, fleet.VMApply)
	old := p.claimJobs()
	if len(old) != 1 {
		t.Fatalf("claimed %+v", old)
	}
	month := func(table, column string) {
		p.execSQL(`UPDATE `+table+` SET `+column+` = `+column+` - interval '31 days' WHERE host_id = $1`, p.agent.HostID)
	}
	for _, column := range []string{"seen_at", "last_look"} {
		month("host_sessions", column)
	}
	month("jobs", "lease_until")
	if err := p.RecoverExpiredJobs(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	p.reportFromOtherHost(fleet.Running)
	if _, err := p.ChooseVMHost(t.Context(), chief, p.vmID, p.otherHost.agent.HostID); err != nil {
		t.Fatal(err)
	}
	p.wantOnOtherHost("after the choice of its host")

	p.sendHello("a month later", "here")
	p.reportFromOwnHost(fleet.Stopped)
	wantCode(t, p.finishJob(old[0], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}), fleet.NotFound)
	if jobs := p.claimJobs(); len(jobs) != 0 {
		t.Errorf("the returned host gets %+v", jobs)
	}
	p.reportFromOtherHost(fleet.Running)
	vm := p.wantOnOtherHost("after the return of its old host")
	if len(vm.Sightings) != 1 || vm.Sightings[0].Power != fleet.Stopped {
		t.Errorf("the old definition is listed as %+v", vm.Sightings)
	}
}
