package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// setCPUModels writes the host's report of its CPU models, and of the features that it lacks for a further model.
func (p *portal) setCPUModels(host fleet.HostID, gap fleet.CPUModelGap, models ...string) {
	p.t.Helper()
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory}', status->'inventory' ||
		jsonb_build_object('cpuModels', $2::text[], 'cpuModelGaps', jsonb_build_array($3::jsonb), 'vmFields', $4::text[])) WHERE id = $1`, host, models, mustJSON(gap), fleet.OptionalFieldNames())
}

// newClustersPortal returns a portal with an online host (well) and an offline host (silent) that lacks avx2 and erms.
func newClustersPortal(t *testing.T) (p *portal, well, silent fleet.HostID) {
	t.Helper()
	p, well, silent = newHostsPortal(t)
	p.setCPUModels(well, fleet.CPUModelGap{Model: "EPYC"}, "Haswell-noTSX", "Nehalem")
	p.setCPUModels(silent, fleet.CPUModelGap{Model: "Haswell-noTSX", Missing: []string{"avx2", "erms"}}, "Nehalem")
	return p, well, silent
}

// addCluster creates a cluster without hosts and returns the address of its page.
func (p *portal) addCluster(name string, spec fleet.ClusterSpec) (fleet.ClusterID, string) {
	p.t.Helper()
	id := fleet.NewID[fleet.ClusterID]()
	if spec.Placement == "" {
		spec.Placement = fleet.PlacementSpread
	}
	p.execSQL("INSERT INTO clusters (id, name, spec) VALUES ($1, $2, $3)", id, name, mustJSON(spec))
	return id, "/clusters/" + string(id)
}

func TestClusterListAndPageShowHostsAndCapacity(t *testing.T) {
	p, _, silent := newClustersPortal(t)
	id, path := p.addCluster("blue", fleet.ClusterSpec{CPUModel: "Haswell-noTSX", Placement: fleet.PlacementPack, Description: "upstairs"})
	p.execSQL("UPDATE hosts SET cluster_id = $1 WHERE id = $2", id, silent)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/clusters").requireStatus(t, http.StatusOK).contains(t, "New cluster", ">blue</a></th>", ">default</a></th>", "Haswell-noTSX", "Pack (least free memory)", "upstairs")
	b.get("/clusters?filter=baseline:haswell").requireStatus(t, http.StatusOK).excludes(t, ">default</a></th>")
	b.get("/clusters?filter=name:zzz").requireStatus(t, http.StatusOK).contains(t, "No cluster matches")
	b.get("/clusters?filter=nosuch:x").requireStatus(t, http.StatusUnprocessableEntity)
	b.get("/clusters.csv").requireStatus(t, http.StatusOK).contains(t, "blue,1,Haswell-noTSX,pack,4.0,1.0,upstairs")
	for tab, texts := range map[string][]string{
		"":               {"upstairs", "Unknown", "0 of 192 vCPUs", "1 host below the baseline", "host-2 lacks the CPU features avx2, erms of the cluster&#39;s baseline Haswell-noTSX."},
		"?tab=hosts":     {">host-2</a></th>", "Add hosts"},
		"?tab=vms":       {"There is no VM on the hosts of this cluster."},
		"?tab=configure": {`name="cpuModel"`, "Haswell-noTSX · on 1 of 2 hosts", "Nehalem · on all hosts", `name="placement"`},
	} {
		b.get(path+tab).requireStatus(t, http.StatusOK).contains(t, texts...)
	}
	b.get(path+"?tab=hosts").excludes(t, ">host-1</a></th>")
	b.get("/clusters/"+string(fleet.DefaultClusterID)+"?tab=vms").contains(t, "web-01")
	b.get(path+"?tab=nosuch").requireStatus(t, http.StatusNotFound)
	b.get("/clusters/"+string(fleet.NewID[fleet.ClusterID]())).requireStatus(t, http.StatusNotFound)
	b.getFragment(path, "cluster-head").requireStatus(t, http.StatusOK).contains(t, `id="cluster-head"`, "blue")
	b.get("/menus/cluster/"+string(id), "HX-Request", "true").requireStatus(t, http.StatusOK).contains(t, "Add hosts", "The cluster still has 1 host.")
	// The host's page and the list name the cluster, and the tree has it as a level.
	b.get("/hosts/"+string(silent)).requireStatus(t, http.StatusOK).contains(t, `href="`+path+`"`, "This host is below its cluster&#39;s baseline.", `data-key="cluster:`+string(id)+`"`)
	b.get("/hosts").requireStatus(t, http.StatusOK).contains(t, ">Cluster</th>", ">blue</a></td>", `href="/clusters"`)
	b.get("/hosts?filter=cluster:blue").requireStatus(t, http.StatusOK).excludes(t, ">host-1</a></th>")
	tree := b.getFragment("/tree/hosts", "tree-hosts").requireStatus(t, http.StatusOK)
	tree.contains(t, "blue", "default")
	tree.excludes(t, "host-1")
	b.getFragment("/tree/hosts/cluster:"+string(id), "x").requireStatus(t, http.StatusOK).contains(t, "host-2")
	shown := p.newSignedInBrowser("vera", fleet.RoleViewer).get(path+"?tab=configure").requireStatus(t, http.StatusOK)
	shown.contains(t, "Read only.", "Haswell-noTSX")
	shown.excludes(t, `name="cpuModel"`)
}

func TestClusterCreatedEditedAndDeletedByForms(t *testing.T) {
	p, well, silent := newClustersPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/clusters/new").requireStatus(t, http.StatusOK).contains(t, `name="name"`, "Spread (most free memory)")
	b.post("/clusters", url.Values{"name": {"Blue"}, "placement": {"spread"}, "cpuRatio": {"x"}}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "A name has 1–63", "Enter a number above 0")
	a := b.post("/clusters", url.Values{"name": {"blue"}, "placement": {"pack"}, "cpuModel": {"Haswell-noTSX"}, "memoryRatio": {"1.5"}}).requireStatus(t, http.StatusSeeOther)
	path := a.header.Get("Location")
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "Haswell-noTSX", "No hosts")
	b.get(path+"/hosts").requireStatus(t, http.StatusOK).contains(t, "host-1", "host-2 lacks the CPU features avx2, erms")
	b.post(path+"/hosts", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "Choose at least one host.")
	b.post(path+"/hosts", url.Values{"host": {string(silent), string(well)}}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "host-2 lacks the CPU features avx2, erms of the cluster&#39;s baseline")
	b.post(path+"/hosts", url.Values{"host": {string(well)}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	b.get(path+"?tab=hosts").contains(t, ">host-1</a></th>")
	// The Configure tab of a host moves it.
	edit := url.Values{"clusterId": {strings.TrimPrefix(path, "/clusters/")}, "schedulable": {"yes"}, "compute": {"yes"}, "storage": {"yes"}}
	b.post("/hosts/"+string(silent)+"/edit", edit, htmxFormHeaders("host-form")...).requireStatus(t, 422).contains(t, "lacks the CPU features avx2, erms", ">blue</option>")
	edit.Set("clusterId", string(fleet.DefaultClusterID))
	b.post("/hosts/"+string(well)+"/edit", edit).requireStatus(t, http.StatusSeeOther)
	b.get(path+"?tab=hosts").contains(t, "No hosts")

	b.post("/clusters/"+string(fleet.DefaultClusterID)+"/edit", url.Values{"name": {"default"}, "placement": {"spread"}, "cpuModel": {"Haswell-noTSX"}}, htmxFormHeaders("cluster-form")...).
		requireStatus(t, 422).contains(t, "host-2 lacks the CPU features avx2, erms of the cluster&#39;s baseline Haswell-noTSX.")
	b.post(path+"/edit", url.Values{"name": {"green"}, "placement": {"spread"}, "generation": {"1"}}).requireStatus(t, http.StatusSeeOther)
	b.post(path+"/edit", url.Values{"name": {"red"}, "placement": {"spread"}, "generation": {"1"}}).requireStatus(t, http.StatusConflict)
	b.get("/clusters/"+string(fleet.DefaultClusterID)+"/delete").requireStatus(t, http.StatusOK).contains(t, "Hosts that join become members of this cluster")
	b.get(path+"/delete").requireStatus(t, http.StatusOK).contains(t, "Delete the cluster green?")
	b.post(path+"/delete", url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.get(path).requireStatus(t, http.StatusNotFound)
	p.newSignedInBrowser("vera", fleet.RoleViewer).post("/clusters", url.Values{"name": {"x"}}).requireStatus(t, http.StatusForbidden)
}

// The form of a new VM offers clusters if there are several, and says which CPU model the VM gets.
func TestNewVMFormShowsClusterAndItsCPUModel(t *testing.T) {
	p, well, silent := newClustersPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/vms/new").requireStatus(t, http.StatusOK).excludes(t, `name="clusterId"`, "Cluster default")
	p.execSQL(`UPDATE clusters SET spec = spec || '{"cpuModel": "Nehalem"}'`)
	b.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, `placeholder="Cluster default: Nehalem"`, "Model: Cluster default: Nehalem")
	id, _ := p.addCluster("blue", fleet.ClusterSpec{CPUModel: "Haswell-noTSX"})
	p.execSQL("UPDATE hosts SET cluster_id = $1 WHERE id = $2", id, well)
	b.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, `name="clusterId"`, "Any cluster", ">blue</option>", `placeholder="Cluster default"`)
	b.get("/vms/new?cluster="+string(id)).requireStatus(t, http.StatusOK).contains(t, `placeholder="Cluster default: Haswell-noTSX"`)
	b.get("/vms/new?host="+string(silent)).requireStatus(t, http.StatusOK).contains(t, `placeholder="Cluster default: Nehalem"`)
	var project string
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM projects").Scan(&project); err != nil {
		t.Fatal(err)
	}
	want := url.Values{"projectId": {project}, "name": {"new-1"}, "spec.cpus": {"1"}, "spec.memoryMiB": {"1", "GiB"}, "spec.firmware": {"bios"}, "clusterId": {string(id)}}
	b.post("/vms/new/summary", want, htmxFormHeaders("vm-summary-body")...).requireStatus(t, http.StatusOK).contains(t, "Haswell-noTSX (cluster default)", "Host: host-1", "clusterId")
	b.post("/vms", want).requireStatus(t, http.StatusSeeOther)
	var model string
	if err := p.pool.QueryRow(t.Context(), "SELECT spec #>> '{cpu,model}' FROM vms WHERE name = 'new-1'").Scan(&model); err != nil || model != "Haswell-noTSX" {
		t.Errorf("the VM has the model %q: %v", model, err)
	}
	want.Set("name", "new-2")
	want.Set("hostId", string(silent))
	b.post("/vms", want, htmxFormHeaders("vm-form")...).requireStatus(t, 422).contains(t, "host-2 is in the cluster default. Choose that cluster, or another host.")
}

func TestClustersByAPI(t *testing.T) {
	p, well, silent := newClustersPortal(t)
	g := p.newAPIClient("mara", fleet.RoleAdmin, nil)
	read := func(a answer, into any) {
		t.Helper()
		if err := json.Unmarshal([]byte(a.body), into); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
	}
	var v fleet.ClusterView
	a := g.call(http.MethodPost, "/api/v1/clusters", `{"name": "blue", "spec": {"cpuModel": "Haswell-noTSX"}}`).requireStatus(t, http.StatusCreated)
	if read(a, &v); v.Spec.Placement != fleet.PlacementSpread || v.Generation != 1 || a.header.Get("Location") != "/api/v1/clusters/"+string(v.ID) {
		t.Errorf("%+v", v)
	}
	path, move := "/api/v1/clusters/"+string(v.ID), `{"clusterId": "`+string(v.ID)+`"}`
	var h fleet.HostView
	if read(g.call(http.MethodPatch, "/api/v1/hosts/"+string(well), move).requireStatus(t, http.StatusOK), &h); h.ClusterName != "blue" || !h.Spec.Schedulable {
		t.Errorf("%+v", h)
	}
	g.call(http.MethodPatch, "/api/v1/hosts/"+string(silent), move).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "host-2 lacks the CPU features avx2, erms", "clusterId")
	g.call(http.MethodDelete, path, "").requireStatus(t, http.StatusConflict).contains(t, "blue has host-1.")
	v = fleet.ClusterView{}
	read(g.call(http.MethodPatch, path, `{"spec": {"placement": "pack", "cpuModel": null}}`).requireStatus(t, http.StatusOK), &v)
	if v.Spec.Placement != fleet.PlacementPack || v.Spec.CPUModel != "" || v.Name != "blue" || v.Usage == nil || v.Hosts != 1 {
		t.Errorf("%+v", v)
	}
	g.call(http.MethodGet, "/api/v1/clusters?sort=-hosts", "").requireStatus(t, http.StatusOK).contains(t, `"blue"`, `"default"`)
	g.call(http.MethodPatch, "/api/v1/hosts/"+string(well), `{"clusterId": "`+string(fleet.DefaultClusterID)+`"}`).requireStatus(t, http.StatusOK)
	g.call(http.MethodDelete, path, "").requireStatus(t, http.StatusNoContent)
	g.call(http.MethodGet, path, "").requireStatus(t, http.StatusNotFound)
}
