package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/auth"
	"quantix/internal/client"
	"quantix/internal/fleet"
)

// program is one user's API token in use.
type program struct {
	*client.Client
	browser
	token string
}

// program makes a user with that role in all projects, and one in each of the projects.
func (p *portal) program(name string, role fleet.Role, projects map[fleet.ProjectID]fleet.Role) *program {
	p.t.Helper()
	p.addUser(name, role)
	for id, r := range projects {
		p.exec("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, $3)", id, name, r)
	}
	secret := auth.NewSecret(auth.TokenPrefix)
	p.exec("INSERT INTO tokens (id, user_id, name, hash) VALUES ($1, $2, 'test', $3)", fleet.NewID[fleet.TokenID](), name, auth.HashSecret(secret))
	c, err := client.New(p.url, secret, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return &program{c, *p.browser(), secret}
}

// call sends JSON with the program's token; header is pairs of names and values.
func (g *program) call(method, path, body string, header ...string) answer {
	g.t.Helper()
	return g.do(method, path, strings.NewReader(body), append([]string{"Authorization", "Bearer " + g.token, "Content-Type", "application/json"}, header...)...)
}

type problem struct {
	Title, Detail, Reference string
	Status                   int
	Errors                   []struct{ Location, Message string }
}

// refused fails unless the answer is a problem with that status and, where one is named, at that location.
func (a answer) refused(t testing.TB, status int, location string) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %s is no problem: %v: %s", a.status, a.header.Get("Content-Type"), err, a.body)
	}
	if a.status != status || p.Status != status || p.Title != http.StatusText(status) || !strings.HasSuffix(p.Detail, ".") {
		t.Errorf("status %d, not %d: %s", a.status, status, a.body)
	}
	if location != "" && (len(p.Errors) == 0 || p.Errors[0].Location != location) {
		t.Errorf("not at %q: %s", location, a.body)
	}
	return p
}

const newVM = `{"projectId":"PROJECT","name":"NAME","labels":{"env":"prod"},"description":"Front end","spec":{"cpus":2,"memoryMiB":512,"firmware":"bios","disks":[],"nics":[]}}`

func vmBody(project fleet.ProjectID, name string) string {
	return strings.NewReplacer("PROJECT", string(project), "NAME", name).Replace(newVM)
}

func TestAVMReadsAsPromised(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project, host := p.addProject("shop"), p.addHost("h1", 0)
	admin := p.program("ann", fleet.RoleAdmin, nil)
	a := admin.call("POST", "/api/v1/vms", vmBody(project, "web-01")).is(t, http.StatusCreated)
	var vm fleet.VMView
	if err := json.Unmarshal([]byte(a.body), &vm); err != nil {
		t.Fatal(err)
	}
	if got := a.header.Get("Location"); got != "/api/v1/vms/"+string(vm.ID) {
		t.Errorf("Location %q", got)
	}
	if a.header.Get("ETag") != `"1"` || a.header.Get("Cache-Control") != "no-store" || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", a.header)
	}
	admin.call("GET", a.header.Get("Location"), "").is(t, http.StatusOK)

	pool := p.addPool("fast", host)
	full := p.addVM(project, host, "full", fleet.Running, func(vm *fleet.VM) {
		vm.Labels, vm.Description = map[string]string{"env": "prod"}, "Front end"
		vm.Spec.Disks = []fleet.Disk{{PoolID: pool, Volume: "full-1.qcow2", SizeBytes: 8 << 30, Image: &fleet.Volref{PoolID: pool, Volume: "debian-12.qcow2"}}}
		vm.Spec.ISO = &fleet.Volref{PoolID: pool, Volume: "installer.iso"}
		vm.Status.Disks = []fleet.DiskState{{Target: "vda", Path: "/srv/fast/full-1.qcow2", SizeBytes: 8 << 30, AllocBytes: 1 << 30}}
		vm.Status.NextBoot, vm.Status.Error, vm.Status.ErrorOf, vm.Status.Reason = []string{"cpus"}, "It did not.", fleet.VMReboot, "booted"
	})
	got := admin.call("GET", "/api/v1/vms/"+string(full), "").is(t, http.StatusOK).body
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(got), "", "  "); err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer(string(full), "VM", string(pool), "POOL", string(project), "PROJECT", string(host), "HOST")
	times := regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]+"`)
	shown := times.ReplaceAllString(names.Replace(strings.TrimSpace(indented.String())), `"TIME"`) + "\n"
	golden, err := os.ReadFile("testdata/vm.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), shown); diff != "" {
		t.Errorf("fields are only ever added (testdata/vm.json):\n%s", diff)
	}
}

