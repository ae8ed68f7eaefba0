package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
)

// TestRefusedAPIRequestsReturnHTTPStatusPerReason runs its subtests in sequence, because it checks afterwards that none
// changed the VM.
func TestRefusedAPIRequestsReturnHTTPStatusPerReason(t *testing.T) { //nolint:tparallel
	t.Parallel()
	p := newPortal(t)
	shop, lab := p.addProject("shop"), p.addProject("lab")
	host := p.addHost("h1", 0)
	vm, foreign := p.addVM(shop, host, "web", fleet.Stopped), p.addVM(lab, host, "secret", fleet.Stopped)
	member := p.newAPIClient("mia", "", map[fleet.ProjectID]fleet.Role{shop: fleet.RoleMember})
	viewer := p.newAPIClient("vic", fleet.RoleViewer, nil)
	chief := p.newAPIClient("cara", fleet.RoleAdmin, nil)
	nobody := &apiClient{browser: *p.newBrowser(), token: "qx_" + strings.Repeat("A", 43)}
	mine, theirs := "/api/v1/vms/"+string(vm), "/api/v1/vms/"+string(foreign)
	for name, c := range map[string]struct {
		as                 *apiClient
		method, path, body string
		header             []string
		status             int
		location           string
	}{
		"invalid JSON":           {member, "POST", "/api/v1/vms", `{"name":`, nil, 400, ""},
		"no body":                {member, "POST", "/api/v1/vms", ``, nil, 400, ""},
		"invalid page cursor":    {member, "GET", "/api/v1/vms?after=zzz", ``, nil, 400, ""},
		"If-Match no number":     {member, "PATCH", mine, `{}`, []string{"If-Match", "soon"}, 400, ""},
		"unknown token":          {nobody, "GET", "/api/v1/vms", ``, nil, 401, ""},
		"unknown token, new VM":  {nobody, "POST", "/api/v1/vms", `{`, nil, 401, ""},
		"viewer creates":         {viewer, "POST", "/api/v1/vms", vmBody(shop, "x"), nil, 403, ""},
		"viewer starts":          {viewer, "POST", mine + "/actions", `{"action":"start"}`, nil, 403, ""},
		"viewer opens a console": {viewer, "POST", mine + "/console", ``, nil, 403, ""},
		"member lists users":     {member, "GET", "/api/v1/users", ``, nil, 403, ""},
		"member lists hosts":     {member, "GET", "/api/v1/hosts", ``, nil, 403, ""},
		"hidden VM":              {member, "GET", theirs, ``, nil, 404, ""},
		"hidden VM, change":      {member, "PATCH", theirs, `{"name":"mine"}`, nil, 404, ""},
		"hidden VM, start":       {member, "POST", theirs + "/actions", `{"action":"start"}`, nil, 404, ""},
		"hidden VM, delete":      {member, "DELETE", theirs, ``, nil, 404, ""},
		"hidden VM, console":     {member, "POST", theirs + "/console", ``, nil, 404, ""},
		"hidden VM, events":      {member, "GET", theirs + "/events", ``, nil, 404, ""},
		"hidden project":         {member, "GET", "/api/v1/projects/" + string(lab), ``, nil, 404, ""},
		"VM in hidden project":   {member, "POST", "/api/v1/vms", vmBody(lab, "x"), nil, 404, ""},
		"missing VM":             {member, "GET", "/api/v1/vms/" + string(fleet.NewID[fleet.VMID]()), ``, nil, 404, ""},
		"invalid id":             {member, "GET", "/api/v1/vms/%00", ``, nil, 404, ""},
		"missing pool":           {chief, "GET", "/api/v1/pools/" + string(fleet.NewID[fleet.PoolID]()) + "/hosts", ``, nil, 404, ""},
		"missing network":        {chief, "GET", "/api/v1/networks/" + string(fleet.NewID[fleet.NetworkID]()) + "/hosts", ``, nil, 404, ""},
		"missing route":          {member, "GET", "/api/v1/volumes", ``, nil, 404, ""},
		"unsupported method":     {member, "PUT", mine, `{}`, nil, 405, ""},
		"name taken":             {member, "POST", "/api/v1/vms", vmBody(shop, "web"), nil, 409, ""},
		"older generation":       {member, "PATCH", mine, `{"description":"x"}`, []string{"If-Match", "7"}, 409, ""},
		"not possible now":       {member, "POST", mine + "/actions", `{"action":"reboot"}`, nil, 409, ""},
		"too large":              {member, "POST", "/api/v1/vms", `{"name":"` + strings.Repeat("a", 1<<20) + `"}`, nil, 413, ""},
		"content type not JSON":  {member, "POST", "/api/v1/vms", `x`, []string{"Content-Type", "text/plain"}, 415, ""},
		"unknown field":          {member, "POST", "/api/v1/vms", `{"spec":{"cpuCount":2}}`, nil, 422, "spec.cpuCount"},
		"wrong type":             {member, "POST", "/api/v1/vms", `{"spec":{"cpus":"two"}}`, nil, 422, "spec.cpus"},
		"below the minimum":      {member, "POST", "/api/v1/vms", strings.Replace(vmBody(shop, "x"), `512`, `64`, 1), nil, 422, "spec.memoryMiB"},
		"unchangeable field":     {member, "PATCH", mine, `{"spec":{"disks":[{"poolId":"p","volume":"a.qcow2","sizeBytes":1}]}}`, nil, 422, "spec.disks[0].volume"},
		"power by patch":         {member, "PATCH", mine, `{"spec":{"power":"running"}}`, nil, 422, "spec.power"},
		"unknown field in patch": {member, "PATCH", mine, `{"spec":{"colour":"red"}}`, nil, 422, "spec.colour"},
		"wrong case of a field":  {member, "PATCH", mine, `{"spec":{"CPUs":4}}`, nil, 422, "spec.CPUs"},
		"number overflows":       {member, "PATCH", mine, `{"spec":{"cpus":1e30}}`, nil, 422, "spec.cpus"},
		"null for a number":      {member, "PATCH", mine, `{"spec":{"cpus":null}}`, nil, 422, "spec.cpus"},
		"unknown action":         {member, "POST", mine + "/actions", `{"action":"explode"}`, nil, 422, "action"},
		"disks unconfirmed":      {member, "DELETE", mine + "?disks=true", ``, nil, 422, "confirm"},
		"wrong filter":           {member, "GET", "/api/v1/vms?filter=colour:red", ``, nil, 422, "filter"},
		"wrong sort":             {member, "GET", "/api/v1/vms?sort=colour", ``, nil, 422, "sort"},
		"wrong limit":            {member, "GET", "/api/v1/vms?limit=many", ``, nil, 422, "query.limit"},
		"limit too high":         {member, "GET", "/api/v1/projects?limit=501", ``, nil, 422, "query.limit"},
	} {
		t.Run(name, func(t *testing.T) {
			c.as.call(c.method, c.path, c.body, c.header...).requireProblem(t, c.status, c.location)
		})
	}
	if a := nobody.call("GET", theirs, ""); a.header.Get("Set-Cookie") != "" {
		t.Error("the API sets cookies")
	}
	signedIn := p.newSignedInBrowser("sam", fleet.RoleAdmin)
	signedIn.get("/api/v1/vms").requireProblem(t, 401, "")
	existing := member.call("GET", theirs, "").body
	absent := member.call("GET", "/api/v1/vms/"+string(fleet.NewID[fleet.VMID]()), "").body
	if existing != absent {
		t.Errorf("a hidden VM and a missing one are answered differently:\n%s\n%s", existing, absent)
	}
	if got, err := member.VM(t.Context(), vm); err != nil || got.Generation != 1 {
		t.Errorf("a refused request changed the VM: %+v, %v", got, err)
	}
}

