package control_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/event"
	"quantix/internal/fleet"
	"quantix/internal/vmedit"
)

// newPublishingFixture returns a fixture with the pool hidden-pool and the network hidden-net, which are on both hosts and
// published to project blue only.
func newPublishingFixture(t *testing.T) (s *libraryFixture, pool fleet.PoolID, network fleet.NetworkID) {
	t.Helper()
	s = newLibraryFixture(t)
	pool = s.addPool("hidden-pool", `{"kind":"dir","path":"/srv/hidden","shared":false}`, s.h1, s.h2)
	network = s.networkOnBothHosts(fleet.NetworkLibvirt, "hidden-net", "nat")
	s.execSQL(`UPDATE pool_grants SET project_id = $2 WHERE pool_id = $1`, pool, s.blue)
	s.execSQL(`UPDATE network_grants SET project_id = $2 WHERE network_id = $1`, network, s.blue)
	return s, pool, network
}

// Members of red get no answer with the name of a pool or network that is published to blue only. Members of blue and
// viewers of all projects do.
func TestTenantSeesOnlyPublishedPoolsAndNetworks(t *testing.T) {
	s, pool, network := newPublishingFixture(t)
	s.execSQL(`UPDATE assignments SET status = '{"state":"failed","error":"no route"}' WHERE pool_id = $1`, pool) // it is on the list of problems
	reader := map[string]*eventReader{}
	actors := []fleet.Actor{s.member, s.blueMember, {UserID: "vera", Name: "vera", Role: fleet.RoleViewer}}
	for _, a := range actors {
		reader[a.Name] = s.newEventReader(a)
	}
	s.execSQL(`UPDATE pools SET generation = generation + 1`)
	s.execSQL(`UPDATE networks SET generation = generation + 1`)
	s.settleEvents()
	for _, a := range actors {
		ctx, answers := t.Context(), map[string]any{}
		add := func(name string, answer any, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s of %s: %v", name, a.Name, err)
			}
			answers[name] = answer
		}
		pools, err := s.ListPools(ctx, a, fleet.Query{})
		add("pools", pools, err)
		full, err := s.ListPoolsInFull(ctx, a, fleet.Query{})
		add("pools in full", full, err)
		names, err := s.PoolNames(ctx, a, []fleet.PoolID{pool, s.nfs})
		add("names of pools", names, err)
		networks, err := s.ListNetworks(ctx, a, fleet.Query{})
		add("networks", networks, err)
		found, err := s.Search(ctx, a, "hidden", 8)
		add("search", found, err)
		completed, err := s.Complete(ctx, a, "vms", "pool:hid")
		add("completion of pools", completed, err)
		completed, err = s.Complete(ctx, a, "vms", "network:hid")
		add("completion of networks", completed, err)
		level, err := s.Tree(ctx, a, query.TreeQuery{View: "storage", Node: "storage:local"})
		add("tree of pools", level, err)
		level, err = s.Tree(ctx, a, query.TreeQuery{View: "networks"})
		add("tree of networks", level, err)
		overview, err := s.Overview(ctx, a)
		add("overview", overview, err)
		events, err := s.ReadEvents(ctx, a, event.Query{After: reader[a.Name].at})
		add("events", events, err)
		usableNetworks, err := s.UsableNetworks(ctx, a)
		add("usable networks", usableNetworks, err)
		for name, answer := range answers {
			text, err := json.Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			sees, wants := strings.Contains(string(text), "hidden-"), a.Name != s.member.Name
			switch name {
			case "usable networks":
				wants = a.Name == s.blueMember.Name // viewers create no VMs
			case "overview":
				wants = a.Role != fleet.RoleNone // the fault affects no VM of the members
			}
			if sees != wants {
				t.Errorf("%s of %s has the hidden name: %t, want %t: %s", name, a.Name, sees, wants, text)
			}
		}
	}
	for name, read := range map[string]func() error{
		"pool":        func() error { _, err := s.GetPool(t.Context(), s.member, pool); return err },
		"its hosts":   func() error { _, _, err := s.PoolMatrix(t.Context(), s.member, pool, fleet.Query{}); return err },
		"its volumes": func() error { _, err := s.PoolVolumes(t.Context(), s.member, pool); return err },
		"its VMs":     func() error { _, err := s.PoolVMs(t.Context(), s.member, pool, fleet.Query{}); return err },
		"its counts":  func() error { _, err := s.PoolCounts(t.Context(), s.member, pool); return err },
		"network":     func() error { _, err := s.GetNetwork(t.Context(), s.member, network); return err },
		"topology":    func() error { _, err := s.NetworkTopology(t.Context(), s.member, network); return err },
		"port groups": func() error { _, err := s.PortGroups(t.Context(), s.member, network); return err },
	} {
		err := read()
		wantCode(t, err, fleet.NotFound)
		if strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if o, err := s.Overview(t.Context(), s.member); err != nil || o.Pools[fleet.SeverityBad] != 0 {
		t.Errorf("the dashboard counts %v, %v", o.Pools, err)
	}
	roots, err := s.Tree(t.Context(), s.member, query.TreeQuery{View: "storage"})
	if err != nil || roots.Nodes[0].Count != 1 || roots.Nodes[1].Count != 1 {
		t.Errorf("the tree of storage counts %+v, %v", roots.Nodes, err)
	}
}

