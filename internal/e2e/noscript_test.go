//go:build linux && ordeal

package e2e

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"quantix/internal/fleet"
)

// withoutScripts disables JavaScript in the tab.
func (p *tab) withoutScripts() {
	p.Helper()
	p.runActions("switch scripts off", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
}

// clickAndLoad clicks an element and waits until the response page has loaded. The page may have the same address as
// the page before.
func (p *tab) clickAndLoad(sel, text string) {
	p.Helper()
	p.markDocument()
	p.click(sel, text)
	p.waitTrue("the answer's page", `window.quantixMark !== true && document.readyState === "complete"`)
}

// TestPagesUsableWithoutJavaScript opens the main pages and submits forms with JavaScript disabled.
func TestPagesUsableWithoutJavaScript(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	p := newTab(t, s.URL)
	p.withoutScripts()
	p.signIn(s)
	vm := findByName[fleet.VMView](t, s.api(), "vms", "desk-02")
	s.api().ensurePhase(t, vm.ID, fleet.PhaseRunning)

	for path, text := range map[string]string{
		"/": "Dashboard", "/vms": "desk-02", "/hosts": "host-1", "/pools": "local-nvme", "/networks": "default",
		"/tasks": "Start", "/search?q=ledger": "ledger-01", "/vms/" + string(vm.ID): "desk-02", "/tree/hosts": "host-1",
		"/projects/switch": "finance",
	} {
		p.open(path)
		p.waitText("body", text)
	}

	p.open("/vms")
	p.fillInput(".filter-form input[name=filter]", "name:desk-0*")
	p.typeKeys("\r")
	p.waitPath("/vms?")
	p.waitText("tbody", "desk-03")
	p.waitNoText("tbody", "web-01")

	p.click(".tools summary", "Views")
	p.click(".tools .menu-item", "Saved views")
	p.waitPath("/views/vms?filter=")
	p.clickAndLoad("#view-save", "Save")
	p.waitText(".field.bad", "Give the view a name.")
	p.fillInput("#view-name", "Desks")
	p.clickAndLoad("#view-save", "Save")
	p.waitPath("/vms?filter=name%3Adesk-0%2A")
	p.click("input[data-select-row]", "")
	p.click(".bulk summary", "Power")
	p.clickAndLoad(".bulk .menu-item", "Resume")
	p.waitPath("/tasks/")
	p.waitText("#step-rows", "Only a paused VM can be resumed.")

	p.open("/vms/" + string(vm.ID) + "?tab=configure")
	p.fillInput("#description", "Changed without scripts.")
	p.clickAndLoad("#vm-edit footer button.primary", "Save")
	eventually(t, stepLimit, "the change", func() (bool, string) {
		got := s.api().getVM(t, vm.ID).Description
		return got == "Changed without scripts.", got
	})

	p.open("/vms/new")
	p.fillInput("#name", "Not A Name")
	p.clickAndLoad("footer button.primary", "Create VM")
	p.waitText(".field.bad", "Name")
	p.waitTrue("what was typed to be kept", `document.querySelector("#name").value === "Not A Name"`)
	p.allowFaults("422")

	p.open("/vms/" + string(vm.ID))
	p.clickAndLoad(".head button", "Shut down")
	s.api().waitPhase(t, stepLimit, vm.ID, fleet.PhaseStopped)
}
