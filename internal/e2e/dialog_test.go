//go:build linux && ordeal

package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// TestDialogOpensAsFullPage opens dialogs as full pages, as in a new tab. After the form is sent, the page with the
// result must follow. In an upload form that is a full page, the user must choose the file again.
func TestDialogOpensAsFullPage(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	p := newTab(t, s.URL)
	p.signIn(s)
	pool := "/pools/" + string(s.api().poolByName(t, "shared").ID)
	p.allowFaults("422")
	p.open(pool + "/volumes/new")
	p.fillInput("#name", "a/b")
	p.fillInput("#size", "1")
	p.click("button.primary", "Create volume")
	p.waitText("#dialog .field.bad", "Name")
	name := uniqueName("own") + ".raw"
	p.fillInput("#dialog #name", name)
	p.chooseOption("#dialog #format", "raw")
	p.click("#dialog button.primary", "Create volume")
	p.waitPath(pool + "?tab=volumes")
	p.waitText("#pool-body tbody", name)

	file := filepath.Join(t.TempDir(), uniqueName("own")+".raw")
	writeFile(t, file, strings.Repeat("a file that a page sends ", 1000))
	p.open(pool + "/volumes/upload")
	p.chooseFile("#upload-file", file)
	p.waitTrue("the name to be filled in", `document.querySelector("#name").value.endsWith(".raw")`)
	p.click("button.primary", "Upload")
	p.waitPath(pool + "?tab=volumes")
	p.waitText(".uploads", "Choose the same file again to continue")

	// A user who was signed out in the meantime can continue on the same page after signing in again.
	p.allowFaults("401")
	other := p.sameBrowserTab()
	other.allowFaults("401")
	other.open("/account")
	other.pickMenuItem(".top summary", s.User, "Sign out")
	other.waitPath("/sign-in")
	p.chooseFile(".uploads [data-upload-again] input", file)
	p.waitText(".uploads", "You are signed out.")
	other.enterCredentials(s.User, newPassword)
	other.waitPath("/")
	p.click(".uploads button", "Continue")
	p.waitText("#pool-body tbody", filepath.Base(file))
}

// TestDialogSurvivesSessionEnd ends the user's session while a dialog is open. A message above the dialog must report
// this, and the user must be able to continue in the dialog after signing in again.
func TestDialogSurvivesSessionEnd(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	leaver := requestJSON[fleet.User](t, s.api(), http.StatusCreated, http.MethodPost, "/api/v1/users", map[string]any{"name": uniqueName("leaver"), "role": "viewer"})
	p := newTab(t, s.URL)
	p.signIn(s)
	p.allowFaults("401")
	p.open("/users/" + string(leaver.ID))
	p.pickMenuItem(".head summary", "Actions", "Delete user")
	p.waitText("#dialog", "Delete "+leaver.Name)
	other := p.sameBrowserTab()
	other.allowFaults("401")
	other.open("/account")
	other.pickMenuItem(".top summary", s.User, "Sign out")
	other.waitPath("/sign-in")
	p.click("#dialog button.danger", "Delete user")
	p.waitText("#toasts", "You are signed out, so nothing was done.")
	p.waitText("#page-bar", "Sign in again")
	other.enterCredentials(s.User, newPassword)
	other.waitPath("/")
	p.click("#dialog button.danger", "Delete user")
	p.waitPath("/users")
	p.waitNoText("main", leaver.Name)
}