// The name of an unpublished pool or network cannot be guessed with a filter, even if one of the tenant's VMs uses it.
func TestFiltersDoNotRevealUnpublishedNames(t *testing.T) {
	s, pool, network := newPublishingFixture(t)
	v := s.createVM("web", fleet.Stopped)
	s.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', 'd')), 'nics', jsonb_build_array(jsonb_build_object('networkId', $3::text, 'mac', '52:54:00:00:00:09'))) WHERE id = $1`, v.ID, pool, network)
	for _, filter := range []string{"pool:hidden-pool", "network:hidden-net", "pool:hid*"} {
		page, err := s.ListVMs(t.Context(), s.member, fleet.Query{Filter: filter})
		all, err2 := s.ListVMs(t.Context(), chief, fleet.Query{Filter: filter})
		if err := errors.Join(err, err2); err != nil || len(page.Items) != 0 || len(all.Items) != 1 {
			t.Errorf("%s: a member finds %d VMs, an administrator %d: %v", filter, len(page.Items), len(all.Items), err)
		}
	}
	images, err := s.ListImages(t.Context(), s.member, fleet.Query{Filter: "pool:hidden-pool"})
	if err != nil || len(images.Items) != 0 {
		t.Errorf("%+v %v", images.Items, err)
	}
}

// Each way to a new disk refuses a pool that is not published to the VM's project, at the field, with the text of a pool
// that does not exist. People who may change infrastructure may use every pool.
func TestUnpublishedPoolRefused(t *testing.T) {
	s, pool, _ := newPublishingFixture(t)
	existing := s.stoppedVM("existing", fleet.Disk{PoolID: s.nfs, SizeBytes: 1 << 20})
	template := s.newTemplate("Web", existing)
	if err := s.GrantTemplate(t.Context(), chief, template.ID, s.red); err != nil {
		t.Fatal(err)
	}
	in := func(a fleet.Actor, pool fleet.PoolID) control.CreateVM {
		spec := smallSpec
		spec.Disks = []fleet.Disk{{PoolID: s.nfs, SizeBytes: 1 << 20}, {PoolID: pool, SizeBytes: 1 << 20}}
		return control.CreateVM{ProjectID: s.red, Name: "of-" + a.Name, Spec: spec}
	}
	edit := func(a fleet.Actor, pool fleet.PoolID) error {
		spec := s.getVM(existing.ID).Spec
		spec.Disks = append(spec.Disks, fleet.Disk{PoolID: pool, SizeBytes: 1 << 20})
		_, _, err := s.UpdateVM(t.Context(), a, existing.ID, control.UpdateVM{Spec: &spec})
		return err
	}
	paths := map[string]struct {
		disk int
		do   func(fleet.Actor, fleet.PoolID) error
	}{
		"create":  {1, func(a fleet.Actor, p fleet.PoolID) error { _, err := s.CreateVM(t.Context(), a, in(a, p)); return err }},
		"preview": {1, func(a fleet.Actor, p fleet.PoolID) error { _, err := s.PreviewVM(t.Context(), a, in(a, p)); return err }},
		"template": {0, func(a fleet.Actor, p fleet.PoolID) error {
			_, err := s.CreateVM(t.Context(), a, control.CreateVM{ProjectID: s.red, Name: "t-" + a.Name, From: &control.VMSource{TemplateID: template.ID, PoolID: p, Full: true}})
			return err
		}},
		"clone": {0, func(a fleet.Actor, p fleet.PoolID) error {
			_, err := s.CreateVM(t.Context(), a, control.CreateVM{ProjectID: s.red, Name: "c-" + a.Name, From: &control.VMSource{VMID: existing.ID, PoolID: p}})
			return err
		}},
		"add a disk": {1, edit},
	}
	for name, path := range paths {
		for kind, p := range map[string]fleet.PoolID{"unpublished": pool, "unknown": fleet.NewID[fleet.PoolID]()} {
			s.wantRefused(name+" in an "+kind+" pool", fleet.Invalid, "There is no such pool, or none that is published to the project.", func() error {
				err := path.do(s.member, p)
				var e *fleet.Error
				if errors.As(err, &e) && (len(e.Fields) != 1 || e.Fields[0].Field != []string{"spec.disks[0].poolId", "spec.disks[1].poolId"}[path.disk]) {
					t.Errorf("%s: fields %+v", name, e.Fields)
				}
				return err
			})
		}
	}
	series := control.CreateVMs{CreateVM: in(s.member, pool), BulkNames: vmedit.BulkNames{Count: 2}}
	series.Name = "many-{n}"
	task, err := s.CreateVMs(t.Context(), s.member, series)
	if err == nil {
		s.beginTasks()
		task, err = s.GetTask(t.Context(), chief, task.ID)
		if err != nil || s.countRows("vms WHERE name LIKE 'many-%'") != 0 {
			t.Errorf("of several: %+v %v", task, err)
		}
	} else if fleet.CodeOf(err) != fleet.Invalid {
		t.Errorf("of several: %v", err)
	}
	for name, path := range paths {
		if err := path.do(chief, pool); err != nil {
			t.Errorf("%s by an administrator: %v", name, withFieldErrors(err))
		}
	}
}

