package control_test

import (
	"math"
	"sync"
	"testing"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Two meter readings ten seconds apart give the VM's CPU load. If the counter restarted or first appeared between the
// readings, there is no load.
func TestVMLoadComputedFromTwoMeters(t *testing.T) {
	r := newHostFixture(t)
	web, db, late := r.addVM("web"), r.addVM("db"), r.addVM("late")
	chief := fleet.Actor{UserID: "u", Name: "ann", Role: fleet.RoleAdmin}
	measured := func(seconds map[fleet.VMID]int64, ids ...fleet.VMID) {
		t.Helper()
		in := wire.Report{Seq: r.nextSeq(), Digest: "1"}
		for _, id := range ids {
			in.Meters = append(in.Meters, wire.Meter{
				ID: id, CPUNanos: seconds[id] * 1e9, MemoryBytes: 1, ReadBytes: 2, WriteBytes: 3, ReceiveBytes: 4, SendBytes: seconds[id],
			})
		}
		if _, err := r.Report(t.Context(), r.agent, in); err != nil {
			t.Fatal(err)
		}
	}
	wait := func() {
		r.execSQL(`UPDATE host_meters SET at = at - interval '10 seconds', before_at = before_at - interval '10 seconds'`)
	}
	shows := func(when string, want map[fleet.VMID]float64) {
		t.Helper()
		page, err := r.ListVMs(t.Context(), chief, fleet.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Items {
			m, err := r.VMMeter(t.Context(), chief, v.ID)
			if err != nil {
				t.Fatal(err)
			}
			var inPage *float64
			if m != nil {
				inPage = m.CPUPercent
			}
			for where, got := range map[string]*float64{"list": v.CPUPercent, "page": inPage} {
				percent, ok := want[v.ID]
				if ok != (got != nil) || ok && math.Abs(*got-percent) > percent/10 {
					t.Errorf("%s, %s: %s has %v, want %v %v", when, where, v.Name, got, ok, percent)
				}
			}
		}
	}
	vms := make([]wire.VMReport, 0, 3)
	for _, id := range []fleet.VMID{web, db, late} {
		vms = append(vms, wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 128}})
	}
	r.reportState("1", vms...)
	for _, id := range []fleet.VMID{web, db, late} {
		if m, err := r.VMMeter(t.Context(), chief, id); m != nil || err != nil {
			t.Fatalf("before any meter: %+v, %v", m, err)
		}
	}
	measured(map[fleet.VMID]int64{web: 100, db: 200}, web, db)
	shows("one meter", nil)
	wait()
	measured(map[fleet.VMID]int64{web: 105, db: 201}, web, db)
	shows("two", map[fleet.VMID]float64{web: 50, db: 10})
	wait()
	measured(map[fleet.VMID]int64{web: 1, db: 203, late: 50}, db, late, web)
	shows("one has begun anew, one is new, and the order is another", map[fleet.VMID]float64{db: 20})
	wait()
	measured(map[fleet.VMID]int64{web: 2, db: 204, late: 60}, db, late, web)
	shows("all have two again", map[fleet.VMID]float64{web: 10, db: 10, late: 100})
	for range 2 {
		for _, nanos := range []int64{math.MinInt64, math.MaxInt64} {
			if _, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.nextSeq(), Digest: "1", Meters: []wire.Meter{{ID: web, CPUNanos: nanos}}}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.ListVMs(t.Context(), chief, fleet.Query{}); err != nil {
				t.Fatalf("a reading of %d by one host fails the page: %v", nanos, err)
			}
		}
	}
	measured(map[fleet.VMID]int64{web: 2, db: 204, late: 60}, late, db, web)
	m, err := r.VMMeter(t.Context(), chief, late)
	if want := (fleet.Meter{ID: late, CPUNanos: 60e9, MemoryBytes: 1, ReadBytes: 2, WriteBytes: 3, ReceiveBytes: 4, SendBytes: 60}); err != nil || m == nil || m.Meter != want {
		t.Errorf("the page shows %+v, %v, want %+v", m, err, want)
	}
	measured(map[fleet.VMID]int64{db: 205}, db)
	if m, err := r.VMMeter(t.Context(), chief, web); m != nil || err != nil {
		t.Errorf("a VM that its host no longer measures: %+v, %v", m, err)
	}
}

// Meter readings of another host's VM are ignored.
func TestMetersOfOtherHostsVMsIgnored(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	vm := wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 128}}
	r.reportState("1", vm)
	own, ownSeq := r.agent, r.seq
	r.agent = r.addHost("thief")
	r.sendHello("two", "there")
	for range 2 {
		if _, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.nextSeq(), Digest: "", Meters: []wire.Meter{{ID: id, CPUNanos: 7}}}); err != nil {
			t.Fatal(err)
		}
	}
	chief := fleet.Actor{UserID: "u", Name: "ann", Role: fleet.RoleAdmin}
	if m, err := r.VMMeter(t.Context(), chief, id); m != nil || err != nil {
		t.Fatalf("another host's meter is shown: %+v, %v", m, err)
	}
	r.agent, r.seq = own, ownSeq
	if _, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.nextSeq(), Digest: "1", Meters: []wire.Meter{{ID: id, CPUNanos: 9}, {ID: id, CPUNanos: 8}}}); err != nil {
		t.Fatal(err)
	}
	var m *query.VMMeter
	m, err := r.VMMeter(t.Context(), chief, id)
	if err != nil || m == nil || m.CPUNanos != 9 {
		t.Fatalf("its own host's: %+v, %v", m, err)
	}
}

// Invalid meter readings of one host do not affect other hosts in the same batch.
func TestInvalidMetersAffectOnlyTheirHost(t *testing.T) {
	r := newHostFixture(t)
	hosts := []fleet.Actor{r.agent}
	for _, name := range []string{"refused", "third"} {
		r.agent = r.addHost(name)
		r.sendHello(name, name)
		hosts = append(hosts, r.agent)
	}
	r.execSQL(`ALTER TABLE host_meters ADD CHECK (host_id <> '` + string(hosts[1].HostID) + `')`)
	for n := range int64(5) {
		var all sync.WaitGroup
		errs := make([]error, len(hosts))
		for i, host := range hosts {
			all.Go(func() {
				_, errs[i] = r.Report(t.Context(), host, wire.Report{Seq: 1 + n, Meters: []wire.Meter{{ID: "web", CPUNanos: 1}}})
			})
		}
		all.Wait()
		if errs[0] != nil || errs[1] == nil || errs[2] != nil {
			t.Fatalf("in a batch with invalid readings: %v", errs)
		}
	}
	if n := queryValue[int](r, `SELECT count(*) FROM host_meters`); n != 2 {
		t.Errorf("%d hosts have meters, want 2", n)
	}
}
