package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestPowerActionOnDiscoveredVMsHasResultEach(t *testing.T) {
	s := newAdoptionFixture(t)
	on, off, transient := s.addDiscoveredVM(`{"power":"running"}`), s.addDiscoveredVM(`{"power":"stopped"}`), s.addDiscoveredVM(`{"power":"running","transient":true}`)
	var refs []control.DiscoveredVMRef
	for _, id := range []fleet.VMID{on, off, transient, fleet.NewID[fleet.VMID](), on} {
		refs = append(refs, control.DiscoveredVMRef{HostID: s.h1, ID: id})
	}
	task, err := s.RequestDiscoveredVMActions(t.Context(), chief, fleet.ActShutdown, refs)
	if err != nil || task.SubjectName != "4 VMs" || task.Kind != fleet.DiscoveredShutdown {
		t.Fatalf("%+v %v", task, err)
	}
	if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	w := s.claim(fleet.DiscoveredShutdown)
	if got, _ := w.Subject.DiscoveredVM(); got != on {
		t.Errorf("the host shuts down %s, want the running VM %s", got, on)
	}
	s.finish(w, wire.Finish{})
	for words, want := range map[string]int{"Only a running": 1, "would lose the VM": 1, "There is no such VM": 1} {
		if n := s.countRows("tasks WHERE parent_id = '" + string(task.ID) + "' AND error LIKE '%" + words + "%'"); n != want {
			t.Errorf("%d children with the error %q, want %d", n, words, want)
		}
	}
	s.wantRefused("edit", fleet.Invalid, "no power action", func() error {
		_, err := s.RequestDiscoveredVMActions(t.Context(), chief, fleet.ActEdit, refs)
		return err
	})
}

func TestQueriesOfDiscoveredActionIndependentOfUnknownVMs(t *testing.T) {
	s := newAdoptionFixture(t)
	managed := s.createVM("web", fleet.Running)
	c, recorder := recordedControl(t, s.pool.Config().ConnString())
	queries := func(unknown int) int {
		refs := []control.DiscoveredVMRef{{HostID: s.h1, ID: s.addDiscoveredVM(`{"power":"running"}`)}, {HostID: s.h1, ID: managed.ID}}
		for range unknown {
			refs = append(refs, control.DiscoveredVMRef{HostID: s.h1, ID: fleet.NewID[fleet.VMID]()})
		}
		before := len(recorder.statements)
		task, err := c.RequestDiscoveredVMActions(t.Context(), chief, fleet.ActShutdown, refs)
		if err != nil || task.Steps == nil || task.Steps.Refused != unknown+1 {
			t.Fatalf("%+v %+v %v", task, task.Steps, err)
		}
		return len(recorder.statements) - before
	}
	queries(1) // prepares the statements
	if one, many := queries(1), queries(400); many != one {
		t.Errorf("%d queries for 400 unknown VMs, want %d, as for one", many, one)
	}
	if n := s.countRows("tasks WHERE error LIKE 'web is a VM of Quantix already%' AND subject = 'vm:" + string(managed.ID) + "'"); n != 3 {
		t.Errorf("%d children lead to the VM of Quantix, want three", n)
	}
}

func TestOnePowerActionOnManagedAndDiscoveredVMs(t *testing.T) {
	s := newAdoptionFixture(t)
	managed, other, twin := s.createVM("web", fleet.Running), s.addDiscoveredVM(`{"power":"running"}`), s.addDiscoveredVM(`{"power":"running"}`)
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'legacy', '{"power":"running"}')`, s.h2, twin)
	s.execSQL(`DELETE FROM jobs`)
	ids := []fleet.VMID{managed.ID, other, twin}
	task, err := s.RequestPowerActions(t.Context(), chief, fleet.ActShutdown, ids)
	if err != nil || task.Kind != fleet.VMShutdown || task.ProjectID != "" {
		t.Fatalf("%+v %v", task, err)
	}
	if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("jobs WHERE state = 'queued' AND (kind = 'vm.shutdown' AND subject = 'vm:" + string(managed.ID) + "' OR kind = 'found.shutdown' AND subject LIKE '%" + string(other) + "')"); n != 2 {
		t.Errorf("%d jobs, want one for the managed and one for the discovered VM", n)
	}
	if n := s.countRows("tasks WHERE parent_id = '" + string(task.ID) + "' AND error LIKE '%both have a discovered VM with this UUID%'"); n != 1 {
		t.Errorf("%d children were refused because two hosts have the domain, want one", n)
	}
	if task, err = s.RequestPowerActions(t.Context(), s.member, fleet.ActShutdown, ids[:2]); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("tasks WHERE parent_id = '" + string(task.ID) + "' AND error = 'There is no such VM.' AND subject = ''"); n != 1 {
		t.Errorf("%d children hide the discovered VM from a member of a project, want one", n)
	}
}
