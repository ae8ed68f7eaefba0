package control_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

func (s *projectFixture) treeText(a fleet.Actor, q query.TreeQuery) string {
	s.t.Helper()
	level, err := s.Tree(s.t.Context(), a, q)
	if err != nil {
		return string(fleet.CodeOf(err))
	}
	var rows []string
	for _, n := range level.Nodes {
		rows = append(rows, n.Kind+" "+n.Name)
	}
	return strings.Join(rows, ", ")
}

func TestTreeShowsOnlyVisibleObjects(t *testing.T) {
	s := newProjectFixture(t)
	web := s.createVM("web", fleet.Running)
	s.createVM("db", fleet.Stopped)
	s.execSQL(`UPDATE vms SET labels = '{"env":"a=b"}' WHERE id = $1`, web.ID)
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, gen_random_uuid()::text, 'old', '{"power":"running"}')`, s.h1)
	if _, err := s.RefreshCounters(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	red, host := string(s.red), string(s.h1)
	for _, c := range []struct {
		actor fleet.Actor
		query query.TreeQuery
		want  string
	}{
		{chief, query.TreeQuery{View: "hosts"}, "host h1, host h2"},
		{s.member, query.TreeQuery{View: "hosts"}, "forbidden"},
		{chief, query.TreeQuery{View: "hosts", Node: "host:" + host}, "found Discovered, vm db, vm web"},
		{chief, query.TreeQuery{View: "hosts", Node: "found:" + host}, "foundVM old"},
		{chief, query.TreeQuery{View: "vms"}, "project blue, project red"},
		{s.member, query.TreeQuery{View: "vms"}, "project red"},
		{chief, query.TreeQuery{View: "vms", Node: "project:" + red}, "vm db, vm web"},
		{s.blueMember, query.TreeQuery{View: "vms", Node: "project:" + red}, "notFound"},
		{chief, query.TreeQuery{View: "vms", Node: "project:" + red, LabelKey: "env"}, "label env=a=b, label without env"},
		{chief, query.TreeQuery{View: "vms", Node: "label:" + red + ":env=a=b"}, "vm web"},
		{chief, query.TreeQuery{View: "vms", Node: "label:" + red + ":env"}, "vm db"},
		{s.blueMember, query.TreeQuery{View: "vms", Node: "label:" + red + ":env"}, ""},
		{chief, query.TreeQuery{View: "storage"}, "storage Shared, storage Local"},
		{s.member, query.TreeQuery{View: "storage", Node: "storage:shared"}, "pool nfs"},
		{chief, query.TreeQuery{View: "storage", Node: "storage:local"}, "pool local"},
		{chief, query.TreeQuery{View: "networks"}, "network default"},
		{chief, query.TreeQuery{View: "cellar"}, "notFound"},
		{chief, query.TreeQuery{View: "hosts", Node: "host:x\x00"}, ""},
	} {
		if got := s.treeText(c.actor, c.query); got != c.want {
			t.Errorf("%s sees %+v as %q, want %q", c.actor.Name, c.query, got, c.want)
		}
	}
}

func TestSearchFindsOnlyVisibleObjects(t *testing.T) {
	s := newProjectFixture(t)
	web := s.createVM("web-1", fleet.Running)
	s.execSQL(`UPDATE vms SET labels = '{"env":"prod"}', spec = spec || `+defaultNICSQL("52:54:00:00:00:01")+`,
		status = status || '{"nics":[{"mac":"52:54:00:00:00:01","addresses":["10.0.0.5","10.0.0.6","fe80::5054:ff:fe00:1"]}]}' WHERE id = $1`, web.ID)
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, gen_random_uuid()::text, 'Web-old',
		'{"power":"running","nics":[{"mac":"52:54:00:AA:00:01","addresses":["10.0.7.1","10.0.7.2"]}]}')`, s.h1)
	for text, want := range map[string]string{
		"web": "vm web-1, found Web-old", "WEB-1": "vm web-1", "eb-": "vm web-1, found Web-old", string(web.ID): "vm web-1", "10.0.0.5": "vm web-1",
		"52:54:00:00:00:01": "vm web-1", "52-54-00-00-00-01": "vm web-1", "env=prod": "vm web-1", "env=nope": "",
		"10.0.": "vm web-1, found Web-old", "10.0.0": "vm web-1", "10.0.7": "found Web-old", "10.1": "", "FE80::5": "vm web-1", "fe80:0:0::5054:ff:fe00:1": "vm web-1",
		"52:54": "vm web-1, found Web-old", "52:54:00:a": "found Web-old", "52-54-00-0": "vm web-1", "54:00": "", "env=pr": "vm web-1", "ENV": "vm web-1", "nv=": "", "prod": "", "h1": "host h1", "nfs": "pool nfs", "default": "cluster default, network default", "red": "project red", " ": "", "%": "", `\`: "",
	} {
		hits, err := s.Search(t.Context(), chief, text, 8)
		var rows []string
		for _, f := range hits {
			rows = append(rows, f.Kind+" "+f.Name)
		}
		if got := strings.Join(rows, ", "); err != nil || got != want {
			t.Errorf("%q finds %q %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"10.0.0": "10.0.0.5", "10.0.0.6": "10.0.0.6", "52:54:00:00": "52:54:00:00:00:01", "env": "env=prod", "web-1": "red on h1", string(web.ID): string(web.ID),
		"10.0.7": "10.0.7.1, discovered on h1", "52:54:00:aa": "52:54:00:aa:00:01, discovered on h1", "web-o": "discovered on h1",
	} {
		if hits, err := s.Search(t.Context(), chief, text, 8); err != nil || len(hits) != 1 || hits[0].Hint != want {
			t.Errorf("%q finds %+v %v, want it in %q", text, hits, err, want)
		}
	}
	for _, text := range []string{"10.0", "52:54", "env=", "fe80"} {
		if hits, err := s.Search(t.Context(), s.blueMember, text, 8); err != nil || len(hits) != 0 {
			t.Errorf("by %q a user of another project finds %+v %v", text, hits, err)
		}
	}
	// Of the names that contain "e", a user of project blue finds only the network "default", the project "blue" and the
	// published images.
	hits, err := s.Search(t.Context(), s.blueMember, "e", 8)
	if hits = slices.DeleteFunc(hits, func(f fleet.SearchHit) bool { return f.Kind == "image" }); err != nil || len(hits) != 2 {
		t.Errorf("a user of another project finds %+v %v", hits, err)
	}
	s.wantRefused("too long", fleet.Malformed, "at most 200 bytes", func() error { _, err := s.Search(t.Context(), chief, strings.Repeat("x", 201), 8); return err })
}

func TestOverviewCountsOnlyVisibleObjects(t *testing.T) {
	s := newProjectFixture(t)
	s.createVM("ok", fleet.Running)
	s.createVM("dead", fleet.Crashed)
	s.execSQL(`UPDATE assignments SET status = '{"state":"failed","error":"mount.nfs: timed out"}' WHERE pool_id = $1 AND host_id = $2`, s.nfs, s.h1)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, s.h2)
	stuck := s.createVM("stuck", fleet.Running)
	s.execSQL(`UPDATE vms SET status = status || '{"power":"stopped","error":"no firmware","errorOf":"vm.start"}' WHERE id = $1`, stuck.ID)
	s.execSQL(`UPDATE jobs SET state = 'failed', error = 'no space', ended_at = now() WHERE task_id IN (SELECT id FROM tasks WHERE subject_name IN ('ok', 'stuck'))`)
	o, err := s.Overview(t.Context(), chief)
	if err != nil {
		t.Fatal(err)
	}
	if o.VMs[fleet.PhaseRunning] != 1 || o.VMs[fleet.PhaseCrashed] != 1 || o.Hosts[fleet.HostOnline] != 1 || o.Hosts[fleet.HostUnknown] != 1 ||
		o.VMs[fleet.PhaseStopped] != 1 || o.VMsNeedingAttention != 2 || o.CommittedCPUs != 3 || o.CPUThreads != 16 || o.MemoryBytes != 24<<30 || o.Pools[fleet.SeverityBad]+o.Pools[fleet.SeverityWarn] != 1 {
		t.Errorf("%+v", o)
	}
	var rows []string
	for _, a := range o.Attention {
		rows = append(rows, a.Kind+" "+a.Name+": "+a.Text)
	}
	want := "pool nfs: Failed: mount.nfs: timed out\nvm dead: Crashed\nhost h2: Its agent is offline. Its last report may be outdated.\n" +
		"vm stuck: Start failed: no firmware\ntask ok: Create failed: no space"
	if got := strings.Join(rows, "\n"); got != want {
		t.Errorf("attention:\n%s\nwant\n%s", got, want)
	}
	if totals, err := s.VMTotals(t.Context(), s.member); err != nil || totals.NeedingAttention != 2 || totals.Phases[fleet.PhaseRunning] != 1 {
		t.Errorf("a member counts %+v %v", totals, err)
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds'`)
	if _, err := s.RefreshCounters(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if totals, err := s.VMTotals(t.Context(), chief); err != nil || totals.NeedingAttention != 3 || totals.Phases[fleet.PhaseUnknown] != 3 {
		t.Errorf("of offline hosts: %+v %v", totals, err)
	}
	other, err := s.Overview(t.Context(), s.blueMember)
	if err != nil || len(other.VMs) != 0 || other.VMsNeedingAttention != 0 || len(other.Hosts) != 0 || len(other.Attention) != 0 || other.CommittedCPUs != 0 || other.CPUThreads != 0 {
		t.Errorf("a user of another project sees %+v %v", other, err)
	}
}

