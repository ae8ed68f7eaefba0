package control_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// newTaskFixture returns a projectFixture with mia's project roles in the database. The portal reads a person's roles
// again when it starts a child of the person's task.
func newTaskFixture(t *testing.T) *projectFixture {
	s := newProjectFixture(t)
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, s.member.UserID)
	return s
}

// addBulkShutdown makes running VMs of project red and requests their shutdown as mia.
func (s *projectFixture) addBulkShutdown(names ...string) (fleet.Task, []fleet.VMView) {
	s.t.Helper()
	var ids []fleet.VMID
	var vms []fleet.VMView
	for _, name := range names {
		vm := s.createVM(name, fleet.Running)
		ids, vms = append(ids, vm.ID), append(vms, vm)
	}
	task, err := s.RequestPowerActions(s.t.Context(), s.member, fleet.ActShutdown, ids)
	if err != nil {
		s.t.Fatal(err)
	}
	return task, vms
}

// childStates returns a task's children as "name state", in order.
func (s *projectFixture) childStates(id fleet.TaskID) string {
	s.t.Helper()
	page, err := s.ListTasks(s.t.Context(), chief, fleet.Query{Filter: "parent:" + string(id), Sort: "created"})
	if err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for _, t := range page.Items {
		all = append(all, t.SubjectName+" "+string(t.State))
	}
	return strings.Join(all, ", ")
}

func (s *projectFixture) beginTasks() {
	s.t.Helper()
	if err := s.BeginTasks(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
}

func (s *projectFixture) endJob(vm fleet.VMID, state string) {
	s.t.Helper()
	s.execSQL(`UPDATE jobs SET state = 'running', attempt = 1, started_at = now() WHERE subject = $1 AND state = 'queued'`, fleet.SubjectVM(vm))
	s.execSQL(`UPDATE jobs SET state = $2, ended_at = now() WHERE subject = $1 AND state = 'running'`, fleet.SubjectVM(vm), state)
}

func (s *projectFixture) wantTask(id fleet.TaskID, state fleet.JobState, progress int, steps fleet.Steps) {
	s.t.Helper()
	got, err := s.GetTask(s.t.Context(), s.member, id)
	if err != nil || got.State != state || got.Progress != progress || got.Steps == nil || *got.Steps != steps || (got.EndedAt != nil) != state.IsFinal() {
		s.t.Errorf("want %s at %d%% with %+v: %+v %+v %v", state, progress, steps, got, got.Steps, err)
	}
}

func TestBulkActionIsOneTask(t *testing.T) {
	s := newTaskFixture(t)
	off := s.createVM("off", fleet.Stopped)
	b, a := s.createVM("b", fleet.Running), s.createVM("a", fleet.Running)
	foreign := fleet.NewID[fleet.VMID]()
	before := s.countRows("jobs")
	task, err := s.RequestPowerActions(t.Context(), s.member, fleet.ActShutdown, []fleet.VMID{b.ID, off.ID, foreign, a.ID, b.ID})
	if err != nil {
		t.Fatal(err)
	}
	if task.Title() != "Shut down" || task.SubjectName != "4 VMs" || task.Subject != fleet.SubjectTask(task.ID) || task.ProjectID != s.red || task.CreatedBy != "mia" {
		t.Errorf("%+v", task)
	}
	if n := s.countRows("jobs"); n != before {
		t.Error("the request queued a job for the host")
	}
	if got, want := s.childStates(task.ID), "b queued, off failed, "+string(foreign)+" failed, a queued"; got != want {
		t.Errorf("the task's children are %s, want %s", got, want)
	}
	s.wantTask(task.ID, fleet.JobRunning, 50, fleet.Steps{Queued: 2, Refused: 2})
	s.beginTasks()
	s.beginTasks() // no child is pending any more
	if n := s.countRows("jobs"); n != before+2 {
		t.Errorf("%d jobs, want 2", n-before)
	}
	if n := s.countRows("audit WHERE actor = 'mia' AND action = 'vm.shutdown'"); n != 2 {
		t.Errorf("%d audit lines, want one per VM", n)
	}
	s.endJob(a.ID, "done")
	s.wantTask(task.ID, fleet.JobRunning, 75, fleet.Steps{Queued: 1, Done: 1, Refused: 2})
	s.endJob(b.ID, "failed")
	s.wantTask(task.ID, fleet.JobFailed, 100, fleet.Steps{Done: 1, Failed: 1, Refused: 2})

	// Lists show only the parent task; a VM's page shows the VM's child task.
	tasks := func(a fleet.Actor, filter string) int {
		t.Helper()
		page, err := s.ListTasks(t.Context(), a, fleet.Query{Filter: "kind:vm.shutdown " + filter})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Items)
	}
	for filter, want := range map[string]int{"": 1, "who:me": 1, "target:a": 1, "parent:" + string(task.ID): 4, "state:failed parent:" + string(task.ID): 3} {
		if n := tasks(s.member, filter); n != want {
			t.Errorf("%q shows %d tasks, want %d", filter, n, want)
		}
	}
	history, err := s.VMHistory(t.Context(), s.member, a.ID)
	if err != nil || history.Jobs[0].Parent != task.ID {
		t.Errorf("the VM's own history lacks it: %+v %v", history.Jobs, err)
	}
	s.wantRefused("a person outside the project", fleet.NotFound, "There is no such task.", func() error { _, err := s.GetTask(t.Context(), s.blueMember, task.ID); return err })
}