func TestEveryRefusalHasItsStatus(t *testing.T) { //nolint:tparallel // after the refusals it looks at what they left
	t.Parallel()
	p := newPortal(t)
	shop, lab := p.addProject("shop"), p.addProject("lab")
	host := p.addHost("h1", 0)
	vm, foreign := p.addVM(shop, host, "web", fleet.Stopped), p.addVM(lab, host, "secret", fleet.Stopped)
	member := p.program("mia", "", map[fleet.ProjectID]fleet.Role{shop: fleet.RoleMember})
	viewer := p.program("vic", fleet.RoleViewer, nil)
	nobody := &program{browser: *p.browser(), token: "qx_" + strings.Repeat("A", 43)}
	mine, theirs := "/api/v1/vms/"+string(vm), "/api/v1/vms/"+string(foreign)
	for name, c := range map[string]struct {
		as                 *program
		method, path, body string
		header             []string
		status             int
		location           string
	}{
		"no JSON":                {member, "POST", "/api/v1/vms", `{"name":`, nil, 400, ""},
		"no body":                {member, "POST", "/api/v1/vms", ``, nil, 400, ""},
		"no page link":           {member, "GET", "/api/v1/vms?after=zzz", ``, nil, 400, ""},
		"no generation":          {member, "PATCH", mine, `{}`, []string{"If-Match", "soon"}, 400, ""},
		"unknown token":          {nobody, "GET", "/api/v1/vms", ``, nil, 401, ""},
		"unknown token, new VM":  {nobody, "POST", "/api/v1/vms", `{`, nil, 401, ""},
		"viewer creates":         {viewer, "POST", "/api/v1/vms", vmBody(shop, "x"), nil, 403, ""},
		"viewer starts":          {viewer, "POST", mine + "/actions", `{"action":"start"}`, nil, 403, ""},
		"viewer opens a console": {viewer, "POST", mine + "/console", ``, nil, 403, ""},
		"member lists users":     {member, "GET", "/api/v1/users", ``, nil, 403, ""},
		"member lists hosts":     {member, "GET", "/api/v1/hosts", ``, nil, 403, ""},
		"foreign VM":             {member, "GET", theirs, ``, nil, 404, ""},
		"foreign VM, change":     {member, "PATCH", theirs, `{"name":"mine"}`, nil, 404, ""},
		"foreign VM, start":      {member, "POST", theirs + "/actions", `{"action":"start"}`, nil, 404, ""},
		"foreign VM, delete":     {member, "DELETE", theirs, ``, nil, 404, ""},
		"foreign VM, console":    {member, "POST", theirs + "/console", ``, nil, 404, ""},
		"foreign VM, events":     {member, "GET", theirs + "/events", ``, nil, 404, ""},
		"foreign project":        {member, "GET", "/api/v1/projects/" + string(lab), ``, nil, 404, ""},
		"a VM in it":             {member, "POST", "/api/v1/vms", vmBody(lab, "x"), nil, 404, ""},
		"no VM":                  {member, "GET", "/api/v1/vms/" + string(fleet.NewID[fleet.VMID]()), ``, nil, 404, ""},
		"no id":                  {member, "GET", "/api/v1/vms/%00", ``, nil, 404, ""},
		"no route":               {member, "GET", "/api/v1/volumes", ``, nil, 404, ""},
		"no method":              {member, "PUT", mine, `{}`, nil, 405, ""},
		"name taken":             {member, "POST", "/api/v1/vms", vmBody(shop, "web"), nil, 409, ""},
		"older generation":       {member, "PATCH", mine, `{"description":"x"}`, []string{"If-Match", "7"}, 409, ""},
		"not possible now":       {member, "POST", mine + "/actions", `{"action":"reboot"}`, nil, 409, ""},
		"too large":              {member, "POST", "/api/v1/vms", `{"name":"` + strings.Repeat("a", 1<<20) + `"}`, nil, 413, ""},
		"no JSON by its type":    {member, "POST", "/api/v1/vms", `x`, []string{"Content-Type", "text/plain"}, 415, ""},
		"unknown field":          {member, "POST", "/api/v1/vms", `{"spec":{"cpuCount":2}}`, nil, 422, "spec.cpuCount"},
		"wrong type":             {member, "POST", "/api/v1/vms", `{"spec":{"cpus":"two"}}`, nil, 422, "spec.cpus"},
		"below the bound":        {member, "POST", "/api/v1/vms", strings.Replace(vmBody(shop, "x"), `512`, `64`, 1), nil, 422, "spec.memoryMiB"},
		"what cannot change":     {member, "PATCH", mine, `{"spec":{"disks":[]}}`, nil, 422, "spec.disks"},
		"null where none can be": {member, "PATCH", mine, `{"spec":{"cpus":null}}`, nil, 422, "spec.cpus"},
		"unknown action":         {member, "POST", mine + "/actions", `{"action":"explode"}`, nil, 422, "action"},
		"disks unconfirmed":      {member, "DELETE", mine + "?disks=true", ``, nil, 422, "confirm"},
		"wrong filter":           {member, "GET", "/api/v1/vms?filter=colour:red", ``, nil, 422, "filter"},
		"wrong sort":             {member, "GET", "/api/v1/vms?sort=colour", ``, nil, 422, "sort"},
		"wrong limit":            {member, "GET", "/api/v1/vms?limit=many", ``, nil, 422, "query.limit"},
		"limit too high":         {member, "GET", "/api/v1/projects?limit=501", ``, nil, 422, "query.limit"},
	} {
		t.Run(name, func(t *testing.T) {
			c.as.call(c.method, c.path, c.body, c.header...).refused(t, c.status, c.location)
		})
	}
	if a := nobody.call("GET", theirs, ""); a.header.Get("Set-Cookie") != "" {
		t.Error("the API hands out cookies")
	}
	signedIn := p.signedIn("sam", fleet.RoleAdmin)
	signedIn.get("/api/v1/vms").refused(t, 401, "")
	existing := member.call("GET", theirs, "").body
	absent := member.call("GET", "/api/v1/vms/"+string(fleet.NewID[fleet.VMID]()), "").body
	if existing != absent {
		t.Errorf("a foreign VM and none differ:\n%s\n%s", existing, absent)
	}
	if got, err := member.VM(t.Context(), vm); err != nil || got.Generation != 1 {
		t.Errorf("a refusal wrote something: %+v, %v", got, err)
	}
}

