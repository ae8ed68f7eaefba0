//go:build linux && ordeal

package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

// TestListSupportsPagingSavedViewsAndBulkActions pages through a list and back, saves a view of the list, and runs one action on all
// its rows.
func TestListSupportsPagingSavedViewsAndBulkActions(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	p := newTab(t, s.URL)
	p.signIn(s)

	p.open("/vms?filter=name:web-test*&limit=2")
	p.waitText("#vm-rows", "web-test-02")
	p.click(".pager a", "Next")
	p.waitText("#vm-rows", "web-test-03")
	p.click(".pager a", "Previous")
	p.waitText("#vm-rows", "web-test-01")
	p.waitNoText("#vm-rows", "web-test-03")
	p.waitNoText(".pager", "First page")

	p.click(".tools summary", "Views")
	p.fillInput("#view-name", "Test servers")
	p.markDocument()
	p.click("#view-save", "Save")
	p.waitText(".kept", "Test servers")
	p.checkNotReloaded()
	p.open("/vms")
	p.click(".tools summary", "Views")
	p.click(".kept a", "Test servers")
	p.waitPath("/vms?filter=name%3Aweb-test%2A&limit=2")
	p.click(".tools summary", "Views")
	p.waitText(".kept a[aria-current]", "Test servers")
	p.click(".kept button[aria-label='Delete the view Test servers']", "")
	p.waitTrue("the view to go and the menu to stay", `!document.querySelector(".kept button[aria-label$='Test servers']") && document.activeElement.id === "view-name"`)

	// The selected rows must stay selected after a live update of the list.
	p.withoutPolls()
	p.open("/vms?filter=name:runner-*")
	p.markDocument()
	p.click("#vm-rows input[data-select-row]", "")
	p.waitText(".bulk", "1 selected")
	target := findByName[fleet.VMView](t, s.api(), "vms", "runner-03")
	path := "/api/v1/vms/" + string(target.ID)
	requestJSON[fleet.VMView](t, s.api(), http.StatusOK, http.MethodPatch, path, map[string]any{"labels": map[string]string{"list": "live"}})
	p.waitText("#vm-rows", "list=live")
	p.checkPollsOff()
	p.waitText(".bulk", "1 selected")
	p.checkNotReloaded()

	for _, vm := range listFirstPage[fleet.VMView](t, s.api(), "/api/v1/vms?filter=name:runner-*") {
		s.api().ensurePhase(t, vm.ID, map[bool]fleet.Phase{true: fleet.PhaseRunning, false: fleet.PhaseStopped}[vm.ID == target.ID])
	}
	p.click("#vm-rows input[data-select-all]", "")
	p.waitText(".bulk", "3 selected")
	p.pickMenuItem(".bulk summary", "Power", "Start")
	p.waitPath("/tasks/")
	p.markDocument()
	p.waitText("#step-rows", "Only a stopped VM can be started.")
	p.waitText("#task-sum header", "2 done · 1 refused")
	p.checkNotReloaded()
	p.open(p.path()) // a reload of the page must not repeat the action
	p.waitText("#task-sum header", "2 done · 1 refused")
	p.click(".head a", "Back to the list")
	p.waitPath("/vms?filter=name")
}