// Each child runs with the permissions that the person has at that time.
func TestBulkActionChecksPermissionPerVM(t *testing.T) {
	s := newTaskFixture(t)
	s.wantRefused("viewer", fleet.Forbidden, "do not have permission", func() error {
		_, err := s.RequestPowerActions(t.Context(), s.viewer, fleet.ActStart, []fleet.VMID{fleet.NewID[fleet.VMID]()})
		return err
	})
	s.wantRefused("an actor without an account", fleet.Forbidden, "Only a person", func() error {
		_, err := s.RequestPowerActions(t.Context(), fleet.SystemActor, fleet.ActStart, []fleet.VMID{fleet.NewID[fleet.VMID]()})
		return err
	})
	s.wantRefused("no power action", fleet.Invalid, "There is no power action", func() error {
		_, err := s.RequestPowerActions(t.Context(), chief, fleet.ActDelete, []fleet.VMID{fleet.NewID[fleet.VMID]()})
		return err
	})
	s.wantRefused("too many", fleet.TooLarge, "at most 500", func() error {
		_, err := s.RequestPowerActions(t.Context(), chief, fleet.ActStart, make([]fleet.VMID, control.MaxBulkVMs+1))
		return err
	})

	blue := s.createVM("blue", fleet.Running)
	s.execSQL(`UPDATE vms SET project_id = $2 WHERE id = $1`, blue.ID, s.blue)
	red := s.createVM("red", fleet.Running)
	both := s.member
	both.Projects = map[fleet.ProjectID]fleet.Role{s.red: fleet.RoleMember, s.blue: fleet.RoleViewer}
	task, err := s.RequestPowerActions(t.Context(), both, fleet.ActPause, []fleet.VMID{blue.ID, red.ID})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.childStates(task.ID); got != "blue failed, red queued" || task.ProjectID != "" {
		t.Errorf("%s %+v", got, task)
	}
	// A task over several projects is visible only to its creator; project members see its children.
	for name, x := range map[string]struct {
		who    fleet.Actor
		filter string
		want   string
	}{
		"one's own":          {both, "who:me", "2 VMs"},
		"its parts":          {both, "parent:" + string(task.ID), "red blue"},
		"the other projects": {s.blueMember, "", "blue"},
		"in another's":       {s.blueMember, "parent:" + string(task.ID), "blue"},
		"the whole house":    {chief, "", "2 VMs"},
	} {
		page, err := s.ListTasks(t.Context(), x.who, fleet.Query{Filter: "kind:vm.pause " + x.filter})
		var got []string
		for _, t := range page.Items {
			got = append(got, t.SubjectName)
		}
		if err != nil || strings.Join(got, " ") != x.want {
			t.Errorf("%s: %v %v, want %s", name, got, err, x.want)
		}
	}
	keys := []string{"task:" + string(task.ID)}
	for name, x := range map[string]struct {
		who  fleet.Actor
		want int
	}{"one's own": {both, 1}, "a user of another project": {s.blueMember, 0}, "the whole house": {chief, 1}} {
		if got, err := s.WatchKeys(t.Context(), x.who, keys); err != nil || len(got) != x.want || x.want == 1 && !slices.Equal(got[0].WakeUps, keys) {
			t.Errorf("%s follows %v %v", name, got, err)
		}
	}
	s.execSQL(`DELETE FROM project_members WHERE user_id = $1`, both.UserID)
	s.beginTasks()
	child, err := s.ListTasks(t.Context(), chief, fleet.Query{Filter: "target:red parent:" + string(task.ID)})
	if err != nil || len(child.Items) != 1 || !child.Items[0].WasRefusedBeforeHost() || child.Items[0].Error != "There is no such VM." {
		t.Errorf("%+v %v", child, err)
	}
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, both.UserID)
	task, vms := s.addBulkShutdown("late")
	s.execSQL(`UPDATE users SET disabled = true WHERE id = $1`, s.member.UserID)
	s.beginTasks()
	child, err = s.ListTasks(t.Context(), chief, fleet.Query{Filter: "parent:" + string(task.ID)})
	if err != nil || child.Items[0].Error != "Not done: the account of mia is deleted or disabled." || s.getVM(vms[0].ID).Spec.Power != fleet.Running {
		t.Errorf("%+v %v", child, err)
	}
}

