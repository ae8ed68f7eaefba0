package control_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/control/flavors"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/quota"
)

// A VM keeps its disk in a pool that is withdrawn. A member reads another ID in place of the pool's, and can send it back
// in an edit and for the disk's growth.
func TestWithdrawnPoolHasAnotherIDForTenants(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Stopped)
	s.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $1::text, 'volume', 'web.qcow2', 'sizeBytes', 1073741824))),
		status = status || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('target', 'vda', 'volume', jsonb_build_object('poolId', $1::text, 'volume', 'web.qcow2')))),
		observed_generation = generation WHERE id = $2`, s.nfs, v.ID)
	if _, err := s.SetQuota(t.Context(), chief, s.red, quota.Quota{Pools: map[fleet.PoolID]quota.Limit{s.nfs: {Soft: new(int64(1))}}}); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`DELETE FROM pool_grants WHERE pool_id = $1`, s.nfs)
	wantHidden := func(what string, answer any, err error) {
		t.Helper()
		text, encodeErr := json.Marshal(answer)
		if err != nil || encodeErr != nil || strings.Contains(string(text), string(s.nfs)) || !strings.Contains(string(text), string(store.HiddenPoolID(s.nfs))) {
			t.Errorf("%s: %v %v %s", what, err, encodeErr, text)
		}
	}
	seen, err := s.GetVM(t.Context(), s.member, v.ID)
	wantHidden("VM", seen, err)
	page, err := s.ListVMs(t.Context(), s.member, fleet.Query{})
	wantHidden("VMs", page, err)
	use, err := s.ProjectUsage(t.Context(), s.member, s.red)
	wantHidden("usage", use, err)
	if all, err := s.GetVM(t.Context(), chief, v.ID); err != nil || all.Spec.Disks[0].PoolID != s.nfs {
		t.Errorf("an administrator reads %+v %v", all.Spec.Disks, err)
	}

	spec := seen.Spec
	spec.CPUs++
	changed, _, err := s.UpdateVM(t.Context(), s.member, v.ID, control.UpdateVM{Spec: &spec})
	wantHidden("edit", changed, err)
	if n := s.countRowsOf(`vms WHERE spec->'disks'->0->>'poolId' = '` + string(s.nfs) + `' AND (spec->>'cpus')::int = ` + strconv.Itoa(spec.CPUs)); n != 1 {
		t.Error("the edit moved the disk to another pool, or is not stored")
	}
	grown, _, err := s.GrowDisk(t.Context(), s.member, v.ID, seen.Spec.Disks[0].Ref(), control.GrowDisk{SizeBytes: 2 << 30})
	wantHidden("growth", grown, err)
}

// A new pool is published to the chosen projects, or to nobody if one of them does not exist.
func TestNewPoolPublishedToChosenProjects(t *testing.T) {
	s := newProjectFixture(t)
	in := storage.CreatePool{Name: "fresh", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/fresh"}, Publish: []string{string(s.red)}}
	v, err := s.CreatePool(t.Context(), chief, in)
	if err != nil || len(v.Grants) != 1 || v.Grants[0].ProjectID != s.red {
		t.Errorf("%+v %v", v.Grants, err)
	}
	in.Name, in.Spec.Path, in.Publish = "other", "/srv/other", []string{string(s.red), string(fleet.NewID[fleet.ProjectID]())}
	_, err = s.CreatePool(t.Context(), chief, in)
	wantCode(t, err, fleet.Invalid)
	if n := s.countRowsOf("pools WHERE name = 'other'"); n != 0 {
		t.Error("the pool exists although it was refused")
	}
	in.Publish = nil
	if v, err = s.CreatePool(t.Context(), chief, in); err != nil || len(v.Grants) != 0 {
		t.Errorf("%+v %v", v.Grants, err)
	}
}

// A soft limit raises an alarm of the project, which its members read, and which clears when the use is below it.
func TestSoftLimitRaisesAlarmOfProject(t *testing.T) {
	s := newProjectFixture(t)
	s.createVM("web", fleet.Running)
	limit := func(n int64) {
		t.Helper()
		if _, err := s.SetQuota(t.Context(), chief, s.red, quota.Quota{VMs: quota.Limit{Soft: &n}}); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	s.evaluateAlarms(0)
	s.wantAlarms("at the limit", s.member)
	limit(0)
	s.evaluateAlarms(0)
	s.evaluateAlarms(59 * time.Second)
	s.wantAlarms("above the limit for less than a minute", s.member)
	s.evaluateAlarms(2 * time.Second)
	s.wantAlarms("above the limit", s.member, "warning project-above-soft-limit [red]: VMs: above the soft limit")
	s.wantAlarms("above the limit, to a member of another project", s.blueMember)
	limit(5)
	s.evaluateAlarms(0)
	s.evaluateAlarms(31 * time.Second)
	s.wantAlarms("below the limit again", s.member)
}

// What a project uses is stored once a day.
func TestProjectDaysRecorded(t *testing.T) {
	s := newProjectFixture(t)
	s.createVM("web", fleet.Running)
	for range 2 {
		if err := s.RecordProjectDays(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	s.execSQL(`INSERT INTO project_days SELECT project_id, day - 400, 9, 9, 9, 9, 9 FROM project_days`)
	if err := s.RecordProjectDays(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	days, err := s.UsageHistory(t.Context(), s.member, s.red)
	if err != nil || len(days) != 1 || days[0].VMs != 1 || days[0].CPUs == 0 {
		t.Errorf("%+v %v", days, err)
	}
	if n := s.countRowsOf("project_days WHERE day < current_date - 366"); n != 0 {
		t.Errorf("%d old days are kept", n)
	}
	_, err = s.UsageHistory(t.Context(), s.blueMember, s.red)
	wantCode(t, err, fleet.NotFound)
}

func TestRenewalAndPlanHidePools(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Stopped)
	s.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $1::text, 'volume', 'web.qcow2', 'sizeBytes', 1073741824))),
		status = status || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('target', 'vda', 'volume', jsonb_build_object('poolId', $1::text, 'volume', 'web.qcow2')))),
		observed_generation = generation, expires_at = now() + interval '1 day', expiry = 'soon' WHERE id = $2`, s.nfs, v.ID)
	s.execSQL(`DELETE FROM pool_grants WHERE pool_id = $1`, s.nfs)
	check := func(what string, answer any, err error) {
		t.Helper()
		text, _ := json.Marshal(answer)
		if err != nil || strings.Contains(string(text), string(s.nfs)) {
			t.Errorf("%s: %v, or the pool's own ID in %s", what, err, text)
		}
	}
	renewed, err := s.RenewVM(t.Context(), s.member, v.ID, flavors.Renewal{ExpiresAt: new(time.Now().Add(60 * 24 * time.Hour))})
	check("renewal", renewed, err)
	seen, err := s.GetVM(t.Context(), s.member, v.ID)
	check("VM", seen, err)
	seen.Spec.CPUs++
	plan, err := s.PlanVM(t.Context(), s.member, v.ID, control.UpdateVM{Spec: &seen.Spec})
	check("plan", plan, err)
}

