package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/hosts"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

// createCluster creates a cluster with the hosts.
func (s *projectFixture) createCluster(name string, spec fleet.ClusterSpec, members ...fleet.HostID) fleet.ClusterID {
	s.t.Helper()
	v, err := s.CreateCluster(s.t.Context(), chief, hosts.ClusterInput{Name: name, Spec: spec})
	if err == nil && len(members) > 0 {
		err = s.AddHostsToCluster(s.t.Context(), chief, v.ID, members)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return v.ID
}

// setCPUGap writes the host's report that it lacks the features for the model.
func (s *projectFixture) setCPUGap(host fleet.HostID, model string, missing ...string) {
	s.t.Helper()
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,cpuModelGaps}', jsonb_build_array(jsonb_build_object('model', $2::text, 'missing', $3::text[]))) WHERE id = $1`, host, model, missing)
}

func (s *projectFixture) updateCluster(id fleet.ClusterID, change func(*hosts.ClusterInput)) error {
	v, err := s.GetCluster(s.t.Context(), chief, id)
	if err != nil {
		return err
	}
	in := hosts.ClusterInput{Name: v.Name, Spec: v.Spec, IfGeneration: v.Generation}
	change(&in)
	_, err = s.UpdateCluster(s.t.Context(), chief, id, in)
	return err
}

// All hosts are in the cluster "default" first. It can be changed, but not deleted. Another cluster can be deleted
// without hosts only.
func TestClusterOfHostChangedAndEmptyClusterDeleted(t *testing.T) {
	s := newProjectFixture(t)
	h, err := s.GetHost(t.Context(), chief, s.h1)
	if err != nil || h.ClusterID != fleet.DefaultClusterID || h.ClusterName != "default" {
		t.Fatalf("h1 is in %q %q: %v", h.ClusterName, h.ClusterID, err)
	}
	blue := s.createCluster("blue", fleet.ClusterSpec{Description: "upstairs"})
	s.wantRefused("a taken name", fleet.Conflict, `"blue" exists already`, func() error {
		_, err := s.CreateCluster(t.Context(), chief, hosts.ClusterInput{Name: "blue"})
		return err
	})
	s.wantRefused("no name", fleet.Invalid, "Enter a name", func() error { _, err := s.CreateCluster(t.Context(), chief, hosts.ClusterInput{}); return err })
	h, err = s.UpdateHost(t.Context(), chief, s.h1, hosts.UpdateHost{Spec: h.Spec, ClusterID: blue, IfGeneration: h.Generation})
	if err != nil || h.ClusterName != "blue" || h.Generation != 2 {
		t.Errorf("h1 is in %q at generation %d: %v", h.ClusterName, h.Generation, err)
	}
	s.wantRefused("an unknown cluster", fleet.NotFound, "no such cluster", func() error {
		_, err := s.UpdateHost(t.Context(), chief, s.h1, hosts.UpdateHost{Spec: h.Spec, ClusterID: fleet.NewID[fleet.ClusterID]()})
		return err
	})
	s.wantRefused("with a host", fleet.Conflict, "The cluster still has 1 host. Move them to another cluster first. blue has h1.", func() error { return s.DeleteCluster(t.Context(), chief, blue) })
	s.wantRefused("the default cluster", fleet.Conflict, "cannot be deleted. default has h2.", func() error { return s.DeleteCluster(t.Context(), chief, fleet.DefaultClusterID) })
	if err := s.AddHostsToCluster(t.Context(), chief, fleet.DefaultClusterID, []fleet.HostID{s.h1, s.h2}); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteCluster(t.Context(), chief, blue); err != nil {
		t.Fatal(err)
	}
	if err := s.updateCluster(fleet.DefaultClusterID, func(in *hosts.ClusterInput) { in.Name = "main" }); err != nil {
		t.Errorf("rename the default cluster: %v", err)
	}
	s.wantRefused("an old generation", fleet.Conflict, "Reload", func() error {
		return s.updateCluster(fleet.DefaultClusterID, func(in *hosts.ClusterInput) { in.IfGeneration = 7; in.Name = "x" })
	})
	var audit []string
	err = s.pool.QueryRow(t.Context(), `SELECT array_agg(action || ' ' || name || ': ' || detail ORDER BY id) FROM audit WHERE action LIKE '%cluster%'`).Scan(&audit)
	want := "cluster.create blue: description|host.cluster h1: default → blue|host.cluster h1: blue → default|cluster.delete blue: |cluster.edit main: name default → main"
	if err != nil || strings.Join(audit, "|") != want {
		t.Errorf("the audit log has %q: %v", audit, err)
	}
}