// A VM keeps its disk in a pool that was withdrawn: it can be edited, and the errors do not name the pool.
func TestVMKeepsDiskInWithdrawnPool(t *testing.T) {
	s, pool, network := newPublishingFixture(t)
	s.setPoolSizes(pool, 1024, 0, 0)
	in := control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: "web", Spec: smallSpec}
	in.Spec.Disks, in.Spec.NICs = []fleet.Disk{{PoolID: pool, SizeBytes: 1 << 20}}, []fleet.NIC{{NetworkID: network}}
	v, err := s.CreateVM(t.Context(), chief, in)
	if err != nil {
		t.Fatal(err)
	}
	s.finishCreation(v)
	s.reportPower(v.ID, fleet.Stopped)
	change := func(f func(*fleet.VMSpec)) error {
		_, _, err := s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(s.getVM(v.ID), f))
		return err
	}
	if err := change(func(x *fleet.VMSpec) { x.MemoryMiB = 512 }); err != nil {
		t.Errorf("an edit that leaves the disk and the NIC alone: %v", err)
	}
	s.reportPower(v.ID, fleet.Stopped)
	if err := change(func(x *fleet.VMSpec) { x.NICs[0].Model = "e1000e" }); err != nil && strings.Contains(withFieldErrors(err).Error(), "published") {
		t.Errorf("an edit of the NIC's model: %v", withFieldErrors(err))
	}
	s.wantRefused("a disk that is too large", fleet.Invalid, "", func() error {
		err := change(func(x *fleet.VMSpec) { x.Disks[0].SizeBytes = 900 << 40 })
		if err != nil && strings.Contains(withFieldErrors(err).Error(), "hidden-pool") {
			t.Errorf("the error names the pool: %v", withFieldErrors(err))
		}
		return err
	})
}

// Publishing is idempotent, audited and announced, and needs the permission to change infrastructure.
func TestPoolPublishedAndWithdrawn(t *testing.T) {
	s, pool, _ := newPublishingFixture(t)
	s.wantRefused("by a member", fleet.Forbidden, "do not have permission", func() error { return s.GrantPool(t.Context(), s.member, pool, s.red) })
	s.wantRefused("to no project", fleet.NotFound, "no such project", func() error { return s.GrantPool(t.Context(), chief, pool, "nowhere") })
	s.wantRefused("no pool", fleet.NotFound, "no such pool", func() error { return s.GrantPool(t.Context(), chief, fleet.NewID[fleet.PoolID](), s.red) })
	r := s.newEventReader(s.member)
	for range 2 {
		if err := s.GrantPool(t.Context(), chief, pool, s.red); err != nil {
			t.Fatal(err)
		}
	}
	s.auditActions("pool.grant")
	r.want("a pool was published", "pool changed hidden-pool")
	v, err := s.GetPool(t.Context(), s.member, pool)
	if err != nil || len(v.Grants) != 1 || v.Grants[0].ProjectID != s.red || v.Grants[0].By != "" || !v.OpenToProject(s.red) || v.OpenToProject(s.blue) {
		t.Errorf("%+v %v", v.Grants, err)
	}
	if v, err = s.GetPool(t.Context(), chief, pool); err != nil || len(v.Grants) != 2 || v.Grants[1].By != chief.Name || v.Grants[1].ProjectName != "red" {
		t.Errorf("%+v %v", v.Grants, err)
	}
	for range 2 {
		if err := s.RevokePool(t.Context(), chief, pool, s.red); err != nil {
			t.Fatal(err)
		}
	}
	s.auditActions("pool.revoke")
	_, err = s.GetPool(t.Context(), s.member, pool)
	wantCode(t, err, fleet.NotFound)
	if err := s.GrantPool(t.Context(), chief, pool, ""); err != nil {
		t.Fatal(err)
	}
	if v, err = s.GetPool(t.Context(), s.member, pool); err != nil || len(v.Grants) != 1 || v.Grants[0].ProjectID != "" {
		t.Errorf("published to all projects: %+v %v", v.Grants, err)
	}
	// Members of both projects hear of the deletion, because the pool was published to all.
	r = s.newEventReader(s.member)
	s.execSQL(`DELETE FROM assignments WHERE pool_id = $1`, pool)
	s.execSQL(`DELETE FROM pools WHERE id = $1`, pool)
	if got := r.read(fleet.TypePool); len(got) == 0 || got[len(got)-1] != "pool deleted hidden-pool" {
		t.Errorf("events of the deletion: %v", got)
	}
}
