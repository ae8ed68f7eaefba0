package control_test

import (
	"testing"

	"quantix/internal/fleet"
)

func (s *projectFixture) addDiscoveredVM(status string) fleet.VMID {
	id := fleet.NewID[fleet.VMID]()
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'legacy', $3)`, s.h1, id, status)
	return id
}

func TestDiscoveredVMPowerActionQueuesHostJob(t *testing.T) {
	s := newProjectFixture(t)
	id := s.addDiscoveredVM(`{"power":"running"}`)
	pause, err := s.RequestDiscoveredVMAction(t.Context(), chief, s.h1, id, fleet.ActPause)
	if err != nil || pause.Kind != fleet.DiscoveredPause || pause.HostID != s.h1 || pause.ProjectID != "" || pause.Subject != fleet.SubjectDiscoveredVM(s.h1, id) {
		t.Fatalf("%+v %v", pause, err)
	}
	stop, err := s.RequestDiscoveredVMAction(t.Context(), chief, s.h1, id, fleet.ActStop)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("jobs WHERE id = '" + string(stop.ID) + "' AND state = 'queued'"); n != 1 {
		t.Errorf("%d queued jobs to force the VM off", n)
	}
	if n := s.countRows("tasks WHERE id = '" + string(pause.ID) + "' AND state = 'cancelled'"); n != 1 {
		t.Error("the queued pause is not cancelled by a later power-off")
	}
}

func TestDiscoveredVMActionRefusedWithReason(t *testing.T) {
	s := newProjectFixture(t)
	running, off := s.addDiscoveredVM(`{"power":"running","noConsole":"The VM has no VNC display.","transient":true}`), s.addDiscoveredVM(`{"power":"stopped"}`)
	signedIn := chief
	signedIn.Session = "session"
	for _, c := range []struct {
		id   fleet.VMID
		act  fleet.Action
		says string
	}{
		{running, fleet.ActStart, "Only a stopped VM can be started."},
		{running, fleet.ActStop, "no persistent definition"},
		{running, fleet.ActShutdown, "no persistent definition"},
		{running, fleet.ActConsole, "no VNC display"},
		{off, fleet.ActReset, "Only a running VM can be reset."},
		{off, fleet.ActConsole, "it has no screen"},
	} {
		s.wantRefused(string(c.act), fleet.Conflict, c.says, func() error {
			if c.act == fleet.ActConsole {
				_, err := s.OpenDiscoveredConsole(t.Context(), signedIn, s.h1, c.id)
				return err
			}
			_, err := s.RequestDiscoveredVMAction(t.Context(), chief, s.h1, c.id, c.act)
			return err
		})
	}
	s.wantRefused("unknown action", fleet.Invalid, "There is no power action", func() error {
		_, err := s.RequestDiscoveredVMAction(t.Context(), chief, s.h1, running, fleet.ActDelete)
		return err
	})
	s.wantRefused("another host", fleet.NotFound, "", func() error {
		_, err := s.RequestDiscoveredVMAction(t.Context(), chief, s.h2, running, fleet.ActPause)
		return err
	})
	s.execSQL(`UPDATE host_sessions SET seen_at = NULL`)
	s.wantRefused("offline host", fleet.Conflict, "host is offline", func() error {
		_, err := s.RequestDiscoveredVMAction(t.Context(), chief, s.h1, off, fleet.ActStart)
		return err
	})
	if n := s.countRows("jobs WHERE subject LIKE 'found:%'"); n != 0 {
		t.Errorf("%d jobs were queued", n)
	}
}

func TestManagedFilterNamesOtherList(t *testing.T) {
	s := newProjectFixture(t)
	s.addDiscoveredVM(`{"power":"running"}`)
	for _, filter := range []string{"managed:no", "-managed:yes"} {
		page, err := s.ListDiscoveredVMs(t.Context(), chief, fleet.Query{Filter: filter})
		if err != nil || len(page.Items) != 1 {
			t.Errorf("%q lists %d discovered VMs, %v", filter, len(page.Items), err)
		}
		s.wantRefused("VMs "+filter, fleet.Invalid, "list of discovered VMs", func() error {
			_, err := s.ListVMs(t.Context(), chief, fleet.Query{Filter: filter})
			return err
		})
	}
	s.wantRefused("discovered VMs managed:yes", fleet.Invalid, "list of VMs", func() error {
		_, err := s.ListDiscoveredVMs(t.Context(), chief, fleet.Query{Filter: "managed:yes"})
		return err
	})
	if _, err := s.ListVMs(t.Context(), chief, fleet.Query{Filter: "managed:yes"}); err != nil {
		t.Error(err)
	}
}
