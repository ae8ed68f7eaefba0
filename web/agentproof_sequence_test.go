package web_test

import (
	"net/http"
	"strings"
	"testing"

	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// The portal ignores reports with older sequence numbers. If it accepted a number beyond the session's range, it would
// ignore all later reports of that session.
func TestReportSequenceNumberBeyondSessionRangeRefused(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	m := p.joinHost(agentURL, "h1")
	pool, err := p.control.CreatePool(t.Context(), fleet.SystemActor, storage.CreatePool{
		Name: "local", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/vm"}, HostIDs: []fleet.HostID{m.id},
	})
	if err != nil {
		t.Fatal(err)
	}
	vm := p.addVM(p.addProject("shop"), m.id, "web", fleet.Stopped)
	state := func(power fleet.Power) *wire.State {
		return &wire.State{
			Host: fleet.HostStatus{Connected: true, Hypervisor: string(power)}, VMs: []wire.VMReport{{ID: vm, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: power}}},
			Pools:    []wire.PoolReport{{Name: "local", Status: fleet.PoolStatus{State: fleet.PoolActive, MountPath: string(power)}}},
			Networks: []wire.NetworkReport{{Name: "default", Kind: fleet.NetworkLibvirt, Status: fleet.NetworkStatus{Bridge: string(power)}}},
		}
	}
	sendReport := func(seq int64, power fleet.Power) error {
		_, err := m.Report(t.Context(), wire.Report{Seq: seq, Digest: string(power), State: state(power)})
		return err
	}
	expectReportStored := func(power fleet.Power) {
		t.Helper()
		m.seq++
		if err := sendReport(m.seq, power); err != nil {
			t.Fatal(err)
		}
		var got string
		err := p.pool.QueryRow(t.Context(), `SELECT concat_ws(' ', h.status->>'hypervisor', v.status->>'power', ph.status->>'mountPath', nh.status->>'bridge')
			FROM hosts h JOIN vms v ON v.host_id = h.id JOIN assignments ph ON ph.host_id = h.id AND ph.noun = 'pool' JOIN assignments nh ON nh.host_id = h.id AND nh.noun = 'net'`).Scan(&got)
		if want := strings.Repeat(string(power)+" ", 3) + string(power); err != nil || got != want {
			t.Fatalf("after a valid report the database contains %q, want %q: %v", got, want, err)
		}
	}
	expectReportStored(fleet.Running)
	work := m.claimJob(t)
	before := p.rowsChangedByAgents()
	for _, seq := range []int64{1 << 62, 1<<63 - 1, m.seq + 1<<32, (m.seq>>32 + 1) << 32, m.seq - 1<<32, 0, -1} {
		if err := sendReport(seq, fleet.Crashed); wire.StatusOf(err) != http.StatusUnprocessableEntity {
			t.Errorf("a report numbered %d: %v", seq, err)
		}
		_, err := m.Finish(t.Context(), work.ID, wire.Finish{
			Epoch: work.Epoch, Generation: 1 << 62, Seq: seq, Outcome: wire.Done, Pool: &fleet.PoolStatus{State: fleet.PoolFailed},
		})
		if wire.StatusOf(err) != http.StatusUnprocessableEntity {
			t.Errorf("a result numbered %d: %v", seq, err)
		}
	}
	for table, rows := range p.rowsChangedByAgents() {
		if rows != before[table] {
			t.Errorf("%s has changed:\n%s\n-- before:\n%s", table, rows, before[table])
		}
	}
	expectReportStored(fleet.Paused)
	m.seq++
	done := wire.Finish{Epoch: work.Epoch, Generation: 1 << 62, Seq: m.seq, Outcome: wire.Done, Pool: &state(fleet.Paused).Pools[0].Status}
	if _, err := m.Finish(t.Context(), work.ID, done); err != nil {
		t.Fatal(err)
	}
	var observed int64
	if err := p.pool.QueryRow(t.Context(), `SELECT observed_generation FROM assignments WHERE pool_id = $1`, pool.ID).Scan(&observed); err != nil || observed != 1 {
		t.Errorf("the observed generation is %d, want 1: %v", observed, err)
	}

	// A new range of sequence numbers begins when the agent sends another hello, or the host joins again.
	storeMaxSequences := func() {
		t.Helper()
		for _, table := range []string{"hosts", "host_sessions", "vms", "assignments"} {
			p.execSQL(`UPDATE ` + table + ` SET report_seq = 1::bigint << 62`)
		}
	}
	storeMaxSequences()
	m.sendHello(t, "h1")
	expectReportStored(fleet.Running)
	storeMaxSequences()
	p.rejoinHost(agentURL, m)
	m.sendHello(t, "h1-again")
	expectReportStored(fleet.Stopped)
}
