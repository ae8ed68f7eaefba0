package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"quantix/internal/fleet"
)

var oneTime = regexp.MustCompile(`<pre id="one-time"[^>]*>([^<]+)</pre>`)

func TestUserCreatedEditedResetAndDeleted(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.post("/users", url.Values{"name": {"Tom Thumb"}}, hx("user-form")...).is(t, 422).has(t, "A user name has 1–64", `value="Tom Thumb"`)
	a := b.post("/users", url.Values{"name": {"tom"}, "role": {"operator"}}, hx("user-form")...).is(t, http.StatusOK)
	password := oneTime.FindStringSubmatch(a.body)
	if password == nil {
		t.Fatalf("no one-time password: %s", a.body)
	}
	if got := p.browser().post("/sign-in", url.Values{"name": {"tom"}, "password": {password[1]}}); got.status != http.StatusSeeOther {
		t.Errorf("the one-time password is refused: %d", got.status)
	}
	var id string
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM users WHERE name = 'tom'").Scan(&id); err != nil {
		t.Fatal(err)
	}
	path := "/users/" + id
	b.get("/users").is(t, http.StatusOK).has(t, "tom", "Operator", "Must change the password")
	b.get(path).is(t, http.StatusOK).lacks(t, password[1])
	b.post(path, url.Values{"name": {"tom"}, "role": {"viewer"}, "disabled": {"yes"}}).is(t, http.StatusSeeOther)
	b.get("/users").has(t, "Viewer", "Disabled")

	b.get(path+"/password").has(t, "all sessions of tom end", "the API tokens are deleted")
	reset := b.post(path+"/password", url.Values{}, hx("dialog")...).is(t, http.StatusOK)
	if again := oneTime.FindStringSubmatch(reset.body); again == nil || again[1] == password[1] {
		t.Error("the page after the reset shows no new password")
	}
	b.get(path+"/delete").has(t, "Delete tom?")
	b.post(path+"/delete", url.Values{}).is(t, http.StatusSeeOther)
	b.get(path).is(t, http.StatusNotFound)
}

func TestUserCannotDisableOrDemoteOneself(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.get("/users/mara").is(t, http.StatusOK).has(t, "You cannot delete yourself.")
	b.post("/users/mara", url.Values{"name": {"mara"}, "role": {"viewer"}}, hx("user-form")...).is(t, 422).has(t, "You cannot disable yourself or change your own role.")
	b.post("/users/mara/delete", url.Values{}, hx("dialog")...).is(t, 422)
	p.signedIn("otto", fleet.RoleOperator).get("/users").is(t, http.StatusForbidden)
}
