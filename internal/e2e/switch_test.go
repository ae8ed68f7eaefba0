//go:build linux && ordeal

package e2e

import "testing"

// TestProjectSwitcherUsableOnPhone restricts a list to a project and removes the restriction, on a screen whose top bar
// is too narrow for names.
func TestProjectSwitcherUsableOnPhone(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	p := newTab(t, s.URL)
	p.signIn(s)
	p.setWindowSize(390, 844)
	p.open("/vms?sort=-name")
	p.waitText("tbody", "web-01")
	p.click(".top summary[aria-label='Project: All projects']", "")
	p.click("#switch-links a", "office")
	p.waitPath("/vms?project=")
	p.waitText(".top summary[aria-label='Project: office']", "office")
	p.waitText("tbody", "desk-02")
	p.waitNoText("tbody", "web-01")
	p.waitTrue("the order to stay", `new URL(location).searchParams.get("sort") === "-name"`)

	p.click(".top summary[aria-label='Project: office']", "")
	p.waitTrue("the current one to be marked", `document.querySelector("#switch-links [aria-current]").textContent.includes("office")`)
	p.click("#switch-links a", "All projects")
	p.waitText("tbody", "web-01")
}