// A host that lacks a CPU feature of the baseline is refused by the feature's name, and so is such a baseline. A host
// that joins is not refused; its page and the cluster's page name the features.
func TestHostBelowBaselineRefusedByFeatureName(t *testing.T) {
	s := newProjectFixture(t)
	s.setCPUModels(s.h1, "Haswell-noTSX", "Nehalem")
	s.setCPUModels(s.h2, "Nehalem")
	s.setCPUGap(s.h2, "Haswell-noTSX", "avx2", "erms")
	blue := s.createCluster("blue", fleet.ClusterSpec{CPUModel: "Haswell-noTSX"}, s.h1)
	const why = "h2 lacks the CPU features avx2, erms of the cluster's baseline Haswell-noTSX."
	s.wantRefused("added", fleet.Invalid, why, func() error { return s.AddHostsToCluster(t.Context(), chief, blue, []fleet.HostID{s.h2}) })
	s.wantRefused("moved", fleet.Invalid, why, func() error {
		_, err := s.UpdateHost(t.Context(), chief, s.h2, hosts.UpdateHost{Spec: fleet.DefaultHostSpec(), ClusterID: blue})
		return err
	})
	baseline := func(cluster fleet.ClusterID, model string) func() error {
		return func() error {
			return s.updateCluster(cluster, func(in *hosts.ClusterInput) { in.Spec.CPUModel = model })
		}
	}
	s.wantRefused("a baseline", fleet.Invalid, why, baseline(fleet.DefaultClusterID, "Haswell-noTSX"))
	s.wantRefused("a baseline without known features", fleet.Invalid, "h2 does not support the CPU model EPYC.", baseline(fleet.DefaultClusterID, "EPYC"))
	s.wantRefused("no named model", fleet.Invalid, "Enter the name of a CPU model", baseline(fleet.DefaultClusterID, "host-passthrough"))
	if err := baseline(blue, "Nehalem")(); err != nil {
		t.Fatal(err)
	}
	if err := s.AddHostsToCluster(t.Context(), chief, blue, []fleet.HostID{s.h2}); err != nil {
		t.Fatal(err)
	}
	// A host joins the default cluster, which has a baseline.
	if err := baseline(fleet.DefaultClusterID, "Haswell-noTSX")(); err != nil {
		t.Fatal(err)
	}
	h3 := s.addHostWithMemory("h3", 4096)
	s.setCPUModels(h3, "Nehalem")
	s.setCPUGap(h3, "Haswell-noTSX", "avx2")
	h, err := s.GetHost(t.Context(), chief, h3)
	if err != nil || h.BaselineGap == nil || strings.Join(h.BaselineGap.Missing, " ") != "avx2" {
		t.Errorf("the host's page: %+v %v", h.BaselineGap, err)
	}
	v, err := s.GetCluster(t.Context(), chief, fleet.DefaultClusterID)
	if err != nil || v.Usage.BelowBaseline != 1 || v.Usage.BaselineGaps[0].HostName != "h3" || v.Usage.BaselineGaps[0].Missing[0] != "avx2" {
		t.Errorf("the cluster's page: %+v %v", v.Usage, err)
	}
	if err := s.updateCluster(fleet.DefaultClusterID, func(in *hosts.ClusterInput) { in.Spec.Description = "still editable" }); err != nil {
		t.Errorf("edit of a cluster with a host below the baseline: %v", err)
	}
	s.wantRefused("a new VM on that host", fleet.Invalid, "h3 lacks the CPU feature avx2 of the cluster's baseline Haswell-noTSX", func() error {
		_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: h3, Name: "new", Spec: smallSpec})
		return err
	})
}

