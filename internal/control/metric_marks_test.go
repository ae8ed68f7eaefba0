package control_test

import (
	"slices"
	"testing"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// The charts of a VM mark its tasks that began or failed, with their links.
func TestVMChartsMarkTasks(t *testing.T) {
	r := newHostFixture(t)
	id, other := r.addVM("web"), r.addVM("other")
	marks := func(id fleet.VMID, a fleet.Actor) []fleet.MetricMark {
		t.Helper()
		m, err := r.VMMetrics(t.Context(), a, id, query.MetricRange{})
		if err != nil {
			t.Fatal(err)
		}
		return m.Marks
	}
	if got := marks(id, chief); len(got) != 0 {
		t.Errorf("queued tasks are marked: %+v", got)
	}
	for _, w := range r.claimJobs() {
		if err := r.finishJob(w, wire.Finish{Outcome: wire.Failed, Error: "no disk"}); err != nil {
			t.Fatal(err)
		}
	}
	got := marks(id, chief)
	if len(got) != 1 || got[0].Title != "Create" || got[0].State != fleet.JobFailed || got[0].Until == nil || got[0].TaskID == "" {
		t.Fatalf("marks %+v", got)
	}
	if got[0].TaskID == marks(other, chief)[0].TaskID {
		t.Error("a VM has the mark of another VM")
	}
	r.execSQL(`UPDATE tasks SET project_id = NULL WHERE id = $1`, got[0].TaskID)
	project := queryValue[fleet.ProjectID](r, `SELECT project_id FROM vms WHERE id = $1`, id)
	member := fleet.Actor{UserID: "u-member", Name: "member", Projects: map[fleet.ProjectID]fleet.Role{project: fleet.RoleMember}}
	if got := marks(id, member); len(got) != 0 {
		t.Errorf("a member of the project sees a task outside the project: %+v", got)
	}
}

// The charts of a host mark its maintenance, and the time when its agent was offline.
func TestHostChartsMarkMaintenanceAndOfflinePeriods(t *testing.T) {
	r := newHostFixture(t)
	host := r.agent.HostID
	r.execSQL(`INSERT INTO host_silences (host_id, since, until) VALUES ($1, now() - interval '30 minutes', now() - interval '20 minutes')`, host)
	r.execSQL(`INSERT INTO host_silences (host_id, since, until) VALUES ($1, now() - interval '3 hours', now() - interval '2 hours')`, host)
	r.execSQL(`INSERT INTO tasks (id, host_id, kind, subject, subject_name, state, created_by, created_at, ended_at)
		SELECT 'task-' || kind || state, $1, kind, 'task:x', 'h1', state, 'chief', now() - interval '10 minutes', CASE state WHEN 'done' THEN now() END
		FROM unnest(ARRAY['host.maintenance.enter', 'vm.start']) kind, unnest(ARRAY['done', 'running']) state`, host)
	m, err := r.HostMetrics(t.Context(), chief, host, query.MetricRange{})
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, mark := range m.Marks {
		titles = append(titles, mark.Title+" "+string(mark.State))
	}
	if want := []string{"Agent offline ", "Enter maintenance done", "Enter maintenance running"}; !slices.Equal(titles, want) {
		t.Errorf("marks %q, want %q", titles, want)
	}
	if len(m.Marks) > 0 && m.Marks[0].Until == nil {
		t.Error("the offline period has no end")
	}
}
