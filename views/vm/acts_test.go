package vm

import (
	"html"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/rendered"
	"quantix/views/kit"
)

// In every phase each action of a VM is either there to use, or there with the reason why not.
func TestADisabledActionCarriesItsReason(t *testing.T) {
	t.Parallel()
	for _, phase := range fleet.VMPhases {
		vm := web(phase)
		menu := rendered.HTML(t, Menu(vm, vm.Actions()))
		disabled := 0
		for _, s := range vm.Actions() {
			drawn := rendered.HTML(t, kit.ActButton(string(s.Action), "", actOf(vm, s)))
			if s.Allowed {
				if strings.Contains(drawn, "aria-disabled") || !strings.Contains(drawn, `="/vms/1`) {
					t.Errorf("%s, %s: cannot be used: %s", phase, s.Action, drawn)
				}
				continue
			}
			disabled++
			why := html.EscapeString(s.Reason)
			if s.Reason == "" || !strings.Contains(menu, why) {
				t.Errorf("%s, %s: the menu does not say why not: %q", phase, s.Action, s.Reason)
			}
			if strings.Contains(drawn, "<form") || !strings.Contains(drawn, `aria-describedby="why-`+string(s.Action)+`"`) ||
				!strings.Contains(drawn, `id="why-`+string(s.Action)+`">`+why) {
				t.Errorf("%s, %s: the button does not say why not: %s", phase, s.Action, drawn)
			}
		}
		for _, a := range withCopies(vm, vm.Actions()) {
			if (a.Word == "Clone" || strings.HasPrefix(a.Word, "Make a template") || strings.HasPrefix(a.Word, "Export")) && a.Why != "" {
				disabled++
			}
		}
		if n := strings.Count(menu, `aria-disabled="true"`); n != disabled {
			t.Errorf("%s: %d of %d actions are disabled in the menu", phase, n, disabled)
		}
	}
}

// What loses a guest's writes is asked before, and nothing else is; what nobody listed as allowed cannot be used.
func TestActsOfAVM(t *testing.T) {
	t.Parallel()
	vm := web(fleet.PhaseRunning)
	for _, a := range acts(vm, vm.Actions()) {
		forces := a.Word == fleet.ActStop.Word() || a.Word == fleet.ActReset.Word()
		if (a.Sure != "") != forces || a.Post != "" && (len(a.Send) != 1 || a.Send[0].Name != "action") {
			t.Errorf("%+v", a)
		}
		if a.Danger != strings.HasSuffix(a.Href, "/delete") || a.Danger && !a.Dialog {
			t.Errorf("%s is drawn as %+v", a.Word, a)
		}
	}
	if a := (Page{VM: vm}).act(fleet.ActStart); a.Why == "" {
		t.Error("an action that nobody listed can be used")
	}
}