func TestFaultsOfThePortalItself(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	admin := p.program("ann", fleet.RoleAdmin, nil)
	p.exec("ALTER TABLE jobs RENAME COLUMN note TO oops")
	broken := admin.call("GET", "/api/v1/tasks", "")
	if shown := broken.refused(t, http.StatusInternalServerError, ""); len(shown.Reference) != 10 || !strings.Contains(p.log.String(), shown.Reference) {
		t.Errorf("no reference, or none that the log knows: %+v", shown)
	}
	broken.lacks(t, "42703", "column")

	tx, err := p.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), "LOCK TABLE vms"); err != nil { // the database no longer answers
		t.Fatal(err)
	}
	a := admin.call("GET", "/api/v1/vms", "")
	if a.refused(t, http.StatusServiceUnavailable, ""); a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

// lossy loses the first answer: what is asked for happens, and nobody hears of it.
type lossy struct{ lost bool }

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && !l.lost {
		l.lost = true
		answer.Body.Close()
		return nil, errors.New("the portal was killed")
	}
	return answer, err
}

func TestTheSameKeyMakesNoSecondVM(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project := p.addProject("shop")
	p.addHost("h1", 0)
	admin := p.program("ann", fleet.RoleAdmin, nil)
	retrying, err := client.New(p.url, admin.token, &http.Client{Transport: &lossy{}})
	if err != nil {
		t.Fatal(err)
	}
	in := client.NewVM{ProjectID: project, Name: "web", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS}}
	if _, err := retrying.CreateVM(t.Context(), in, "order-17"); err == nil {
		t.Fatal("the answer was not lost")
	}
	vm, err := retrying.CreateVM(t.Context(), in, "order-17")
	if err != nil {
		t.Fatal(err)
	}
	again, err := admin.CreateVM(t.Context(), in, "order-17")
	if err != nil || again.ID != vm.ID {
		t.Errorf("made %s, then %s, %v", vm.ID, again.ID, err)
	}
	all, err := client.All(t.Context(), fleet.Query{}, admin.VMs)
	if err != nil || len(all) != 1 {
		t.Errorf("%d VMs, %v", len(all), err)
	}
	in.Name = "other"
	if _, err := admin.CreateVM(t.Context(), in, "order-17"); client.StatusOf(err) != http.StatusConflict {
		t.Errorf("the key for another request: %v", err)
	}
}

