package vm

import (
	"html"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/testkit/rendered"
	"quantix/views/kit"
)

// flattenMenu flattens a menu with its submenus.
func flattenMenu(acts []kit.ActionButton) (out []kit.ActionButton) {
	for _, a := range acts {
		if len(a.Submenu) > 0 {
			out = append(out, flattenMenu(a.Submenu)...)
		} else {
			out = append(out, a)
		}
	}
	return out
}

func newTestPage(vm fleet.VMView) Page {
	return Page{VM: vm, Actor: fleet.Actor{UserID: "ann", Role: fleet.RoleAdmin}, Actions: vm.Actions(), GuestActions: vm.GuestActions()}
}

// TestDisabledActionHasReason checks that each VM action, in every phase, is enabled or has a reason.
func TestDisabledActionHasReason(t *testing.T) {
	t.Parallel()
	for _, phase := range fleet.VMPhases {
		vm := reportedVM(phase)
		menu := rendered.HTML(t, ActionMenu(newTestPage(vm)))
		for _, s := range vm.Actions() {
			drawn := rendered.HTML(t, kit.StandaloneButton(string(s.Action), "", actionButton(vm, s)))
			if s.Allowed {
				if strings.Contains(drawn, "aria-disabled") || !strings.Contains(drawn, `="/vms/1`) {
					t.Errorf("%s, %s: the button is disabled: %s", phase, s.Action, drawn)
				}
				continue
			}
			why := html.EscapeString(s.Reason)
			if s.Reason == "" || !strings.Contains(menu, why) {
				t.Errorf("%s, %s: the menu lacks the reason %q", phase, s.Action, s.Reason)
			}
			if strings.Contains(drawn, "<form") || !strings.Contains(drawn, `aria-describedby="why-`+string(s.Action)+`"`) ||
				!strings.Contains(drawn, `id="why-`+string(s.Action)+`">`+why) {
				t.Errorf("%s, %s: the button lacks the reason: %s", phase, s.Action, drawn)
			}
		}
		disabled := 0
		for _, a := range flattenMenu(newTestPage(vm).actionMenu()) {
			if a.Why != "" {
				disabled++
			}
		}
		if n := strings.Count(menu, `aria-disabled="true"`); n != disabled {
			t.Errorf("%s: %d of %d actions are disabled in the menu", phase, n, disabled)
		}
	}
}

// TestVMMenuHasEveryAction checks that the menu has every VM action and stays short: power and guest actions are in
// submenus.
func TestVMMenuHasEveryAction(t *testing.T) {
	t.Parallel()
	p := newTestPage(reportedVM(fleet.PhaseRunning))
	p.VM.Spec.Disks = []fleet.Disk{{PoolID: "p", Volume: "a.qcow2"}, {PoolID: "p", Volume: "b.qcow2"}}
	var top, all []string
	for _, a := range p.actionMenu() {
		top = append(top, a.Word)
	}
	for _, a := range flattenMenu(p.actionMenu()) {
		all = append(all, a.Word)
	}
	want := "Power, Guest, Snapshots, Console, Migrate, Clone, Make a template…, Export, Edit settings, Protection…, Compare…, Release…, Delete…"
	if got := strings.Join(top, ", "); got != want {
		t.Errorf("the menu is %s, want %s", got, want)
	}
	for _, word := range []string{"Start", "Force off", "Reset", "Freeze file systems…", "Take snapshot…", "Change host…", "Change storage of disk 2…"} {
		if !slices.Contains(all, word) {
			t.Errorf("%q is not in the menu: %s", word, all)
		}
	}
	if got := strings.Count(rendered.HTML(t, kit.ActionMenu(p.actionMenu())), "<details"); got != 5 {
		t.Errorf("the menu has %d levels that open, want 5", got)
	}
}

// TestActionsThatInterruptGuestAskForConfirmation checks that exactly the actions that end a guest's run ask for
// confirmation, and that the confirming button warns only if the guest may lose unwritten data. Actions without an
// action state are disabled.
func TestActionsThatInterruptGuestAskForConfirmation(t *testing.T) {
	t.Parallel()
	vm := reportedVM(fleet.PhaseRunning)
	interrupts := []fleet.Action{fleet.ActShutdown, fleet.ActRestart, fleet.ActReboot, fleet.ActReset, fleet.ActStop}
	for _, s := range vm.Actions() {
		a := actionButton(vm, s)
		asks, forces := strings.HasPrefix(a.Confirm, a.Word+" "+vm.Name+"? "), s.Action.JobKind().Info().InterruptsWaits
		if asks != slices.Contains(interrupts, s.Action) || (a.ConfirmTone == "primary") != (asks && !forces) {
			t.Errorf("%s asks %q with the tone %q", a.Word, a.Confirm, a.ConfirmTone)
		}
		if a.Post != "" && (len(a.PostValues) != 1 || a.PostValues[0].Name != "action") {
			t.Errorf("%+v", a)
		}
		if a.Danger != strings.HasSuffix(a.Href, "/delete") || a.Danger && !a.Dialog {
			t.Errorf("%s is drawn as %+v", a.Word, a)
		}
	}
	if a := (Page{VM: vm}).actionButton(fleet.ActStart); a.Why == "" {
		t.Error("an action without an action state is enabled")
	}
}

// TestMenuOfProjectViewerHasNoActionOfMembers checks that a tenant sees neither the actions that no role of hers permits
// nor their submenus, and that an action that is only impossible now stays, with its reason.
func TestMenuOfProjectViewerHasNoActionOfMembers(t *testing.T) {
	t.Parallel()
	vm := reportedVM(fleet.PhaseRunning)
	vm.ProjectID = "red"
	menuOf := func(role fleet.Role) string {
		a := fleet.Actor{UserID: "mia", Projects: map[fleet.ProjectID]fleet.Role{"red": role}}
		p := Page{VM: vm, Actor: a, Actions: policy.RestrictActions(a, "vm", "red", vm.Actions()), GuestActions: policy.RestrictActions(a, "vm", "red", vm.GuestActions())}
		return rendered.Text(t, ActionMenu(p))
	}
	member, viewer := menuOf(fleet.RoleMember), menuOf(fleet.RoleViewer)
	for _, word := range []string{"Migrate", "Release", "permission"} {
		if strings.Contains(member, word) || strings.Contains(viewer, word) {
			t.Errorf("a tenant's menu has %q: %s / %s", word, member, viewer)
		}
	}
	if !strings.Contains(member, "Only a stopped VM can be started.") || !strings.Contains(member, "Delete") {
		t.Errorf("a member's menu is %q", member)
	}
	for _, word := range []string{"Power", "Console", "Delete", "Clone", "Take snapshot", "You may"} {
		if strings.Contains(viewer, word) {
			t.Errorf("a viewer's menu has %q: %s", word, viewer)
		}
	}
	if !strings.Contains(viewer, "Manage snapshots") || !strings.Contains(viewer, "Compare") {
		t.Errorf("a viewer's menu lacks what viewers may do: %s", viewer)
	}
}
