package control_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"quantix/internal/fleet"
)

func TestVMListFiltersAndSorts(t *testing.T) {
	s := newProjectFixture(t)
	web, db, off := s.createVM("web-1", fleet.Running), s.createVM("db1", fleet.Stopped), s.createVM("off", fleet.Running)
	s.execSQL(`UPDATE vms SET description = 'front end of the shop', labels = '{"env":"prod","note":"50%_\\"}', spec = spec || `+defaultNICSQL("52:54:00:00:00:01")+`,
		status = status || '{"nics":[{"addresses":["10.0.0.5","fe80::1"]}]}' WHERE id = $1`, web.ID)
	s.execSQL(`UPDATE vms SET spec = spec || '{"cpus":4,"memoryMiB":8192}', created_at = '2026-01-31T23:00:00Z' WHERE id = $1`, db.ID)
	s.execSQL(`INSERT INTO host_meters (host_id, at, vm_ids, cpu_nanos, memory_bytes, read_bytes, write_bytes, receive_bytes, send_bytes, before_at, before_ids, before_cpu)
		VALUES ($1, now(), ARRAY[$2, $3], ARRAY[9000000000, 8000000200], '{0,0}', '{0,0}', '{0,0}', '{0,0}', '{0,0}', now() - interval '10 seconds', ARRAY[$3, $2], ARRAY[200, 1000000000])`,
		s.h1, web.ID, db.ID)
	s.execSQL(`UPDATE vms SET labels = '{"env":"test"}' WHERE id = $1`, db.ID)
	s.execSQL(`UPDATE vms SET host_id = $1, project_id = $2, spec = jsonb_set(spec, '{disks}', jsonb_build_array(jsonb_build_object('poolId', $3::text))) WHERE id = $4`, s.h2, s.blue, s.nfs, off.ID)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, s.h2)
	for filter, want := range map[string]string{
		"":                                "db1 off web-1",
		"web":                             "web-1",
		"eb-":                             "web-1",
		"-web":                            "db1 off",
		"name:web":                        "",
		"name:web*":                       "web-1",
		"name:off,db1":                    "db1 off",
		"_":                               "",
		"%":                               "",
		"state:running":                   "web-1",
		"state:stopped":                   "db1",
		"state:unknown":                   "off",
		"-state:unknown":                  "db1 web-1",
		"state:unknown,stopped":           "db1 off",
		"-state:running,stopped":          "off",
		"state:*":                         "db1 off web-1",
		"-state:*":                        "",
		"label:env=prod":                  "web-1",
		"label:env=prod,test":             "db1 web-1",
		"label:env":                       "db1 web-1",
		"-label:env":                      "off",
		"-label:env=prod":                 "db1 off",
		"label:env=p*":                    "web-1",
		`label:note="50%_\"`:              "web-1",
		`label:note=5*\`:                  "web-1",
		"label:note=5%":                   "",
		"label:env=x*":                    "",
		"label:env=te*,prod":              "db1 web-1",
		"-label:env=p*":                   "db1 off",
		"label:nv":                        "",
		"host:h2":                         "off",
		"host:h*":                         "db1 off web-1",
		"-host:h2":                        "db1 web-1",
		"host:nowhere":                    "",
		"project:blue":                    "off",
		"pool:nfs":                        "off",
		"-pool:nfs":                       "db1 web-1",
		"pool:nowhere":                    "",
		"network:default":                 "web-1",
		"network:def*":                    "web-1",
		"-network:default":                "db1 off",
		"mac:52:54:00:00:00:01":           "web-1",
		"mac:52:54:*":                     "web-1",
		"address:10.0.0.5":                "web-1",
		"address:10.0.*":                  "web-1",
		"address:10.0":                    "",
		"address:FE80::1":                 "web-1",
		"address:*.5":                     "web-1",
		"address:10.0.0.6,fe80::*":        "web-1",
		"-address:10.*":                   "db1 off",
		"address:52*":                     "",
		"mac:52:54:00:00:00:0":            "",
		"mac:*:01":                        "web-1",
		"attention:yes":                   "off",
		"description:SHOP":                "web-1",
		"-description:shop":               "db1 off",
		"vcpu:4":                          "db1",
		"vcpu>=1":                         "db1 off web-1",
		"vcpu>3.5":                        "db1",
		"vcpu:3.5":                        "",
		"vcpu<99999999999999999999":       "db1 off web-1",
		"-vcpu>1":                         "off web-1",
		"memory>4G":                       "db1",
		"memory:256M,8G":                  "db1 off web-1",
		"memory<=256M":                    "off web-1",
		"cpu>50":                          "web-1",
		"cpu:80":                          "web-1",
		"cpu:20":                          "db1", // 80 % of one of its four vCPUs
		"-cpu>50":                         "db1 off",
		"cpu>=0":                          "db1 web-1", // off has no sample
		"created:2026-01-31":              "db1",
		"created>2026-01-31":              "off web-1",
		"created<2026-01-31":              "",
		"created<=2026-01-31":             "db1",
		"created>=2026-02-01":             "off web-1",
		"attention:no state:stopped":      "db1",
		"id:" + string(off.ID):            "off",
		"id:" + string(off.ID)[:30] + "*": "",
		"state:running label:env=prod host:h1 name:web*": "web-1",
		"state:running label:env=test":                   "",
	} {
		// VM IDs begin with a time, so a prefix can match several VMs that were created at the same time.
		if strings.HasSuffix(filter, "*") && strings.HasPrefix(filter, "id:") {
			want = strings.Join(slices.DeleteFunc([]string{"db1", "off", "web-1"}, func(name string) bool {
				v := map[string]fleet.VMID{"db1": db.ID, "off": off.ID, "web-1": web.ID}[name]
				return !strings.HasPrefix(string(v), filter[3:len(filter)-1])
			}), " ")
		}
		for _, sort := range []string{"", "host", "-project"} {
			page, err := s.ListVMs(t.Context(), chief, fleet.Query{Filter: filter, Sort: sort})
			var names []string
			for _, v := range page.Items {
				names = append(names, v.Name)
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); err != nil || got != want {
				t.Errorf("%q sorted by %q: %q %v, want %q", filter, sort, got, err, want)
			}
		}
	}
	s.execSQL(`UPDATE host_meters SET cpu_nanos[2] = 100`) // the CPU time of db1 decreased: the VM was started again
	if page, err := s.ListVMs(t.Context(), chief, fleet.Query{Filter: "cpu>=0"}); err != nil || len(page.Items) != 1 || page.Items[0].Name != "web-1" {
		t.Errorf("VMs with a measured load: %+v %v", page.Items, err)
	}
}

func TestInvalidCursorRefused(t *testing.T) {
	s := newProjectFixture(t)
	s.createVM("a", fleet.Running)
	s.createVM("b", fleet.Running)
	page, err := s.ListVMs(t.Context(), chief, fleet.Query{Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatalf("%+v %v", page, err)
	}
	for name, q := range map[string]fleet.Query{
		"of another sort":    {Sort: "-name", After: page.Next},
		"back, of another":   {Sort: "-name", Before: page.Next},
		"no base64":          {After: "!"},
		"back, no base64":    {Before: "!"},
		"no JSON":            {After: "AAAA"},
		"too short":          {After: "WyJuYW1lIl0"},                          // ["name"]
		"no number":          {Sort: "cpus", After: "WyJjcHVzIiwieCIsIjEiXQ"}, // ["cpus","x","1"]
		"a NUL in the value": {After: "WyJuYW1lIiwiXHUwMDAwIiwiMSJd"},         // ["name","\u0000","1"]
	} {
		s.wantRefused(name, fleet.Malformed, "out of date", func() error { _, err := s.ListVMs(t.Context(), chief, q); return err })
	}
	s.wantRefused("cursors in both directions", fleet.Malformed, "Give only one cursor", func() error {
		_, err := s.ListVMs(t.Context(), chief, fleet.Query{After: page.Next, Before: page.Next})
		return err
	})
	s.wantRefused("unknown sort", fleet.Invalid, "cpus, created, host, memory, name, project", func() error {
		_, err := s.ListVMs(t.Context(), chief, fleet.Query{Sort: "colour"})
		return err
	})
}

func TestVMsVisibleOnlyInOwnProjects(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	names := func(a fleet.Actor, q fleet.Query) int {
		page, err := s.ListVMs(t.Context(), a, q)
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Items)
	}
	both := s.member
	both.Projects = map[fleet.ProjectID]fleet.Role{s.red: fleet.RoleViewer, s.blue: fleet.RoleMember}
	if names(s.member, fleet.Query{}) != 1 || names(s.blueMember, fleet.Query{}) != 0 || names(both, fleet.Query{}) != 1 ||
		names(both, fleet.Query{Project: s.blue}) != 0 || names(s.blueMember, fleet.Query{Project: s.red}) != 0 || names(chief, fleet.Query{Project: s.red}) != 1 {
		t.Error("the list has other VMs than those visible to the actor")
	}
	s.execSQL(`UPDATE vms SET spec = spec || ` + defaultNICSQL("52:54:00:00:00:01"))
	for _, filter := range []string{"network:default", "network:default,x", "network:d*", "state:running", "-state:stopped", "-name:x", "label:a,b", "-label:a,b", "mac:5*,6*", "web", "id:*"} {
		for _, sort := range []string{"name", "-created", "project"} {
			if n := names(s.blueMember, fleet.Query{Filter: filter, Sort: sort}); n != 0 {
				t.Errorf("filter %q sorted by %s shows a user of another project %d VMs", filter, sort, n)
			}
		}
	}
	_, missing := s.GetVM(t.Context(), s.blueMember, fleet.NewID[fleet.VMID]())
	_, foreign := s.GetVM(t.Context(), s.blueMember, v.ID)
	if fmt.Sprint(missing) != fmt.Sprint(foreign) || fleet.CodeOf(foreign) != fleet.NotFound {
		t.Errorf("a foreign VM says %v, a missing one %v", foreign, missing)
	}
	for name, do := range map[string]func() error{
		"VMEvents": func() error { _, err := s.VMHistory(t.Context(), s.blueMember, v.ID); return err },
		"VMMeter":  func() error { _, err := s.VMMeter(t.Context(), s.blueMember, v.ID); return err },
		"GetTask":  func() error { j := s.firstTaskID(); _, err := s.GetTask(t.Context(), s.blueMember, j); return err },
		"Cancel":   func() error { j := s.firstTaskID(); _, err := s.CancelTask(t.Context(), s.blueMember, j); return err },
	} {
		s.wantRefused(name, fleet.NotFound, "There is no such", do)
	}
	tasks, err := s.ListTasks(t.Context(), s.blueMember, fleet.Query{})
	if err != nil || len(tasks.Items) != 0 {
		t.Errorf("tasks of another project: %+v %v", tasks.Items, err)
	}
	keys, err := s.WatchKeys(t.Context(), s.blueMember, []string{"vm:" + string(v.ID), "vm:x", "host:" + string(s.h1), "pool:" + string(s.nfs), "tasks", "jobs:" + string(s.h1)})
	if err != nil || fmt.Sprint(keys) != fmt.Sprintf("[{pool:%s []} {tasks [tasks:%s]}]", s.nfs, s.blue) {
		t.Errorf("a user of another project may watch %v %v", keys, err)
	}
	if keys, err = s.WatchKeys(t.Context(), s.member, []string{"vm:" + string(v.ID), "hosts"}); err != nil || len(keys) != 1 {
		t.Errorf("a member may watch %v %v", keys, err)
	}
	found, err := s.Search(t.Context(), s.blueMember, "web", 8)
	if err != nil || len(found) != 0 {
		t.Errorf("search shows %v %v", found, err)
	}
}

func (s *projectFixture) firstTaskID() fleet.TaskID {
	s.t.Helper()
	var id fleet.TaskID
	if err := s.pool.QueryRow(s.t.Context(), `SELECT id FROM tasks ORDER BY id LIMIT 1`).Scan(&id); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// Three implementations of a VM's phase must agree: Go for pages, vm_phase in SQL, and the list's filter. So must three
// implementations of the need for attention: Go, the column for VMs on online hosts, and the list's filter.
func TestVMPhaseInSQLMatchesGo(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	rapid.Check(t, func(t *rapid.T) {
		vm := v.VM
		vm.Spec.Power = rapid.SampledFrom([]fleet.Power{fleet.Running, fleet.Paused, fleet.Stopped}).Draw(t, "wanted")
		vm.Generation = rapid.Int64Range(1, 3).Draw(t, "generation")
		vm.ObservedGeneration = rapid.Int64Range(0, 3).Draw(t, "observed")
		vm.RequestedPower = rapid.SampledFrom([]fleet.Power{"", "", fleet.Running, fleet.Paused, fleet.Stopped}).Draw(t, "ordered")
		vm.Status, vm.DeletedAt = nil, nil
		if rapid.Bool().Draw(t, "reported") {
			vm.Status = &fleet.VMStatus{
				Power:    rapid.SampledFrom([]fleet.Power{fleet.Running, fleet.Paused, fleet.Stopped, fleet.Crashed, fleet.Absent}).Draw(t, "power"),
				Error:    rapid.SampledFrom([]string{"", "no space"}).Draw(t, "error"),
				ErrorOf:  rapid.SampledFrom([]fleet.JobKind{"", fleet.VMApply, fleet.VMStart, fleet.VMShutdown, fleet.VMStop, fleet.VMPause, fleet.VMResume, fleet.VMReset}).Draw(t, "order"),
				NextBoot: rapid.SampledFrom([][]string{nil, {}, {"cpus"}}).Draw(t, "nextBoot"),
				Faults:   rapid.SampledFrom([][]fleet.Fault{nil, nil, {}, {{Code: "new", Text: "It hums."}}, {{Code: fleet.FaultHealth}, {Code: fleet.FaultLost}}}).Draw(t, "faults"),
				Drift:    rapid.SampledFrom([][]fleet.Drift{nil, nil, {}, {{Field: "cpus", Applied: "1", Actual: "3"}}}).Draw(t, "drift"),
				NICs:     rapid.SampledFrom([][]fleet.NICState{nil, {}, {{Addresses: []string{"10.0.0.7"}}}, {{MAC: "52:54:00:00:00:01"}}, {{Addresses: []string{"10.0.0.5", "fe80::1"}}, {Addresses: []string{`10\.0."0.6`}}}}).Draw(t, "nics"),
			}
		}
		vm.Sightings = rapid.SampledFrom([][]fleet.Sighting{nil, nil, {{Power: fleet.Running, HasMark: true}}, {{Power: fleet.Running, HasMark: true, Alarm: true}}}).Draw(t, "elsewhere")
		vm.Protection.Expiry = rapid.SampledFrom([]fleet.Expiry{"", "", fleet.ExpiresSoon, fleet.Expired}).Draw(t, "expiry")
		if rapid.Bool().Draw(t, "deleted") {
			at := time.Now()
			vm.DeletedAt = &at
		}
		var now time.Time
		var seen *fleet.ReportTime
		// The ages are far enough from the freshness limit that the queries below can take some seconds.
		age := rapid.SampledFrom([]time.Duration{0, fleet.Freshness / 6, fleet.Freshness + time.Second, -1}).Draw(t, "age")
		if err := s.pool.QueryRow(s.t.Context(), "SELECT now()").Scan(&now); err != nil {
			t.Fatal(err)
		}
		if age >= 0 {
			seen = &fleet.ReportTime{Time: now.Add(-age)}
		}
		s.execSQL(`UPDATE vms SET spec = $2, status = $3, generation = $4, observed_generation = $5, deleted_at = $6, ordered = $7, elsewhere = $8, expiry = $9 WHERE id = $1`,
			vm.ID, vm.Spec, vm.Status, vm.Generation, vm.ObservedGeneration, vm.DeletedAt, vm.RequestedPower, vm.Sightings, vm.Protection.Expiry)
		s.execSQL(`UPDATE host_sessions SET seen_at = $1`, seen.Instant())
		want := vm.Phase(seen, now)
		var got fleet.Phase
		var attention bool
		err := s.pool.QueryRow(s.t.Context(), `SELECT vm_phase(ordered, status, generation, observed_generation, deleted_at, $2), attention FROM vms WHERE id = $1`,
			vm.ID, fleet.IsReportFresh(seen, now)).Scan(&got, &attention)
		if err != nil || got != want {
			t.Fatalf("vm_phase %q, Phase %q, %v", got, want, err)
		}
		if attention != vm.NeedsAttention(&fleet.ReportTime{Time: now}, now) {
			t.Fatalf("column attention of %+v is %t", vm, attention)
		}
		for _, a := range []fleet.Actor{chief, s.member} {
			wantSameRows(s, t, a)
		}
		yes, no := "yes", "no"
		if !vm.NeedsAttention(seen, now) {
			yes, no = no, yes
		}
		for filter, n := range map[string]int{"attention:" + yes: 1, "attention:" + no: 0, "-attention:" + yes: 0, "-attention:" + no: 1, "attention:*": 1} {
			page, err := s.ListVMs(s.t.Context(), chief, fleet.Query{Filter: filter})
			if err != nil || len(page.Items) != n {
				t.Fatalf("%s lists %d of %+v, %v", filter, len(page.Items), vm, err)
			}
		}
		for _, p := range []fleet.Phase{want, rapid.SampledFrom(fleet.VMPhases).Draw(t, "asked")} {
			for _, not := range []bool{false, true} {
				filter := "state:" + string(p)
				if not {
					filter = "-" + filter
				}
				page, err := s.ListVMs(s.t.Context(), chief, fleet.Query{Filter: filter})
				if err != nil || (len(page.Items) == 1) != ((p == want) != not) {
					t.Fatalf("%s lists %d of a VM that is %s, %v", filter, len(page.Items), want, err)
				}
			}
		}
	})
}