func TestPatchMerges(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project, host := p.addProject("shop"), p.addHost("h1", 0)
	pool := p.addPool("fast", host)
	id := p.addVM(project, host, "web", fleet.Stopped, func(vm *fleet.VM) {
		vm.Labels = map[string]string{"env": "prod", "tier": "front"}
		vm.Description = "Front end"
		vm.Spec.ISO = &fleet.Volref{PoolID: pool, Volume: "installer.iso"}
	})
	member := p.program("mia", "", map[fleet.ProjectID]fleet.Role{project: fleet.RoleMember})
	path := "/api/v1/vms/" + string(id)
	patch := func(body string, header ...string) fleet.VMView {
		t.Helper()
		a := member.call("PATCH", path, body, header...).is(t, http.StatusOK)
		var vm fleet.VMView
		if err := json.Unmarshal([]byte(a.body), &vm); err != nil {
			t.Fatal(err)
		}
		if want := `"` + jsonNumber(vm.Generation) + `"`; a.header.Get("ETag") != want {
			t.Errorf("ETag %s, want %s", a.header.Get("ETag"), want)
		}
		return vm
	}
	vm := patch(`{}`)
	if vm.Generation != 1 {
		t.Errorf("an empty patch made generation %d", vm.Generation)
	}
	vm = patch(`{"labels":{"env":"test","tier":null,"owner":"mia"}}`, "Content-Type", "application/merge-patch+json")
	if want := map[string]string{"env": "test", "owner": "mia"}; !cmp.Equal(vm.Labels, want) {
		t.Errorf("labels %v", vm.Labels)
	}
	vm = patch(`{"description":null,"spec":{"cpus":4}}`, "If-Match", `"2"`)
	if vm.Description != "" || vm.Spec.CPUs != 4 || vm.Spec.MemoryMiB != 4096 || vm.Spec.ISO == nil || vm.Generation != 3 {
		t.Errorf("got %+v", vm)
	}
	vm = patch(`{"spec":{"iso":null},"labels":null}`, "If-Match", "3")
	if vm.Spec.ISO != nil || len(vm.Labels) != 0 {
		t.Errorf("got %+v", vm)
	}
	vm = patch(`{"spec":{"iso":{"poolId":"` + string(pool) + `","volume":"installer.iso"}}}`)
	if vm.Spec.ISO == nil || vm.Spec.ISO.Volume != "installer.iso" {
		t.Errorf("got %+v", vm.Spec.ISO)
	}
	member.call("PATCH", path, `{"spec":{"iso":{"volume":null}}}`).refused(t, 422, "spec.iso.volume")
	if _, task, err := member.UpdateVM(t.Context(), id, client.Patch{"name": "shop-web"}, vm.Generation); err != nil || task == "" {
		t.Errorf("task %q, %v", task, err)
	}
	if _, _, err := member.UpdateVM(t.Context(), id, client.Patch{"name": "late"}, vm.Generation); client.StatusOf(err) != http.StatusConflict {
		t.Errorf("a patch of an old generation: %v", err)
	}
}

