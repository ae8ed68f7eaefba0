package control_test

import (
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/consoles"
	"quantix/internal/control/hosts"
	"quantix/internal/fleet"
)

func TestHostsAreListedEditedAndDeleted(t *testing.T) {
	s := newProjectFixture(t)
	s.createVM("web", fleet.Running)
	edited := fleet.DefaultHostSpec()
	edited.Labels, edited.Description = map[string]string{"rack": "r7"}, "rack 7"
	v, err := s.UpdateHost(t.Context(), chief, s.h1, hosts.UpdateHost{Spec: edited, IfGeneration: 1})
	if err != nil || v.Generation != 2 || v.Spec.Labels["rack"] != "r7" || v.VMs != 1 || v.CommittedMiB != 256 || v.Phase != fleet.HostOnline {
		t.Fatalf("%+v %v", v, err)
	}
	s.execSQL(`UPDATE host_sessions SET conflict = 'another agent' WHERE host_id = $1`, s.h2)
	for filter, want := range map[string]string{
		"state:online": "h1", "state:conflict": "h2", "-state:online": "h2", "label:rack=r7": "h1", "label:rack": "h1", "-label:rack": "h2", "h": "h1 h2",
		"vms>0": "h1", "vms:0": "h2", "memory>=256M": "h1", "memory>256M": "", "vcpus<1": "h2", "description:RACK": "h1", "joined<2026-01-01": "", "uuid:" + string(s.h2): "h2",
	} {
		page, err := s.ListHosts(t.Context(), chief, fleet.Query{Filter: filter})
		var names []string
		for _, v := range page.Items {
			names = append(names, v.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", filter, got, err, want)
		}
	}
	for _, sort := range []string{"vms", "cpus", "memory"} { // h2 has no VM
		first, err := s.ListHosts(t.Context(), chief, fleet.Query{Sort: sort, Limit: 1})
		if err != nil || len(first.Items) != 1 || first.Items[0].Name != "h2" || first.Next == "" {
			t.Fatalf("first page by %s: %+v %v", sort, first, err)
		}
		second, err := s.ListHosts(t.Context(), chief, fleet.Query{Sort: sort, Limit: 1, After: first.Next})
		if err != nil || len(second.Items) != 1 || second.Items[0].Name != "h1" || second.Next != "" {
			t.Errorf("second page by %s: %+v %v", sort, second, err)
		}
	}
	if err := s.ClearConflict(t.Context(), chief, s.h2); err != nil {
		t.Error(err)
	}
	if got, err := s.GetHost(t.Context(), chief, s.h2); err != nil || got.Phase != fleet.HostOnline {
		t.Errorf("%s %v", got.Phase, err)
	}
	s.wantRefused("stale", fleet.Conflict, "(generation 2, you had 1)", func() error {
		_, err := s.UpdateHost(t.Context(), chief, s.h1, hosts.UpdateHost{IfGeneration: 1})
		return err
	})
	s.wantRefused("member sees", fleet.Forbidden, "do not have permission", func() error { _, err := s.GetHost(t.Context(), s.member, s.h1); return err })
	s.wantRefused("delete with VMs", fleet.Conflict, "web", func() error { return s.DeleteHost(t.Context(), chief, s.h1) })
	if err := s.DeleteHost(t.Context(), chief, s.h2); err != nil {
		t.Error(err)
	}
	s.wantRefused("delete twice", fleet.NotFound, "There is no such host.", func() error { return s.DeleteHost(t.Context(), chief, s.h2) })
}

func TestOfflineHostWithDeletedVMsCanBeDeleted(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	if _, err := s.Release(t.Context(), chief, fleet.SubjectPool(s.nfs), s.h1); err != nil {
		t.Fatal(err)
	}
	remove := func() error { return s.DeleteHost(t.Context(), chief, s.h1) }
	setOffline := func() {
		s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, s.h1)
	}
	setOffline()
	s.wantRefused("a host with VMs that are not being deleted", fleet.Conflict, "web", remove)
	if _, err := s.DeleteVM(t.Context(), chief, v.ID, false, ""); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now()`)
	s.wantRefused("a host with a running job", fleet.Conflict, "web", remove)
	setOffline()
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("vms") + s.countRows("jobs") + s.countRows("assignments WHERE asked = 'release'"); n != 0 {
		t.Errorf("%d rows of the host are left", n)
	}
}

func TestUnmanagedVMsHiddenFromMembers(t *testing.T) {
	s := newProjectFixture(t)
	id := fleet.NewID[fleet.VMID]()
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'Old_Box', '{"power":"running"}')`, s.h1, id)
	for filter, want := range map[string]int{"": 1, "old": 1, "state:running": 1, "state:stopped": 0, "host:h1": 1, "host:h2": 0, "id:" + string(id): 1} {
		page, err := s.ListDiscoveredVMs(t.Context(), chief, fleet.Query{Filter: filter})
		if err != nil || len(page.Items) != want {
			t.Errorf("%q: %+v %v", filter, page.Items, err)
		}
	}
	f, err := s.GetDiscoveredVM(t.Context(), chief, s.h1, id)
	if err != nil || f.Phase != fleet.PhaseRunning || f.HostName != "h1" {
		t.Errorf("%+v %v", f, err)
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = NULL`)
	if page, err := s.ListDiscoveredVMs(t.Context(), chief, fleet.Query{Filter: "state:unknown"}); err != nil || len(page.Items) != 1 {
		t.Errorf("of an offline host: %+v %v", page.Items, err)
	}
	s.wantRefused("member", fleet.Forbidden, "do not have permission", func() error { _, err := s.GetDiscoveredVM(t.Context(), s.member, s.h1, id); return err })
}

func TestNetworksListedWithTheirHosts(t *testing.T) {
	s := newProjectFixture(t)
	page, err := s.ListNetworks(t.Context(), s.member, fleet.Query{Filter: "kind:libvirt def"})
	if err != nil || len(page.Items) != 1 || len(page.Items[0].Hosts) != 0 || page.Items[0].Health.Hosts != 0 {
		t.Fatalf("%+v %v", page, err)
	}
	v, err := s.GetNetwork(t.Context(), chief, page.Items[0].ID)
	if err != nil || v.Hosts[0].Status.Bridge != "virbr0" {
		t.Errorf("%+v %v", v, err)
	}
	on, err := s.NetworksOnHost(t.Context(), chief, s.h2)
	if err != nil || len(on) != 1 || len(on[0].Hosts) != 1 {
		t.Errorf("%+v %v", on, err)
	}
}

func TestTasksAreListedCountedAndCancelled(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	job, err := s.RequestPowerAction(t.Context(), s.member, v.ID, fleet.ActShutdown)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := s.OpenConsole(t.Context(), s.member, v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RedeemConsole(t.Context(), s.member, ticket.ID, ticket.Secret); err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string]int{
		"": 2, "state:queued": 1, "kind:vm.shutdown": 1, "target:web": 2, "target:vm:" + string(v.ID): 2, "who:me": 1, "who:mia": 1, "-who:me": 1, "who:me,chief": 2, "who:m*": 1, "-who:me,chief": 0, "nope": 0,
	} {
		page, err := s.ListTasks(t.Context(), s.member, fleet.Query{Filter: filter})
		if err != nil || len(page.Items) != want {
			t.Errorf("%q: %d tasks %v, want %d", filter, len(page.Items), err, want)
		}
	}
	for filter, want := range map[string]int{"host:h1": 2, "host:h2": 0} {
		if page, err := s.ListTasks(t.Context(), chief, fleet.Query{Filter: filter}); err != nil || len(page.Items) != want {
			t.Errorf("%q: %d tasks %v, want %d", filter, len(page.Items), err, want)
		}
	}
	first, err := s.ListTasks(t.Context(), chief, fleet.Query{Limit: 1})
	if err != nil || len(first.Items) != 1 || first.Items[0].ID != job.ID {
		t.Fatalf("newest first: %+v %v", first, err)
	}
	second, err := s.ListTasks(t.Context(), chief, fleet.Query{Limit: 1, After: first.Next})
	if err != nil || len(second.Items) != 1 || second.Items[0].Title() != "Create" || second.Next != "" {
		t.Errorf("%+v %v", second, err)
	}
	if n, err := s.RunningTasks(t.Context(), s.member); err != nil || n != 1 {
		t.Errorf("%d running, %v", n, err)
	}
	if n, err := s.RunningTasks(t.Context(), s.blueMember); err != nil || n != 0 {
		t.Errorf("a user of another project counts %d, %v", n, err)
	}
	s.wantRefused("viewer cancels", fleet.Forbidden, "do not have permission", func() error { _, err := s.CancelTask(t.Context(), s.viewer, job.ID); return err })
	if got, err := s.CancelTask(t.Context(), s.member, job.ID); err != nil || got.State != fleet.JobCancelled || got.Error != "Cancelled by mia." {
		t.Errorf("%+v %v", got, err)
	}
	s.wantRefused("cancel twice", fleet.Conflict, "The task has ended.", func() error { _, err := s.CancelTask(t.Context(), s.member, job.ID); return err })
}

func TestConsoleTicketRedeemedOnce(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	ticket, err := s.OpenConsole(t.Context(), s.member, v.ID)
	if err != nil {
		t.Fatal(err)
	}
	other := s.member
	other.Session = "another browser"
	for name, a := range map[string]fleet.Actor{"another session": other, "another person": s.blueMember} {
		s.wantRefused(name, fleet.NotFound, "has been used or is too old", func() error { _, err := s.RedeemConsole(t.Context(), a, ticket.ID, ticket.Secret); return err })
	}
	s.wantRefused("wrong secret", fleet.NotFound, "has been used or is too old", func() error { _, err := s.RedeemConsole(t.Context(), s.member, ticket.ID, "x"); return err })
	h1, h2 := s.agentSession(s.h1), s.agentSession(s.h2)
	s.wantRefused("no browser yet", fleet.NotFound, "was not requested", func() error { _, err := s.JoinRelay(t.Context(), h1, ticket.ID); return err })
	if n := s.countRows("jobs WHERE kind = 'console.open'"); n != 0 {
		t.Errorf("%d jobs are queued before a browser connects", n)
	}
	landed := control.New(s.pool, control.Options{AgentURL: "https://portal.example:8444", PairURL: "https://portal-2:8444"})
	if end, err := landed.RedeemConsole(t.Context(), s.member, ticket.ID, ticket.Secret); err != nil || end.VM != v.ID {
		t.Errorf("%+v %v", end, err)
	}
	var args string
	if err := s.pool.QueryRow(t.Context(), `SELECT args->>'console' || ' ' || (args->>'portalUrl') FROM jobs WHERE kind = 'console.open'`).Scan(&args); err != nil || args != string(ticket.ID)+" https://portal-2:8444" {
		t.Errorf("the agent gets %q %v", args, err)
	}
	if _, err := s.JoinRelay(t.Context(), h1, ticket.ID); err != nil {
		t.Error(err)
	}
	s.wantRefused("another host", fleet.NotFound, "was not requested", func() error { _, err := s.JoinRelay(t.Context(), h2, ticket.ID); return err })
	s.wantRefused("an ended session", fleet.Conflict, "session has ended", func() error {
		_, err := s.JoinRelay(t.Context(), fleet.Actor{HostID: s.h1, Session: "old"}, ticket.ID)
		return err
	})
	s.execSQL(`UPDATE console_tickets SET used_at = now() - interval '31 seconds' WHERE console_id = $1`, ticket.ID)
	s.wantRefused("too late", fleet.NotFound, "was not requested", func() error { _, err := s.JoinRelay(t.Context(), h1, ticket.ID); return err })
	s.wantRefused("used", fleet.NotFound, "has been used or is too old", func() error { _, err := s.RedeemConsole(t.Context(), s.member, ticket.ID, ticket.Secret); return err })

	late, err := s.OpenConsole(t.Context(), s.member, v.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE console_tickets SET expires_at = now() WHERE console_id = $1`, late.ID)
	s.wantRefused("late", fleet.NotFound, "has been used or is too old", func() error { _, err := s.RedeemConsole(t.Context(), s.member, late.ID, late.Secret); return err })
	s.wantRefused("late host", fleet.NotFound, "was not requested", func() error { _, err := s.JoinRelay(t.Context(), h1, late.ID); return err })
	s.wantRefused("viewer", fleet.Forbidden, "do not have permission", func() error { _, err := s.OpenConsole(t.Context(), s.viewer, v.ID); return err })
	s.wantRefused("another project's user", fleet.NotFound, "There is no such VM.", func() error { _, err := s.OpenConsole(t.Context(), s.blueMember, v.ID); return err })
	gone, err := s.OpenConsole(t.Context(), s.member, v.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.reportPower(v.ID, fleet.Stopped)
	s.wantRefused("a console of a stopped VM", fleet.Conflict, "no screen", func() error { _, err := s.RedeemConsole(t.Context(), s.member, gone.ID, gone.Secret); return err })
	s.wantRefused("no screen", fleet.Conflict, "no screen", func() error { _, err := s.OpenConsole(t.Context(), s.member, v.ID); return err })
}

func TestUnusedConsoleTicketsAreLimited(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	open := func(a fleet.Actor) (consoles.ConsoleTicket, error) { return s.OpenConsole(t.Context(), a, v.ID) }
	var last consoles.ConsoleTicket
	for range 32 {
		var err error
		if last, err = open(s.member); err != nil {
			t.Fatal(err)
		}
	}
	s.wantRefused("one more", fleet.TooMany, "are not open yet", func() error { _, err := open(s.member); return err })
	other := chief
	other.Session = "another browser"
	if _, err := open(other); err != nil {
		t.Errorf("another person: %v", err)
	}
	if _, err := s.RedeemConsole(t.Context(), s.member, last.ID, last.Secret); err != nil {
		t.Fatal(err)
	}
	if _, err := open(s.member); err != nil {
		t.Errorf("after one was used: %v", err)
	}
	s.wantRefused("one ticket too many again", fleet.TooMany, "are not open yet", func() error { _, err := open(s.member); return err })
	s.execSQL(`UPDATE console_tickets SET expires_at = now() WHERE used_at IS NULL`)
	if _, err := open(s.member); err != nil {
		t.Errorf("after they expired: %v", err)
	}
}