// A new VM that names no CPU model gets the baseline of its host's cluster. Edits and VMs that name a model or mode keep
// theirs.
func TestNewVMGetsBaselineOfItsCluster(t *testing.T) {
	s := newProjectFixture(t)
	s.setCPUModels(s.h1, "Haswell-noTSX", "Nehalem")
	s.setCPUModels(s.h2, "Nehalem")
	blue := s.createCluster("blue", fleet.ClusterSpec{CPUModel: "Nehalem"}, s.h2)
	made := func(name, model string, host fleet.HostID, cluster fleet.ClusterID) (fleet.VMView, error) {
		spec := smallSpec
		spec.CPU.Model = model
		return s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, HostID: host, ClusterID: cluster, Name: name, Spec: spec})
	}
	for name, c := range map[string]struct {
		model   string
		host    fleet.HostID
		cluster fleet.ClusterID
		on      fleet.HostID
		want    string
	}{
		"any":         {"", "", "", s.h1, ""}, // h1 has more free memory, and its cluster has no baseline
		"in-blue":     {"", "", blue, s.h2, "Nehalem"},
		"on-h2":       {"", s.h2, "", s.h2, "Nehalem"},
		"both":        {"", s.h2, blue, s.h2, "Nehalem"},
		"passthrough": {"host-passthrough", "", blue, s.h2, "host-passthrough"},
		"host-model":  {"host-model", "", blue, s.h2, "host-model"},
		"named":       {"Haswell-noTSX", "", "", s.h1, "Haswell-noTSX"},
		"in-default":  {"", "", fleet.DefaultClusterID, s.h1, ""},
	} {
		v, err := made(name, c.model, c.host, c.cluster)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v := s.getVM(v.ID); v.HostID != c.on || v.Spec.CPU.Model != c.want {
			t.Errorf("%s: model %q on %s, want %q", name, v.Spec.CPU.Model, v.HostName, c.want)
		}
	}
	s.wantRefused("a host of another cluster", fleet.Invalid, "The VM's host is in another cluster", func() error { _, err := made("x", "", s.h1, blue); return err })
	s.wantRefused("a host of another cluster, by an administrator", fleet.Invalid, "h1 is in the cluster default. Choose that cluster, or another host.", func() error {
		_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, ClusterID: blue, Name: "x", Spec: smallSpec})
		return err
	})
	s.wantRefused("an unknown cluster", fleet.Invalid, "There is no such cluster", func() error { _, err := made("x", "", "", fleet.NewID[fleet.ClusterID]()); return err })
	s.wantRefused("no cluster's id", fleet.Invalid, "There is no such cluster", func() error { _, err := made("x", "", "", "blue"); return err })
	s.wantRefused("too large for the cluster", fleet.Invalid, "1 host: not enough memory", func() error {
		_, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, ClusterID: blue, Name: "x", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 12000}})
		return err
	})
	p, err := s.PreviewVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, ClusterID: blue, Name: "x", Spec: smallSpec})
	if err != nil || p.Host != "h2" || p.Spec.CPU.Model != "Nehalem" || len(p.Hosts) != 0 {
		t.Errorf("the preview: %+v %v", p, err)
	}
	v := s.createVM("edited", fleet.Stopped)
	if err := s.updateCluster(fleet.DefaultClusterID, func(in *hosts.ClusterInput) { in.Spec.CPUModel = "Haswell-noTSX" }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(v, func(v *fleet.VMSpec) { v.MemoryMiB = 512 })); err != nil || s.getVM(v.ID).Spec.CPU.Model != "" {
		t.Errorf("an edit sets the model %q: %v", s.getVM(v.ID).Spec.CPU.Model, err)
	}
}

// Clones get the baseline, too. The plan of a new VM shows it.
func TestCloneAndPlanUseBaseline(t *testing.T) {
	s := newProjectFixture(t)
	s.setCPUModels(s.h1, "Nehalem")
	s.setCPUModels(s.h2, "Nehalem")
	original := s.createVM("original", fleet.Stopped)
	if err := s.updateCluster(fleet.DefaultClusterID, func(in *hosts.ClusterInput) { in.Spec.CPUModel = "Nehalem" }); err != nil {
		t.Fatal(err)
	}
	clone, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "clone", From: &control.VMSource{VMID: original.ID}})
	if err != nil || clone.Spec.CPU.Model != "Nehalem" {
		t.Errorf("the clone has the model %q: %v", clone.Spec.CPU.Model, err)
	}
	if _, err := s.PlanNewVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "planned", Spec: smallSpec}); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows(`vm_plans WHERE vm #>> '{spec,cpu,model}' = 'Nehalem'`); n != 1 {
		t.Errorf("%d plans with the baseline, want 1", n)
	}
}

