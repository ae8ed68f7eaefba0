package control_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/control/identity"
	"quantix/internal/control/requests"
	"quantix/internal/event"
	"quantix/internal/fleet"
	"quantix/internal/quota"
	"quantix/internal/request"
)

// askForCPUs makes a request of mia for 16 vCPUs of project red, whose limit is 8.
func (s *projectFixture) askForCPUs() request.Request {
	s.t.Helper()
	s.setQuota(s.red, quota.Quota{CPUs: limit(8)})
	r, err := s.CreateRequest(s.t.Context(), s.member, request.Input{ProjectID: s.red, Kind: request.Quota, Reason: "Load test", Limits: map[string]int64{"cpus": 16}})
	if err != nil {
		s.t.Fatal(withFieldErrors(err))
	}
	return r
}

// storeMember stores the actor's role in project red, which approvals read from the database.
func (s *projectFixture) storeMember(a fleet.Actor) {
	s.t.Helper()
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, $3)`, s.red, a.UserID, a.Projects[s.red])
}

// setApproval sets whether new VMs of project red need approval, and further rules.
func (s *projectFixture) setApproval(rules fleet.VMRules) {
	s.t.Helper()
	rules.Approval = true
	if _, err := s.UpdateProject(s.t.Context(), chief, s.red, identity.ProjectInput{Name: "red", VMRules: &rules}); err != nil {
		s.t.Fatal(withFieldErrors(err))
	}
}

func TestApprovedQuotaRequestRaisesLimit(t *testing.T) {
	s := newProjectFixture(t)
	r := s.askForCPUs()
	if r.State != request.Open || r.Name != "16 vCPUs" || r.RequestedBy != "mia" || r.ProjectName != "red" {
		t.Errorf("the request is %+v", r)
	}
	done, err := s.ApproveRequest(t.Context(), chief, r.ID, requests.Approval{Comment: "Until June"})
	if err != nil {
		t.Fatal(withFieldErrors(err))
	}
	use, err := s.ProjectUsage(t.Context(), s.member, s.red)
	if err != nil || use.Quota.CPUs.Hard == nil || *use.Quota.CPUs.Hard != 16 {
		t.Errorf("the quota is %+v %v, want 16 vCPUs", use.Quota, err)
	}
	if done.State != request.Approved || done.DecidedBy != "chief" || done.Comment != "Until June" || done.Result.Quota != "vCPUs 8 → 16" {
		t.Errorf("the approved request is %+v", done)
	}
}

func TestSecondApproverGetsFirstDecision(t *testing.T) {
	s := newProjectFixture(t)
	r := s.askForCPUs()
	other := s.addProjectMember("root", s.blue, fleet.RoleViewer)
	other.Role = fleet.RoleAdmin
	results := make([]error, 2)
	var all sync.WaitGroup
	for i, a := range []fleet.Actor{chief, other} {
		all.Go(func() { _, results[i] = s.ApproveRequest(t.Context(), a, r.ID, requests.Approval{}) })
	}
	all.Wait()
	winner, refused := "chief", results[1]
	if results[0] != nil {
		winner, refused = "root", results[0]
	}
	if results[0] != nil && results[1] != nil || fleet.CodeOf(refused) != fleet.Conflict || refused.Error() != "This request is already approved by "+winner+"." {
		t.Errorf("the approvals end with %v and %v", results[0], results[1])
	}
	if n := s.countAudit("request.approve"); n != 1 {
		t.Errorf("%d approvals are in the audit log", n)
	}
}

func (s *projectFixture) countAudit(action string) (n int) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), `SELECT count(*) FROM audit WHERE action = $1`, action).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

func TestInvalidRequestRefusedAtField(t *testing.T) {
	s := newProjectFixture(t)
	s.setQuota(s.red, quota.Quota{CPUs: limit(8)})
	long := strings.Repeat("ä", request.MaxReason+1)
	for name, c := range map[string]struct {
		in    request.Input
		field string
	}{
		"no reason":            {request.Input{Kind: request.Pool, Text: "fast"}, "reason"},
		"long reason":          {request.Input{Kind: request.Pool, Text: "fast", Reason: long}, "reason"},
		"no kind":              {request.Input{Reason: "r"}, "kind"},
		"no text":              {request.Input{Kind: request.Network, Reason: "r"}, "text"},
		"no limits":            {request.Input{Kind: request.Quota, Reason: "r"}, "limits"},
		"negative limit":       {request.Input{Kind: request.Quota, Reason: "r", Limits: map[string]int64{"cpus": -1}}, "limits.cpus"},
		"large limit":          {request.Input{Kind: request.Quota, Reason: "r", Limits: map[string]int64{"cpus": 1<<63 - 1}}, "limits.cpus"},
		"limit of now":         {request.Input{Kind: request.Quota, Reason: "r", Limits: map[string]int64{"cpus": 8}}, "limits.cpus"},
		"resource with no end": {request.Input{Kind: request.Quota, Reason: "r", Limits: map[string]int64{"nics": 8}}, "limits.nics"},
		"unknown resource":     {request.Input{Kind: request.Quota, Reason: "r", Limits: map[string]int64{"moons": 8}}, "limits"},
		"a VM":                 {request.Input{Kind: request.VM, Reason: "r"}, "vm"},
	} {
		c.in.ProjectID = s.red
		_, err := s.CreateRequest(t.Context(), s.member, c.in)
		refused, ok := errors.AsType[*fleet.Error](err)
		if !ok || refused.Code != fleet.Invalid || !slices.ContainsFunc(refused.Fields, func(f fleet.FieldError) bool { return f.Field == c.field }) {
			t.Errorf("%s: %v, want an error at %s", name, withFieldErrors(err), c.field)
		}
	}
	if n := s.countRows("requests"); n != 0 {
		t.Errorf("%d requests are stored", n)
	}
}

func TestSameRequestIsReplacedAndOpenOnesAreBounded(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	ask := func(text, reason string) (request.Request, error) {
		return s.CreateRequest(ctx, s.member, request.Input{ProjectID: s.red, Kind: request.Pool, Text: text, Reason: reason})
	}
	first, err := ask("Fast storage", "one")
	if err != nil {
		t.Fatal(err)
	}
	again, err := ask(" fast  STORAGE", "two")
	if err != nil || again.ID != first.ID || again.Reason != "two" {
		t.Errorf("the second request is %+v %v, want %s with the new reason", again, err, first.ID)
	}
	for i := range request.MaxOpen - 1 {
		if _, err := ask("pool "+string(rune('a'+i)), "more"); err != nil {
			t.Fatal(err)
		}
	}
	s.wantRefused("one more", fleet.Conflict, "You have 20 open requests in this project", func() error { _, err := ask("the last", "more"); return err })
	if _, err := s.WithdrawRequest(ctx, s.member, first.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := ask("the last", "more"); err != nil {
		t.Errorf("after a withdrawal: %v", err)
	}
}

func TestOnlyThoseWithPermissionDecide(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	r := s.askForCPUs()
	operator := s.addProjectMember("olga", s.red, fleet.RoleOwner)
	operator.Role = fleet.RoleOperator
	for name, c := range map[string]struct {
		actor fleet.Actor
		code  fleet.ErrorCode
	}{"the user herself": {s.member, fleet.Forbidden}, "a viewer": {s.viewer, fleet.Forbidden}, "a stranger": {s.blueMember, fleet.NotFound}, "an operator, of a quota": {operator, fleet.Forbidden}} {
		s.wantRefused(name+" approves", c.code, "", func() error { _, err := s.ApproveRequest(ctx, c.actor, r.ID, requests.Approval{}); return err })
		s.wantRefused(name+" refuses", c.code, "", func() error {
			_, err := s.RefuseRequest(ctx, c.actor, r.ID, requests.Refusal{Comment: "no"})
			return err
		})
	}
	s.wantRefused("another withdraws", fleet.Forbidden, "Only the user who made the request", func() error { _, err := s.WithdrawRequest(ctx, chief, r.ID); return err })
	s.wantRefused("a refusal without a comment", fleet.Invalid, "Say why", func() error { _, err := s.RefuseRequest(ctx, chief, r.ID, requests.Refusal{Comment: " "}); return err })
	if _, err := s.RefuseRequest(ctx, chief, r.ID, requests.Refusal{Comment: "Not this year"}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a refused one", fleet.Conflict, "already refused by chief", func() error { _, err := s.WithdrawRequest(ctx, s.member, r.ID); return err })
	got, err := s.GetRequest(ctx, s.member, r.ID)
	if err != nil || got.State != request.Refused || got.Comment != "Not this year" {
		t.Errorf("the user sees %+v %v", got, err)
	}
}

// A tenant sees the requests of her projects only, and no name of an unpublished pool in any of them.
func TestTenantSeesRequestsOfOwnProjects(t *testing.T) {
	s, pool, network := newPublishingFixture(t)
	ctx := t.Context()
	query := event.Query{Types: []fleet.ResourceType{fleet.TypeRequest}}
	start, err := s.ReadEvents(ctx, chief, query)
	if err != nil {
		t.Fatal(err)
	}
	query.After = start.Next
	ids := map[request.Kind]request.ID{}
	for _, kind := range []request.Kind{request.Pool, request.Network} {
		r, err := s.CreateRequest(ctx, s.member, request.Input{ProjectID: s.red, Kind: kind, Text: "Something fast", Reason: "Database"})
		if err != nil {
			t.Fatal(err)
		}
		ids[kind] = r.ID
	}
	s.wantRefused("a request of another project", fleet.NotFound, "There is no such request", func() error { _, err := s.GetRequest(ctx, s.blueMember, ids[request.Pool]); return err })
	if page, err := s.ListRequests(ctx, s.blueMember, fleet.Query{}); err != nil || len(page.Items) != 0 {
		t.Errorf("a stranger lists %+v %v", page.Items, err)
	}
	for end := time.Now().Add(30 * time.Second); ; { // other transactions delay events
		got, err := s.ReadEvents(ctx, s.member, query)
		if err == nil && len(got.Events) == 2 {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("mia reads the events %+v %v, want 2", got.Events, err)
		}
	}
	if got, err := s.ReadEvents(ctx, s.blueMember, query); err != nil || len(got.Events) != 0 {
		t.Errorf("a stranger reads the events %+v %v", got.Events, err)
	}
	mine, err := s.ListRequests(ctx, s.member, fleet.Query{Filter: "state:open who:me project:red"})
	if err != nil || len(mine.Items) != 2 {
		t.Fatalf("mia lists %+v %v", mine.Items, err)
	}
	if text, _ := json.Marshal(mine); strings.Contains(string(text), "hidden") {
		t.Errorf("mia sees an unpublished name: %s", text)
	}
	if all, more, err := s.RequestsToDecide(ctx, s.member); err != nil || more || len(all) != 0 {
		t.Errorf("mia may decide %+v %v", all, err)
	}
	if all, _, err := s.RequestsToDecide(ctx, chief); err != nil || len(all) != 2 {
		t.Errorf("chief may decide %+v %v", all, err)
	}
	s.wantRefused("no pool chosen", fleet.Invalid, "Choose the pool to publish", func() error {
		_, err := s.ApproveRequest(ctx, chief, ids[request.Pool], requests.Approval{})
		return err
	})
	if r, err := s.ApproveRequest(ctx, chief, ids[request.Pool], requests.Approval{PoolID: pool}); err != nil || r.Result.Name != "hidden-pool" {
		t.Errorf("the approved request is %+v %v", r, err)
	}
	if _, err := s.ApproveRequest(ctx, chief, ids[request.Network], requests.Approval{NetworkID: network}); err != nil {
		t.Error(err)
	}
	if _, err := s.GetPool(ctx, s.member, pool); err != nil {
		t.Errorf("after the approval, mia gets %v for the pool", err)
	}
}

func TestMemberNeedsApprovalForNewVM(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	s.storeMember(s.member)
	s.execSQL(enableFirstBootsSQL)
	s.setApproval(fleet.VMRules{})
	owner := s.addProjectMember("olga", s.red, fleet.RoleOwner)
	s.wantRefused("a member creates", fleet.Invalid, "New VMs of this project need approval", func() error { _, err := s.CreateVM(ctx, s.member, s.quotaVM("web")); return err })
	s.wantRefused("a member creates several", fleet.Invalid, "New VMs of this project need approval", func() error {
		many := control.CreateVMs{CreateVM: s.quotaVM("web-{n}")}
		many.Count = 2
		_, err := s.CreateVMs(ctx, s.member, many)
		return err
	})
	if _, err := s.CreateVM(ctx, owner, s.quotaVM("own")); err != nil {
		t.Errorf("an owner creates: %v", withFieldErrors(err))
	}
	in := s.quotaVM("web")
	in.FirstBoot = hostnameFirstBoot("web")
	r, err := s.RequestVM(ctx, s.member, in, "For the shop")
	if err != nil {
		t.Fatal(withFieldErrors(err))
	}
	if s.countRows("vms") != 1 || r.VM == nil || r.VM.Uses.CPUs != 2 || r.VM.Uses.DiskBytes != 2*gib || !r.VM.Guest {
		t.Errorf("%d VMs, and the request is %+v", s.countRows("vms"), r.VM)
	}
	if all, _, err := s.RequestsToDecide(ctx, owner); err != nil || len(all) != 1 {
		t.Errorf("the owner may decide %+v %v", all, err)
	}
	var stored string
	if err := s.pool.QueryRow(ctx, `SELECT input::text FROM requests WHERE id = $1`, r.ID).Scan(&stored); err != nil || strings.Contains(stored, "cloudInit") {
		t.Errorf("first-boot data is stored unencrypted: %s %v", stored, err)
	}
	done, err := s.ApproveRequest(ctx, owner, r.ID, requests.Approval{})
	if err != nil {
		t.Fatal(withFieldErrors(err))
	}
	vm := s.getVM(done.Result.VMID)
	var creator string
	if err := s.pool.QueryRow(ctx, `SELECT created_by FROM tasks WHERE subject = $1`, fleet.SubjectVM(vm.ID)).Scan(&creator); err != nil {
		t.Fatal(err)
	}
	if vm.Name != "web" || creator != "mia" {
		t.Errorf("%s created %s, want web by mia", creator, vm.Name)
	}
}

// An administrator's approval raises the quota by the missing part, and creates a VM that the project's rules refuse.
func TestApprovalRaisesQuotaAndBreaksRules(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	s.storeMember(s.member)
	s.setApproval(fleet.VMRules{NamePattern: "red-*"})
	s.setQuota(s.red, quota.Quota{CPUs: limit(3), MemoryMiB: limit(4096)})
	owner := s.addProjectMember("olga", s.red, fleet.RoleOwner)
	in := s.quotaVM("web")
	in.Spec.CPUs = 4
	r, err := s.RequestVM(ctx, s.member, in, "Big")
	if err != nil {
		t.Fatal(withFieldErrors(err))
	}
	if len(r.VM.Broken) != 1 || !strings.Contains(r.VM.Broken[0], "red-*") {
		t.Errorf("broken rules: %q", r.VM.Broken)
	}
	s.wantRefused("an owner, against a rule", fleet.Invalid, "red-*", func() error { _, err := s.ApproveRequest(ctx, owner, r.ID, requests.Approval{}); return err })
	operator := owner
	operator.Role = fleet.RoleOperator
	s.wantRefused("an operator, above the quota", fleet.Invalid, "3 of 3 vCPUs left", func() error { _, err := s.ApproveRequest(ctx, operator, r.ID, requests.Approval{}); return err })
	if n := s.countRows("vms"); n != 0 {
		t.Errorf("%d VMs after refused approvals", n)
	}
	done, err := s.ApproveRequest(ctx, chief, r.ID, requests.Approval{})
	if err != nil {
		t.Fatal(withFieldErrors(err))
	}
	use, err := s.ProjectUsage(ctx, chief, s.red)
	if err != nil || *use.Quota.CPUs.Hard != 4 || *use.Quota.MemoryMiB.Hard != 4096 || done.Result.Quota != "vCPUs 3 → 4" {
		t.Errorf("the quota is %+v %v, changed %q", use.Quota, err, done.Result.Quota)
	}
	s.wantRefused("a further VM", fleet.Invalid, "", func() error { _, err := s.CreateVM(ctx, owner, s.quotaVM("red-more")); return err })
}

// A request for a VM is refused for all reasons but quota, rules and approval.
func TestRequestedVMIsChecked(t *testing.T) {
	s, pool, _ := newPublishingFixture(t)
	ctx := t.Context()
	in := s.quotaVM("web")
	in.Spec.Disks[0].PoolID = pool
	s.wantRefused("an unpublished pool", fleet.Invalid, "There is no such pool", func() error { _, err := s.RequestVM(ctx, s.member, in, "r"); return err })
	s.wantRefused("no reason", fleet.Invalid, "Say why", func() error { _, err := s.RequestVM(ctx, s.member, s.quotaVM("web"), ""); return err })
	s.wantRefused("another project", fleet.NotFound, "", func() error { _, err := s.RequestVM(ctx, s.blueMember, s.quotaVM("web"), "r"); return err })
}

func TestOpenRequestsEndWithMembershipAndProject(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	s.storeMember(s.member)
	r := s.askForCPUs()
	if err := s.SetMember(ctx, chief, s.red, s.member.UserID, fleet.RoleNone); err != nil {
		t.Fatal(err)
	}
	if got, err := s.GetRequest(ctx, chief, r.ID); err != nil || got.State != request.Withdrawn {
		t.Errorf("after the member left, the request is %+v %v", got, err)
	}
	s.wantRefused("an approval", fleet.Conflict, "withdrawn", func() error { _, err := s.ApproveRequest(ctx, chief, r.ID, requests.Approval{}); return err })
	if err := s.DeleteProject(ctx, chief, s.red); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("requests"); n != 0 {
		t.Errorf("%d requests after the deletion of the project", n)
	}
}

func TestUndecidedRequestExpires(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	r := s.askForCPUs()
	s.execSQL(`UPDATE requests SET created_at = now() - interval '31 days'`)
	if err := s.ExpireRequests(ctx, fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if got, err := s.GetRequest(ctx, s.member, r.ID); err != nil || got.State != request.Expired {
		t.Errorf("the request is %+v %v", got, err)
	}
	s.execSQL(`UPDATE requests SET created_at = now() - interval '400 days'`)
	if err := s.ExpireRequests(ctx, fleet.SystemActor); err != nil || s.countRows("requests") != 0 {
		t.Errorf("%d old requests are left, %v", s.countRows("requests"), err)
	}
}

// Each kind has a row, and the filter of the list names all kinds and states.
func TestRequestFilterNamesKindsAndStates(t *testing.T) {
	t.Parallel()
	values := map[string][]string{}
	for _, k := range fleet.RequestKeys {
		values[k.Key] = k.Values
	}
	kinds := map[string]bool{}
	for _, k := range request.Kinds {
		kinds[string(k.Kind)] = true
	}
	if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got, slices.Sorted(slices.Values(values["kind"]))) {
		t.Errorf("kinds %q, the filter has %q", got, values["kind"])
	}
	states := []string{string(request.Open), string(request.Approved), string(request.Refused), string(request.Withdrawn), string(request.Expired)}
	if !slices.Equal(states, values["state"]) {
		t.Errorf("states %q, the filter has %q", states, values["state"])
	}
}
