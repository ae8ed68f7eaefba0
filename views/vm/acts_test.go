package vm

import (
	"html"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/rendered"
)

// In every phase each action of a VM is either there to use, or there with the reason why not.
func TestADisabledActionCarriesItsReason(t *testing.T) {
	t.Parallel()
	for _, phase := range fleet.VMPhases {
		vm := web(phase)
		menu := rendered.HTML(t, items(vm, vm.Actions()))
		disabled := 0
		for _, s := range vm.Actions() {
			drawn := rendered.HTML(t, button(vm, s, ""))
			if s.Allowed {
				if strings.Contains(drawn, "aria-disabled") || !strings.Contains(drawn, `action="/vms/1/actions"`) {
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
		if n := strings.Count(menu, `aria-disabled="true"`); n != disabled {
			t.Errorf("%s: %d of %d actions are disabled in the menu", phase, n, disabled)
		}
	}
}