func TestInternalErrorsHideDetails(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	p.execSQL("ALTER TABLE tasks RENAME COLUMN note TO oops")
	broken := admin.call("GET", "/api/v1/tasks", "")
	if shown := broken.requireProblem(t, http.StatusInternalServerError, ""); len(shown.Reference) != 10 || !strings.Contains(p.log.String(), shown.Reference) {
		t.Errorf("no reference, or a reference that is not in the log: %+v", shown)
	}
	broken.excludes(t, "42703", "column")

	tx, err := p.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), "LOCK TABLE vms"); err != nil { // the lock blocks the portal's query
		t.Fatal(err)
	}
	a := admin.call("GET", "/api/v1/vms", "")
	if a.requireProblem(t, http.StatusServiceUnavailable, ""); a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestAPIClientManagesHostsPoolsProjectsAndUsers(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	ctx := t.Context()
	host, other := p.addHost("h1", 0), p.addHost("h2", 0)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	check := func(what string, err error, ok bool) {
		t.Helper()
		if err != nil || !ok {
			t.Errorf("%s: %v, %v", what, err, ok)
		}
	}
	me, err := admin.Me(ctx)
	check("me", err, me.Name == "ann")

	h, err := admin.UpdateHost(ctx, host, client.Patch{"spec": client.Patch{"labels": client.Patch{"rack": "r1"}, "description": "old"}})
	check("update a host", err, h.Spec.Labels["rack"] == "r1" && h.Spec.Description == "old")
	h, err = admin.UpdateHost(ctx, host, client.Patch{"spec": client.Patch{"labels": client.Patch{"rack": nil}}})
	check("update a host again", err, len(h.Spec.Labels) == 0 && h.Spec.Description == "old")
	h, err = admin.UpdateHost(ctx, host, client.Patch{"spec": client.Patch{"reportInterval": 20}})
	check("set a host's report interval", err, h.Spec.ReportInterval == 20)
	taint := fleet.Taint{Key: "gpu", Value: "a100", Effect: fleet.NoExecute}
	h, err = admin.UpdateHost(ctx, host, client.Patch{"spec": client.Patch{
		"taints": []fleet.Taint{taint}, "overcommit": client.Patch{"memory": 1.5}, "reserved": client.Patch{"cpu": 2, "memoryMiB": 512}, "roles": client.Patch{"controlPlane": true},
	}})
	check("set a host's capacity", err, slices.Equal(h.Spec.Taints, []fleet.Taint{taint}) && h.Capacity.ReservedThreads == 2 && h.Capacity.ReservedMemoryMiB == 512 &&
		h.Capacity.Overcommit == fleet.Overcommit{CPU: 4, Memory: 1.5} && h.Spec.Roles == fleet.HostRoles{Compute: true, Storage: true, ControlPlane: true} && h.Spec.Schedulable)
	h, err = admin.UpdateHost(ctx, host, client.Patch{"spec": client.Patch{"taints": nil, "overcommit": nil, "reserved": nil, "roles": nil}})
	check("reset a host's capacity", err, h.Capacity.Overcommit == fleet.DefaultOvercommit && h.Spec.Roles == fleet.DefaultHostSpec().Roles)
	h, err = admin.UpdateHost(ctx, host, client.Patch{"spec": nil})
	check("reset a host's spec", err, h.Spec.Schedulable && h.Spec.Roles == fleet.DefaultHostSpec().Roles && h.Spec.Description == "")
	h, err = admin.ActOnHost(ctx, host, fleet.ActCordon)
	check("cordon a host", err, !h.Spec.Schedulable)
	h, err = admin.ActOnHost(ctx, host, fleet.ActUncordon)
	check("uncordon a host", err, h.Spec.Schedulable)
	p.execSQL("UPDATE host_sessions SET conflict = 'two' WHERE host_id = $1", host)
	h, err = admin.ClearConflict(ctx, host)
	check("clear a conflict", err, h.Conflict == "")
	p.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'old-mail', '{"power":"running"}')`, host, fleet.NewID[fleet.VMID]())
	found, err := admin.DiscoveredVMs(ctx, host, fleet.Query{})
	check("discovered VMs", err, len(found.Items) == 1)
	found, err = admin.DiscoveredVMs(ctx, other, fleet.Query{})
	check("discovered VMs elsewhere", err, len(found.Items) == 0)

	pool, err := admin.CreatePool(ctx, client.NewPool{Name: "fast", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/fast"}, HostIDs: []fleet.HostID{host}})
	check("create a pool", err, pool.Name == "fast" && len(pool.Hosts) == 1)
	tasks, err := admin.AssignPool(ctx, pool.ID, other)
	check("assign a pool", err, len(tasks) == 1 && tasks[0].Kind == fleet.PoolApply)
	p.execSQL(`UPDATE assignments SET status = '{"state":"failed"}' WHERE pool_id = $1 AND host_id = $2`, pool.ID, host)
	_, err = admin.RetryPool(ctx, pool.ID, host)
	check("retry a pool", err, true)
	_, err = admin.ReleasePool(ctx, pool.ID, other)
	check("release a pool", err, true)
	volumes, err := admin.Volumes(ctx, pool.ID)
	check("volumes", err, len(volumes) == 0)
	inPool, err := admin.PoolVMs(ctx, pool.ID, fleet.Query{})
	check("VMs of a pool", err, len(inPool.Items) == 0)
	pools, err := admin.Pools(ctx, fleet.Query{Filter: "name:fast"})
	check("pools", err, len(pools.Items) == 1)
	_, err = admin.DeletePool(ctx, pool.ID)
	check("delete a pool", err, true)
	networks, err := admin.Networks(ctx, fleet.Query{})
	check("networks", err, len(networks.Items) == 0)

	project, err := admin.CreateProject(ctx, client.NewProject{Name: "shop"})
	check("create a project", err, project.Name == "shop")
	project, err = admin.UpdateProject(ctx, project.ID, client.Patch{"description": "Sells"})
	check("update a project", err, project.Name == "shop" && project.Description == "Sells")
	user, password, err := admin.CreateUser(ctx, client.NewUser{Name: "bob"})
	check("create a user", err, user.Name == "bob" && password != "")
	user, err = admin.UpdateUser(ctx, user.ID, client.Patch{"role": "viewer"})
	check("update a user", err, user.Name == "bob" && user.Role == fleet.RoleViewer)
	check("set a member", admin.SetMember(ctx, project.ID, user.ID, fleet.RoleMember), true)
	members, err := admin.Members(ctx, project.ID)
	check("members", err, len(members) == 1 && members[0].Role == fleet.RoleMember)
	check("remove a member", admin.RemoveMember(ctx, project.ID, user.ID), true)
	check("set a password", admin.SetPassword(ctx, user.ID, goodPassword), true)
	check("delete a user", admin.DeleteUser(ctx, user.ID), true)
	check("delete a project", admin.DeleteProject(ctx, project.ID), true)

	token, err := admin.CreateToken(ctx, "backup", time.Hour)
	check("create a token", err, strings.HasPrefix(token.Secret, "qx_") && token.ExpiresAt != nil)
	tokens, err := admin.Tokens(ctx, fleet.Query{Filter: "name:backup"})
	check("tokens", err, len(tokens.Items) == 1 && tokens.Items[0].Secret == "")
	check("delete a token", admin.DeleteToken(ctx, token.ID), true)
	join, err := admin.CreateJoinToken(ctx, "")
	check("create a join token", err, strings.HasPrefix(join.Secret, "qxj_") && strings.Contains(join.Command, join.Secret))
	joins, err := admin.JoinTokens(ctx, fleet.Query{})
	check("join tokens", err, len(joins.Items) == 1)
	check("revoke a join token", admin.RevokeJoinToken(ctx, join.ID), true)
	check("delete a host", admin.DeleteHost(ctx, other), true)
}

func TestOpenAPISchemasMatchGoTypes(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	a := p.newBrowser().get("/api/v1/openapi.json").requireStatus(t, http.StatusOK)
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]any
		Components struct {
			Schemas map[string]struct {
				Required   []string
				Properties map[string]any
			}
			SecuritySchemes map[string]any
		}
	}
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || doc.Components.SecuritySchemes["token"] == nil {
		t.Errorf("OpenAPI %q, %v", doc.OpenAPI, doc.Components.SecuritySchemes)
	}
	vm := doc.Components.Schemas["VM"]
	for _, field := range []string{"id", "name", "projectId", "hostId", "labels", "description", "generation", "observedGeneration", "phase", "spec", "status"} {
		if vm.Properties[field] == nil {
			t.Errorf("a VM lacks %s", field)
		}
	}
	if len(vm.Required) == 0 || len(doc.Components.Schemas["VMSpec"].Required) != 0 {
		t.Errorf("required fields of a VM: %v; of a spec, which requests also contain: %v", vm.Required, doc.Components.Schemas["VMSpec"].Required)
	}
	for _, typ := range []string{"hosts", "vms", "pools", "networks", "projects", "users", "tasks", "tokens", "join-tokens"} {
		if doc.Paths["/api/v1/"+typ]["get"] == nil {
			t.Errorf("no list of %s", typ)
		}
	}
}