// A cluster's ratios apply to its hosts that set none: on the host's page, for placement and for starts.
func TestClusterOvercommitAppliesToItsHosts(t *testing.T) {
	s := newProjectFixture(t) // h2 has 8,192 MiB and 8 threads
	blue := s.createCluster("blue", fleet.ClusterSpec{Overcommit: fleet.Overcommit{CPU: 1, Memory: 2}}, s.h2)
	h, err := s.GetHost(t.Context(), chief, s.h2)
	if c := h.Capacity; err != nil || c.AllocatableCPUs != 8 || c.AllocatableMemoryMiB != 2*(8192-819) {
		t.Errorf("the capacity is %+v: %v", c, err)
	}
	if page, err := s.ListHosts(t.Context(), chief, fleet.Query{Filter: "cluster:blue"}); err != nil || len(page.Items) != 1 || page.Items[0].Capacity != h.Capacity || page.Items[0].ClusterName != "blue" {
		t.Errorf("the list has %+v: %v", page.Items, err)
	}
	create := func(name string, cpus, mib int) error {
		_, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, ClusterID: blue, Name: name, Spec: fleet.VMSpec{CPUs: cpus, MemoryMiB: mib}})
		return err
	}
	if err := create("one", 4, 8000); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("too many vCPUs", fleet.Invalid, "not enough processors", func() error { return create("two", 5, 1000) })
	s.wantRefused("too much memory", fleet.Invalid, "not enough memory", func() error { return create("two", 1, 7000) })
	if _, err := s.UpdateHost(t.Context(), chief, s.h2, hosts.UpdateHost{Spec: specWithRatio(4)}); err != nil {
		t.Fatal(err)
	}
	if err := create("two", 5, 1000); err != nil {
		t.Errorf("by the host's own ratio: %v", err)
	}
	var two fleet.VMID
	if err := s.pool.QueryRow(t.Context(), `SELECT id FROM vms WHERE name = 'two'`).Scan(&two); err != nil {
		t.Fatal(err)
	}
	s.reportPower(two, fleet.Stopped)
	if err := s.updateCluster(blue, func(in *hosts.ClusterInput) { in.Spec.Overcommit.Memory = 0.1 }); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a start beyond the cluster's ratio", fleet.Invalid, "Not enough memory", func() error {
		_, err := s.RequestPowerAction(t.Context(), s.member, two, fleet.ActStart)
		return err
	})
	if _, err := s.RefreshCounters(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	v, err := s.GetCluster(t.Context(), chief, blue)
	if u := v.Usage; err != nil || v.Hosts != 1 || u.VMs != 2 || u.CommittedCPUs != 9 || u.CommittedMiB != 9000 || u.AllocatableCPUs != 32 || u.Threads != 8 || u.MemoryMiB != 8192 || u.HostStates[fleet.HostOnline] != 1 {
		t.Errorf("the cluster's sums are %+v: %v", u, err)
	}
}

func specWithRatio(cpu float64) fleet.HostSpec {
	s := fleet.DefaultHostSpec()
	s.Overcommit.CPU = cpu
	return s
}