// Errors of hosts name pools. A tenant reads them without the names of pools that are not published to her.
func TestErrorsHideNamesOfWithdrawnPools(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Stopped)
	s.execSQL(`UPDATE pools SET name = 'vault-7' WHERE id = $1`, s.nfs)
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = status || '{"error": "Pool vault-7 is full."}' WHERE id = $1`, v.ID)
	task := fleet.NewID[fleet.TaskID]()
	s.execSQL(`INSERT INTO tasks (id, kind, subject, subject_name, project_id, state, error, created_by, ended_at) VALUES ($1, 'vm.start', $2, 'web', $3, 'failed', 'Pool vault-7 is full.', 'tess', now())`,
		task, fleet.SubjectVM(v.ID), s.red)
	read := func(a fleet.Actor) string {
		t.Helper()
		var all []any
		add := func(answer any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, answer)
		}
		vm, err := s.GetVM(t.Context(), a, v.ID)
		add(vm, err)
		vms, err := s.ListVMs(t.Context(), a, fleet.Query{})
		add(vms, err)
		one, err := s.GetTask(t.Context(), a, task)
		add(one, err)
		tasks, err := s.ListTasks(t.Context(), a, fleet.Query{})
		add(tasks, err)
		history, err := s.VMHistory(t.Context(), a, v.ID)
		add(history, err)
		text, err := json.Marshal(all)
		add(nil, err)
		return string(text)
	}
	if got := read(s.member); !strings.Contains(got, "vault-7") {
		t.Fatalf("the errors lack the name of a published pool: %s", got)
	}
	s.execSQL(`DELETE FROM pool_grants WHERE pool_id = $1`, s.nfs)
	if got := read(s.member); strings.Contains(got, "vault-7") || !strings.Contains(got, "is full.") {
		t.Errorf("a tenant reads %s", got)
	}
	if got := read(chief); !strings.Contains(got, "vault-7") {
		t.Errorf("an administrator reads %s", got)
	}
}