// wantSameRows checks that ListVMRows and ListVMsBriefly return the same values as ListVMs in the columns that lists
// show.
func wantSameRows(s *projectFixture, t *rapid.T, a fleet.Actor) {
	full, err := s.ListVMs(s.t.Context(), a, fleet.Query{})
	if err != nil || len(full.Items) != 1 {
		t.Fatalf("%d VMs, %v", len(full.Items), err)
	}
	for name, list := range map[string]func(context.Context, fleet.Actor, fleet.Query) (fleet.Page[fleet.VMView], error){"rows": s.ListVMRows, "lines": s.ListVMsBriefly} {
		page, err := list(s.t.Context(), a, fleet.Query{})
		if err != nil || len(page.Items) != 1 {
			t.Fatalf("%s: %d VMs, %v", name, len(page.Items), err)
		}
		row, want := page.Items[0], full.Items[0]
		if diff := cmp.Diff(listRowPart(want), listRowPart(row)); diff != "" {
			t.Fatalf("%s: %s", name, diff)
		}
		if want.Attention && want.Phase != fleet.PhaseUnknown {
			if diff := cmp.Diff(want.Status, row.Status); diff != "" {
				t.Fatalf("%s of a VM in need: %s", name, diff)
			}
		}
	}
}

// listRowPart returns v with only the parts of spec and status that a list row shows for every VM.
func listRowPart(v fleet.VMView) fleet.VMView {
	v.Spec = fleet.VMSpec{CPUs: v.Spec.CPUs, MemoryMiB: v.Spec.MemoryMiB}
	if v.Status != nil {
		var addresses []string
		for _, n := range v.Status.NICs {
			addresses = append(addresses, n.Addresses...)
		}
		v.Status = &fleet.VMStatus{Power: v.Status.Power, NICs: []fleet.NICState{{Addresses: addresses}}}
	}
	v.CPUPercent = nil
	return v
}