// A bulk start checks the host of each VM, as a single start does. The start is refused while another host runs a
// domain with the VM's ownership mark, even if that host is offline. A user can rule out such a domain by choosing the
// VM's host.
func TestBulkStartRefusedWhenVMRunsOnOtherHost(t *testing.T) {
	s := newTaskFixture(t)
	online, offline := s.addHostWithMemory("h3", 4096), s.h2
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, offline)
	var ids []fleet.VMID
	want := map[string]bool{}
	for _, x := range []struct {
		name            string
		on              fleet.HostID
		power           fleet.Power
		proven, settled bool
		blocked         bool
	}{
		{"off-heard", online, fleet.Stopped, true, false, false},
		{"stranger-heard", online, fleet.Running, false, false, false},
		{"settled-heard", online, fleet.Paused, true, true, true},
		{"stranger-silent", offline, fleet.Running, false, false, false},
		{"itself-silent", offline, fleet.Running, true, false, true},
		{"settled-silent", offline, fleet.Running, true, true, false},
	} {
		vm := s.createVM(x.name, fleet.Stopped)
		s.execSQL(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven, settled) VALUES ($1, $2, $3, 1, $4, $5)`, vm.ID, x.on, x.power, x.proven, x.settled)
		if ok, why := s.getVM(vm.ID).Allows(fleet.ActStart); ok == x.blocked {
			t.Fatalf("%s alone: start is allowed %t: %s", x.name, ok, why)
		}
		ids, want[x.name] = append(ids, vm.ID), x.blocked
	}
	task, err := s.RequestPowerActions(t.Context(), s.member, fleet.ActStart, ids)
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.ListTasks(t.Context(), chief, fleet.Query{Filter: "parent:" + string(task.ID)})
	if err != nil || len(page.Items) != len(ids) {
		t.Fatalf("%+v %v", page.Items, err)
	}
	for _, child := range page.Items {
		// Mia cannot see hosts, so the error does not name the other host.
		blocked := strings.HasPrefix(child.Error, "Start is not possible: Another host reports a guest with this UUID, ")
		if blocked != want[child.SubjectName] || blocked != child.WasRefusedBeforeHost() || child.State.IsFinal() != blocked {
			t.Errorf("%s is %s: %q", child.SubjectName, child.State, child.Error)
		}
	}
}

// A child is checked against the state of its VM when the child runs, not at the time of the request.
func TestBulkActionCoalescesWithQueuedAction(t *testing.T) {
	s := newTaskFixture(t)
	vm := s.createVM("web", fleet.Running)
	act := func() fleet.Task {
		t.Helper()
		task, err := s.RequestPowerAction(t.Context(), chief, vm.ID, fleet.ActShutdown)
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	// A queued stop makes the phase "stopping". Reset it, so that the phase does not refuse the next request.
	still := func() {
		s.execSQL(`UPDATE vms SET ordered = '', observed_generation = generation WHERE id = $1`, vm.ID)
	}
	first := act()
	still()
	if again := act(); again.ID != first.ID {
		t.Errorf("the second request is task %s, not %s", again.ID, first.ID)
	}
	still()
	task, err := s.RequestPowerActions(t.Context(), s.member, fleet.ActShutdown, []fleet.VMID{vm.ID})
	if err != nil {
		t.Fatal(err)
	}
	still()
	s.beginTasks()
	old, err := s.GetTask(t.Context(), chief, first.ID)
	if err != nil || old.State != fleet.JobCancelled || old.Error != "Replaced by a newer order." || old.EndedAt == nil {
		t.Errorf("the older task is %+v %v", old, err)
	}
	if n := s.countRows("jobs WHERE state = 'queued'"); n != 1 {
		t.Errorf("%d jobs wait, want the one", n)
	}
	still()
	if joined := act(); joined.Parent != task.ID {
		t.Errorf("a single request does not join the queued child: %+v", joined)
	}
	s.endJob(vm.ID, "done")
	s.wantTask(task.ID, fleet.JobDone, 100, fleet.Steps{Done: 1})
}

// Several portals start pending children at once. Each child starts once.
