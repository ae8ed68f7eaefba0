package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"quantix/internal/fleet"
)

var oneTimePassword = regexp.MustCompile(`<pre id="one-time"[^>]*>([^<]+)</pre>`)

func TestUserCreatedEditedResetAndDeleted(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.post("/users", url.Values{"name": {"Tom Thumb"}}, htmxFormHeaders("user-form")...).requireStatus(t, 422).contains(t, "A user name has 1–64", `value="Tom Thumb"`)
	a := b.post("/users", url.Values{"name": {"tom"}, "role": {"operator"}}, htmxFormHeaders("user-form")...).requireStatus(t, http.StatusOK)
	password := oneTimePassword.FindStringSubmatch(a.body)
	if password == nil {
		t.Fatalf("no one-time password: %s", a.body)
	}
	if got := p.newBrowser().post("/sign-in", url.Values{"name": {"tom"}, "password": {password[1]}}); got.status != http.StatusSeeOther {
		t.Errorf("the one-time password is refused: %d", got.status)
	}
	var id string
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM users WHERE name = 'tom'").Scan(&id); err != nil {
		t.Fatal(err)
	}
	path := "/users/" + id
	b.get("/users").requireStatus(t, http.StatusOK).contains(t, "tom", "Operator", "Must change the password")
	b.get(path).requireStatus(t, http.StatusOK).excludes(t, password[1])
	b.post(path, url.Values{"name": {"tom"}, "role": {"viewer"}, "disabled": {"yes"}}).requireStatus(t, http.StatusSeeOther)
	b.get("/users").contains(t, "Viewer", "Disabled")

	b.get(path+"/password").contains(t, "all sessions of tom end", "the API tokens are deleted")
	reset := b.post(path+"/password", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusOK)
	if again := oneTimePassword.FindStringSubmatch(reset.body); again == nil || again[1] == password[1] {
		t.Error("the page after the reset shows no new password")
	}
	b.get(path+"/delete").contains(t, "Delete tom?")
	b.post(path+"/delete", url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.get(path).requireStatus(t, http.StatusNotFound)
}

func TestUserCannotDisableOrDemoteOneself(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/users/mara").requireStatus(t, http.StatusOK).contains(t, "You cannot delete yourself.")
	b.post("/users/mara", url.Values{"name": {"mara"}, "role": {"viewer"}}, htmxFormHeaders("user-form")...).requireStatus(t, 422).contains(t, "You cannot disable yourself or change your own role.")
	b.post("/users/mara/delete", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, 422)
	p.newSignedInBrowser("otto", fleet.RoleOperator).get("/users").requireStatus(t, http.StatusForbidden)
}
