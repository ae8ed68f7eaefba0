package control_test

import (
	"testing"
	"time"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/wire"
)

// Reports and jobs go on while the database cannot store metrics: without a partition, and on a full disk.
func TestReportsAndJobsGoOnWithoutMetrics(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string][]string{
		"without a partition": {`DO $$ DECLARE part text; BEGIN
			FOR part IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'metric_samples'::regclass LOOP EXECUTE 'DROP TABLE ' || part; END LOOP; END $$`},
		"on a full disk": {
			`CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`,
			`CREATE TRIGGER no_room BEFORE INSERT ON metric_samples FOR EACH ROW EXECUTE FUNCTION no_room()`,
			`CREATE TRIGGER no_room BEFORE INSERT ON metric_layouts FOR EACH ROW EXECUTE FUNCTION no_room()`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHostFixture(t)
			r.sendHello("a", "b")
			id := r.addVM("web")
			for _, s := range sql {
				r.execSQL(s)
			}
			w := r.claimJobs()
			if len(w) != 1 {
				t.Fatalf("%d jobs", len(w))
			}
			if err := r.finishJob(w[0], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running}}); err != nil {
				t.Fatal(err)
			}
			samples := &metric.Samples{Seconds: 10, VMs: metric.Table{IDs: []string{string(id)}, Values: map[string][]fleet.MetricValue{"cpu.usage": {50}}}}
			r.sendReport(wire.Report{
				Seq: r.nextSeq(), Digest: "d", Samples: samples,
				State: &wire.State{Host: fleet.HostStatus{Connected: true}, VMs: []wire.VMReport{{ID: id, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Stopped}}}},
			})
			if power := queryValue[string](r, `SELECT status->>'power' FROM vms WHERE id = $1`, id); power != "stopped" {
				t.Errorf("the VM is %q after the report", power)
			}
			r.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour'`)
			r.sendReport(wire.Report{Seq: r.nextSeq(), Digest: "d", Samples: samples, Meters: []wire.Meter{{ID: id, CPUNanos: 77}}})
			if n := queryValue[int](r, `SELECT count(*) FROM host_sessions WHERE seen_at > now() - interval '1 minute'`); n != 1 {
				t.Error("the heartbeat did not count")
			}
			if n := queryValue[int](r, `SELECT count(*) FROM metric_samples`); n != 0 {
				t.Errorf("%d samples were stored", n)
			}
		})
	}
}

// Refused samples do not change the host's state, and its charts say why they have no values.
func TestChartsOfHostSayWhySamplesWereRefused(t *testing.T) {
	r := newHostFixture(t)
	r.sendHello("a", "b")
	r.sendReport(wire.Report{Seq: r.nextSeq(), Digest: "d", State: &wire.State{Host: fleet.HostStatus{Connected: true}}, Samples: &metric.Samples{Refused: "vms: The report has 10000 metrics."}})
	m, err := r.HostMetrics(t.Context(), chief, r.agent.HostID, query.MetricRange{From: time.Now().Add(-time.Hour)})
	if err != nil || m.Problem != "vms: The report has 10000 metrics." {
		t.Errorf("%q, %v", m.Problem, err)
	}
}