// Tenants see the names of clusters, so that they can choose one, but neither hosts nor their number.
func TestTenantsSeeClustersWithoutHosts(t *testing.T) {
	s := newProjectFixture(t)
	blue := s.createCluster("blue", fleet.ClusterSpec{CPUModel: "Nehalem"}, s.h2)
	page, err := s.ListClusters(t.Context(), s.member, fleet.Query{})
	if err != nil || len(page.Items) != 2 || page.Items[0].Name != "blue" || page.Items[0].Hosts != 0 {
		t.Errorf("a member lists %+v: %v", page.Items, err)
	}
	for _, q := range []fleet.Query{{Filter: "hosts>0"}, {Sort: "hosts"}} {
		if _, err := s.ListClusters(t.Context(), s.member, q); fleet.CodeOf(err) != fleet.Invalid {
			t.Errorf("%+v: %v", q, err)
		}
		if _, err := s.ListClusters(t.Context(), chief, q); err != nil {
			t.Errorf("%+v of an administrator: %v", q, err)
		}
	}
	if v, err := s.GetCluster(t.Context(), s.member, blue); err != nil || v.Usage != nil || v.Hosts != 0 {
		t.Errorf("a member reads %+v: %v", v, err)
	}
	if _, err := s.GetCluster(t.Context(), s.member, fleet.NewID[fleet.ClusterID]()); fleet.CodeOf(err) != fleet.NotFound {
		t.Error(err)
	}
	for filter, want := range map[string]string{"": "blue default", "hosts>0": "blue default", "hosts>1": "", "baseline:neh": "blue", "placement:spread": "blue default", "placement:pack": "", "name:def*": "default"} {
		page, err := s.ListClusters(t.Context(), chief, fleet.Query{Filter: filter})
		var names []string
		for _, v := range page.Items {
			names = append(names, v.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%q lists %q, want %q: %v", filter, got, want, err)
		}
	}
	hits, err := s.Search(t.Context(), chief, "blue", 8)
	if err != nil || !strings.Contains(fmt.Sprint(hits), "cluster") {
		t.Errorf("the search finds %v: %v", hits, err)
	}
}

// The tree shows clusters as the first level as soon as there are several. VMs are filtered by cluster.
func TestTreeAndFiltersShowClusters(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	if got := s.treeText(chief, query.TreeQuery{View: "hosts"}); got != "host h1, host h2" {
		t.Errorf("with one cluster: %s", got)
	}
	blue := s.createCluster("blue", fleet.ClusterSpec{}, s.h2)
	for node, want := range map[string]string{
		"": "cluster blue, cluster default", "cluster:" + string(blue): "host h2", "cluster:" + string(fleet.DefaultClusterID): "host h1", "cluster:x\x00": "",
		"host:" + string(s.h1): "vm web",
	} {
		if got := s.treeText(chief, query.TreeQuery{View: "hosts", Node: node}); got != want {
			t.Errorf("%q: %s, want %s", node, got, want)
		}
	}
	around, err := s.Layout(t.Context(), chief, fleet.Query{}, query.TreeQuery{View: "hosts", Host: s.h2})
	if err != nil || len(around.Tree.Nodes) != 2 || around.Cluster != blue || !around.Tree.Nodes[0].HasChildren {
		t.Errorf("around a page: %+v %v", around, err)
	}
	for filter, want := range map[string]int{"cluster:default": 1, "cluster:blue": 0, "-cluster:blue": 1, "cluster:b*": 0, "cluster:nothing": 0, "cluster:blue,default": 1} {
		page, err := s.ListVMs(t.Context(), s.member, fleet.Query{Filter: filter})
		if err != nil || len(page.Items) != want || want == 1 && page.Items[0].ID != v.ID {
			t.Errorf("%s: %d VMs, want %d: %v", filter, len(page.Items), want, err)
		}
	}
	if got, err := s.Complete(t.Context(), s.member, "vms", "cluster:b"); err != nil || len(got) != 1 || got[0].Value != "cluster:blue" {
		t.Errorf("the completion is %v: %v", got, err)
	}
}

// A default pool of a new VM in a cluster is active on one of the cluster's hosts.
func TestDefaultPoolOfClusterIsOnItsHosts(t *testing.T) {
	s := newProjectFixture(t)
	blue := s.createCluster("blue", fleet.ClusterSpec{}, s.h2) // h2 has only the pool nfs
	s.execSQL(`UPDATE assignments SET status = status || '{"availableBytes": 1000000000000000}' WHERE pool_id = $1`, s.local)
	spec := smallSpec
	spec.Disks = []fleet.Disk{{SizeBytes: 1 << 30}}
	v, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, ClusterID: blue, Name: "web", Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	if v := s.getVM(v.ID); v.HostID != s.h2 || v.Spec.Disks[0].PoolID != s.nfs {
		t.Errorf("on %s: %+v", v.HostName, v.Spec.Disks)
	}
}