func TestFilterCompletionSuggestsOnlyVisibleValues(t *testing.T) {
	s := newProjectFixture(t)
	web := s.createVM("web", fleet.Running)
	s.execSQL(`UPDATE vms SET labels = '{"env":"prod","note":"two words"}',
		status = status || '{"nics":[{"mac":"52:54:00:00:00:01","addresses":["10.0.0.6","10.0.0.5","fe80::1"]}]}' WHERE id = $1`, web.ID)
	for _, c := range []struct {
		actor           fleet.Actor
		typ, text, want string
	}{
		{chief, "vms", "st", "state:"},
		{chief, "vms", "web -st", "-state:"},
		{chief, "vms", "mem", "memory>"},
		{chief, "vms", "memory>", ""},
		{chief, "vms", "att", "attention:"},
		{chief, "vms", "attention:", "attention:yes attention:no"},
		{chief, "vms", "address:", ""},
		{chief, "vms", "address:10.0", "address:10.0.0.5 address:10.0.0.6"},
		{chief, "vms", "address:10.0.0.5,FE", `address:10.0.0.5,"fe80::1"`},
		{chief, "vms", "mac:52:54", `mac:"52:54:00:00:00:01"`},
		{s.blueMember, "vms", "address:10.0", ""},
		{chief, "vms", "state:st", "state:starting state:stopping state:stopped"},
		{chief, "vms", "state=st", "state:starting state:stopping state:stopped"},
		{chief, "vms", "state:running,cra", "state:running,crashed"},
		{chief, "vms", "host:h", "host:h1 host:h2"},
		{s.member, "vms", "host:h", ""},
		{s.member, "vms", "project:", "project:red"},
		{chief, "vms", "label:env", "label:env=prod"},
		{chief, "vms", "label:note", `label:note="two words"`},
		{s.blueMember, "vms", "label:", ""},
		{chief, "vms", "pool:n", "pool:nfs"},
		{chief, "tasks", "who:", "who:me"},
		{chief, "cellar", "x", ""},
		{chief, "vms", "host:%", ""},
	} {
		got, err := s.Complete(t.Context(), c.actor, c.typ, c.text)
		var values []string
		for _, v := range got {
			values = append(values, v.Value)
		}
		if text := strings.Join(values, " "); err != nil || text != c.want {
			t.Errorf("%s %q: %q %v, want %q", c.typ, c.text, text, err, c.want)
		}
	}
}