func jsonNumber(n int64) string { text, _ := json.Marshal(n); return string(text) }

func TestOrdersAnswerWithTheTask(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project, host := p.addProject("shop"), p.addHost("h1", 0)
	id := p.addVM(project, host, "web", fleet.Stopped)
	member := p.program("mia", "", map[fleet.ProjectID]fleet.Role{project: fleet.RoleMember})
	a := member.call("POST", "/api/v1/vms/"+string(id)+"/actions", `{"action":"start"}`).is(t, http.StatusAccepted)
	var task fleet.Job
	if err := json.Unmarshal([]byte(a.body), &task); err != nil || task.Kind != fleet.VMStart || task.State != fleet.JobQueued {
		t.Fatalf("%+v, %v", task, err)
	}
	if got, err := member.Task(t.Context(), task.ID); err != nil || got.SubjectName != "web" {
		t.Errorf("%+v, %v", got, err)
	}
	if tasks, err := member.Tasks(t.Context(), fleet.Query{Filter: "target:web"}); err != nil || len(tasks.Items) != 1 {
		t.Errorf("%+v, %v", tasks, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := member.WaitTask(short, task.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waited for a task that nobody does: %v", err)
	}
	if cancelled, err := member.CancelTask(t.Context(), task.ID); err != nil || cancelled.State != fleet.JobCancelled {
		t.Errorf("%+v, %v", cancelled, err)
	}
	if _, err := member.WaitTask(t.Context(), task.ID); err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("a cancelled task ended well: %v", err)
	}
	a = member.call("DELETE", "/api/v1/vms/"+string(id)+"?disks=true&confirm=web", "").is(t, http.StatusAccepted)
	if err := json.Unmarshal([]byte(a.body), &task); err != nil || task.Kind != fleet.VMDelete {
		t.Errorf("%+v, %v", task, err)
	}
	if vm, err := member.VM(t.Context(), id); err != nil || vm.Phase != fleet.PhaseDeleting {
		t.Errorf("%+v, %v", vm, err)
	}
}

func TestListsPageFilterAndSort(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	shop, lab := p.addProject("shop"), p.addProject("lab")
	host := p.addHost("h1", 0)
	for _, name := range []string{"web-1", "web-2", "web-3", "db-1"} {
		p.addVM(shop, host, name, fleet.Running)
	}
	p.addVM(lab, host, "web-9", fleet.Running)
	member := p.program("mia", "", map[fleet.ProjectID]fleet.Role{shop: fleet.RoleMember})
	vms, err := client.All(t.Context(), fleet.Query{Filter: "name:web*", Sort: "-name", Limit: 2}, member.VMs)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, vm := range vms {
		names = append(names, vm.Name)
	}
	if want := []string{"web-3", "web-2", "web-1"}; !cmp.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	// And back: a list that control pages, and a short one.
	first, err := member.VMs(t.Context(), fleet.Query{Limit: 3})
	if err != nil || len(first.Items) != 3 || first.Prev != "" {
		t.Fatalf("%+v, %v", first, err)
	}
	last, err := member.VMs(t.Context(), fleet.Query{Limit: 3, After: first.Next})
	if err != nil || len(last.Items) != 1 || last.Prev == "" {
		t.Fatalf("%+v, %v", last, err)
	}
	if again, err := member.VMs(t.Context(), fleet.Query{Limit: 3, Before: last.Prev}); err != nil || !cmp.Equal(again.Items, first.Items) || again.Prev != "" || again.Next != first.Next {
		t.Errorf("%+v, %v", again, err)
	}
	if a := member.call("GET", "/api/v1/vms?filter=name:none", "").is(t, 200); strings.TrimSpace(a.body) != `{"items":[],"next":""}` {
		t.Errorf("an empty list is %s", a.body)
	}
	projects, err := member.Projects(t.Context(), fleet.Query{})
	if err != nil || len(projects.Items) != 1 || projects.Items[0].Name != "shop" {
		t.Errorf("%+v, %v", projects, err)
	}
	admin := p.program("ann", fleet.RoleAdmin, nil)
	users, err := client.All(t.Context(), fleet.Query{Sort: "-name", Limit: 1}, admin.Users)
	if err != nil || len(users) != 2 || users[0].Name != "mia" {
		t.Errorf("%+v, %v", users, err)
	}
	for _, name := range []string{"bob", "cyd", "eve"} { // ann, bob, cyd, eve, mia
		p.addUser(name, fleet.RoleViewer)
	}
	names = nil
	for q := (fleet.Query{Limit: 2, After: "mia"}); q.After+q.Before != ""; {
		page, err := admin.Users(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range page.Items {
			names = append(names, u.Name)
		}
		q.After, q.Before = "", page.Prev
		if len(page.Items) == 0 {
			q.Before = "mia" // nothing comes after the last
		}
	}
	if want := []string{"cyd", "eve", "ann", "bob"}; !cmp.Equal(names, want) {
		t.Errorf("back through the users: %v, want %v", names, want)
	}
	if a := admin.call("GET", "/api/v1/users?after=ann&before=mia", ""); a.status != http.StatusBadRequest {
		t.Errorf("both ways: %d", a.status)
	}
	if users, err := admin.Users(t.Context(), fleet.Query{Filter: "role:admin -name:mia"}); err != nil || len(users.Items) != 1 {
		t.Errorf("%+v, %v", users, err)
	}
}

func TestTheRestOfTheAPI(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	ctx := t.Context()
	host, other := p.addHost("h1", 0), p.addHost("h2", 0)
	admin := p.program("ann", fleet.RoleAdmin, nil)
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
	p.exec("UPDATE host_sessions SET conflict = 'two' WHERE host_id = $1", host)
	h, err = admin.ClearConflict(ctx, host)
	check("clear a conflict", err, h.Conflict == "")
	p.exec(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'old-mail', '{"power":"running"}')`, host, fleet.NewID[fleet.VMID]())
	found, err := admin.FoundVMs(ctx, host, fleet.Query{})
	check("discovered VMs", err, len(found.Items) == 1)
	found, err = admin.FoundVMs(ctx, other, fleet.Query{})
	check("discovered VMs elsewhere", err, len(found.Items) == 0)

	pool, err := admin.CreatePool(ctx, client.NewPool{Name: "fast", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/fast"}, HostIDs: []fleet.HostID{host}})
	check("create a pool", err, pool.Name == "fast" && len(pool.Hosts) == 1)
	tasks, err := admin.AssignPool(ctx, pool.ID, other)
	check("assign a pool", err, len(tasks) == 1 && tasks[0].Kind == fleet.PoolApply)
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

func TestTheDescriptionIsOfTheSameTypes(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	a := p.browser().get("/api/v1/openapi.json").is(t, http.StatusOK)
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
		t.Errorf("required: %v; of a spec, which is also asked for: %v", vm.Required, doc.Components.Schemas["VMSpec"].Required)
	}
	for _, noun := range []string{"hosts", "vms", "pools", "networks", "projects", "users", "tasks", "tokens", "join-tokens"} {
		if doc.Paths["/api/v1/"+noun]["get"] == nil {
			t.Errorf("no list of %s", noun)
		}
	}
}

func TestMetricsAreForThisMachineOrASeer(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.browser()
	b.get("/healthz")
	b.get("/metrics").is(t, http.StatusOK).has(t, `quantix_http_request_seconds_count{method="GET",route="/healthz",status="200"} 1`,
		"quantix_claims_parked 0", "quantix_consoles_open 0", "quantix_tasks_open 0", "quantix_db_conns_max 10", "go_goroutines")
	through := []string{"X-Forwarded-For", "203.0.113.9"}
	if a := b.get("/metrics", through...); a.status == http.StatusOK {
		t.Error("a proxy on this machine opens the metrics to everybody")
	}
	viewer := p.program("vic", fleet.RoleViewer, nil)
	viewer.call("GET", "/metrics", "", through...).is(t, http.StatusOK)
	member := p.program("mia", "", nil)
	if a := member.call("GET", "/metrics", "", through...); a.status != http.StatusForbidden {
		t.Errorf("status %d", a.status)
	}
}
