package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/quota"
	"quantix/internal/request"
)

// limitCPUs limits the vCPUs of a project.
func (p *portal) limitCPUs(project fleet.ProjectID, n int64) {
	p.t.Helper()
	if _, err := p.control.SetQuota(p.t.Context(), fleet.SystemActor, project, quota.Quota{CPUs: quota.Limit{Hard: &n}}); err != nil {
		p.t.Fatal(err)
	}
}

// A member requests quota with the dialog; an administrator finds the request on the dashboard and approves it.
func TestQuotaRequestedAndApprovedOnPages(t *testing.T) {
	t.Parallel()
	s := newPortal(t)
	project := s.addProject("shop")
	s.limitCPUs(project, 8)
	member := s.newTenantBrowser("mia", project)
	admin := s.newSignedInBrowser("root", fleet.RoleAdmin)
	member.get("/projects/"+string(project)+"/usage").requireStatus(t, http.StatusOK).contains(t, "Request more")
	member.get("/requests/new?kind=quota&limits.cpus=16&project="+string(project)).requireStatus(t, http.StatusOK).contains(t, "New limit of vCPUs", `value="16"`)
	form := url.Values{"projectId": {string(project)}, "kind": {"quota"}, "limits.cpus": {"many"}, "reason": {"Load test"}}
	member.post("/requests", form).requireStatus(t, 422).contains(t, "Enter a number that is not negative.", "Load test")
	form.Set("limits.cpus", "4")
	member.post("/requests", form).requireStatus(t, 422).contains(t, "The limit is 8 already. Enter more.")
	form.Set("limits.cpus", "16")
	path := member.post("/requests", form).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	page := member.get(path).requireStatus(t, http.StatusOK)
	page.contains(t, "16 vCPUs", "Load test", "Withdraw")
	page.excludes(t, ">Decide<")
	member.get("/").excludes(t, path+"/decide")
	member.get(path+"/decide").requireStatus(t, http.StatusForbidden)
	admin.get("/").contains(t, path+"/decide", "Load test")
	admin.get(path+"/decide").requireStatus(t, http.StatusOK).contains(t, "Approve", "Refuse", "After approval")
	admin.post(path+"/refuse", url.Values{"generation": {"1"}}).requireStatus(t, 422).contains(t, "Say why")
	admin.post(path+"/approve", url.Values{"generation": {"1"}, "comment": {"Until June"}}).requireStatus(t, http.StatusSeeOther)
	admin.post(path+"/approve", url.Values{"generation": {"1"}}).requireStatus(t, http.StatusConflict).contains(t, "already approved by root")
	member.get(path).contains(t, "Approved", "Until June", "vCPUs 8 → 16")
	member.get("/requests?filter=state:approved").contains(t, path, "Until June")
}

// The dialog decides about the request that it showed. If the member has changed it since then, it shows the new one.
func TestDecisionDialogShowsChangedRequest(t *testing.T) {
	t.Parallel()
	s := newPortal(t)
	project := s.addProject("shop")
	s.limitCPUs(project, 4)
	member := s.newTenantBrowser("mia", project)
	admin := s.newSignedInBrowser("root", fleet.RoleAdmin)
	form := url.Values{"projectId": {string(project)}, "kind": {"quota"}, "limits.cpus": {"6"}, "reason": {"Build"}}
	path := member.post("/requests", form).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	admin.get(path+"/decide").contains(t, "6 vCPUs", `name="generation" value="1"`)
	form.Set("limits.cpus", "900")
	member.post("/requests", form).requireStatus(t, http.StatusSeeOther)

	const changed = "The request was changed meanwhile. Look at it again."
	for _, action := range []string{"/approve", "/refuse"} {
		for _, generation := range []string{"1", "", "0", "two"} {
			shown := admin.post(path+action, url.Values{"generation": {generation}, "comment": {"Until June"}}).requireStatus(t, http.StatusConflict)
			shown.contains(t, changed, "900 vCPUs", "Until June", `name="generation" value="2"`)
		}
	}
	client := s.newAPIClient("ops", fleet.RoleAdmin, nil)
	for _, action := range []string{"/approve", "/refuse"} {
		client.call("POST", "/api/v1"+path+action, `{"comment":"no","ifGeneration":1}`).requireStatus(t, http.StatusConflict).contains(t, changed)
	}
	client.call("GET", "/api/v1"+path, "").requireStatus(t, http.StatusOK).contains(t, `"generation":2`, `"state":"open"`)
	admin.post(path+"/approve", url.Values{"generation": {"2"}}).requireStatus(t, http.StatusSeeOther)
	member.get(path).contains(t, "Approved", "vCPUs 4 → 900")
}

// In a project whose new VMs need approval, the form and the API make a request, and its approval the VM.
func TestNewVMOfProjectWithApprovalIsRequested(t *testing.T) {
	s, project, _, _ := newFleetPortal(t)
	s.execSQL(`UPDATE projects SET vm_rules = '{"approval": true}' WHERE id = $1`, project)
	member := s.newTenantBrowser("mia", project)
	page := member.get("/vms/new?project="+string(project)).requireStatus(t, http.StatusOK)
	page.contains(t, "Request VM", "New VMs of this project need approval")
	page.excludes(t, "Create VM")
	form := url.Values{"projectId": {string(project)}, "name": {"web"}, "spec.cpus": {"1"}, "spec.memoryMiB": {"1", "GiB"}, "source": {"blank"}}
	member.post("/vms", form).requireStatus(t, 422).contains(t, "Say why you need it.")
	form.Set("reason", "For the shop")
	path := member.post("/vms", form).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	if !strings.HasPrefix(path, "/requests/") {
		t.Fatalf("the form leads to %s", path)
	}
	token := s.newAPIClient("tom", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{project: fleet.RoleMember})
	api := token.call("POST", "/api/v1/vms", `{"projectId":"`+string(project)+`","name":"db","reason":"r","spec":{"cpus":1,"memoryMiB":512}}`).requireStatus(t, http.StatusAccepted)
	var r request.Request
	if err := json.Unmarshal([]byte(api.body), &r); err != nil || r.Kind != request.VM || r.State != request.Open || r.VM == nil || r.VM.Name != "db" || api.header.Get("Location") != "/api/v1/requests/"+string(r.ID) {
		t.Errorf("the API answers %s", api.body)
	}
	token.call("POST", "/api/v1/requests/"+string(r.ID)+"/approve", `{}`).requireProblem(t, http.StatusForbidden, "")
	admin := s.newSignedInBrowser("root", fleet.RoleAdmin)
	admin.post(path+"/approve", url.Values{"generation": {"1"}}).requireStatus(t, http.StatusSeeOther)
	member.get(path).contains(t, "Approved", `href="/vms/`)
	member.get("/vms").contains(t, ">web</a>")
}
