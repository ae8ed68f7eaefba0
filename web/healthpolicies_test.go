package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

func policyForm(name, expression string) url.Values {
	return url.Values{"name": {name}, "expression": {expression}, "severity": {"warning"}, "enabled": {"yes"}, "drain": {"yes"}, "generation": {"0"}}
}

// TestHealthPolicyPages follows a policy from its trial to its deletion, without JavaScript.
func TestHealthPolicyPages(t *testing.T) {
	t.Parallel()
	s := newPortal(t)
	h := s.addHost("h1", 0)
	b := s.newSignedInBrowser("ann", fleet.RoleAdmin)
	failing := healthevent.Finding{Object: "disk/sda", Code: "smart-failing", Severity: fleet.AlarmCritical, Text: "The disk fails."}
	report := healthevent.Report{Instance: "run", Checks: []healthevent.CheckReport{{Check: "smart", State: healthevent.CheckOK, Findings: []healthevent.Finding{failing}}}}
	if err := s.control.ReportHealth(t.Context(), fleet.Actor{HostID: h}, report); err != nil {
		t.Fatal(err)
	}
	act := func() {
		t.Helper()
		if err := s.control.ActOnHealth(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	act()
	b.get("/policies").requireStatus(t, http.StatusOK).contains(t, "gpu-failed", "Taint gpu-failed:NoExecute, raise an alarm", "Policies drain 1 host at a time.")
	b.get("/policies/new").requireStatus(t, http.StatusOK).contains(t, "event.values.xid", "Fields and values")

	typed := []string{"HX-Request", "true", "HX-Target", "expression-check"}
	b.post("/policies/check", policyForm("disks", `event.chek == "smart"`), typed...).requireStatus(t, http.StatusOK).contains(t, "Line 1, column 6: event has no field")
	b.post("/policies/check", policyForm("disks", `event.check == "smart"`), typed...).requireStatus(t, http.StatusOK).contains(t, "The expression is valid.")
	b.post("/policies", policyForm("disks", `event.check ==`)).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "The expression ends too early.", `value="disks"`)
	b.post("/policies/try", policyForm("disks", `event.check == "smart"`)).requireStatus(t, http.StatusOK).contains(t, "1 of 1 event of the last 7 days match.", "smart-failing on disk/sda", "match now: ", `value="disks"`)

	made := b.post("/policies", policyForm("disks", `event.check == "smart"`)).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	act()
	b.get(made).requireStatus(t, http.StatusOK).contains(t, "The disk fails.", "Active", "Release")
	host := b.get("/hosts/"+string(h)).requireStatus(t, http.StatusOK)
	host.contains(t, "Policy disks cordoned and drained this host", "because of smart-failing on disk/sda.", "Policy disk-failing cordoned this host")
	b.get("/hosts/"+string(h)+"?tab=configure").requireStatus(t, http.StatusOK).contains(t, "was set by the health policy disks because of smart-failing on disk/sda")

	edit := policyForm("disks", `event.check == "smart"`)
	edit.Del("enabled")
	b.post(made+"/edit", edit).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "This undoes what the policy did: taint health-drain:NoExecute on "+"h1", `name="confirm"`)
	b.get(made+"/delete").requireStatus(t, http.StatusOK).contains(t, "This undoes what the policy did", "taint health-drain:NoExecute")
	b.post(made+"/delete", url.Values{"confirm": {"yes"}}).requireStatus(t, http.StatusSeeOther)
	act()
	if got := b.get("/hosts/" + string(h)).body; strings.Contains(got, "Policy disks") || !strings.Contains(got, "Policy disk-failing cordoned this host") {
		t.Error("the page of the host still names the deleted policy, or no longer the other")
	}
	b.post("/policies/settings", url.Values{"maxHosts": {"-1"}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Enter a number of hosts from 0")
	b.post("/policies/settings", url.Values{"maxHosts": {"3"}}).requireStatus(t, http.StatusSeeOther)
	b.get("/policies").contains(t, "Policies drain 3 hosts at a time.")
}

func TestMembersSeeNoHealthPolicies(t *testing.T) {
	t.Parallel()
	s := newPortal(t)
	tom := s.newTenantBrowser("tom", s.addProject("shop"))
	for _, path := range []string{"/policies", "/policies/new"} {
		tom.get(path).requireStatus(t, http.StatusForbidden)
	}
	viewer := s.newSignedInBrowser("vic", fleet.RoleViewer)
	viewer.get("/policies").requireStatus(t, http.StatusOK)
	viewer.get("/policies/new").requireStatus(t, http.StatusForbidden)
}
