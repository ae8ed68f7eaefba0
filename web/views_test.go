package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestListViewsSavedAndDeletedPerUser(t *testing.T) {
	p, _, _, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	const query = "filter=label%3Aenv%3Dprod&sort=-name"
	b.get("/vms?"+query+"&tree=vms").requireStatus(t, http.StatusOK).contains(t, `hx-get="/views/vms?filter=label%3Aenv%3Dprod&amp;sort=-name"`, `href="/views/vms?filter=label%3Aenv%3Dprod&amp;sort=-name"`)

	// Without JavaScript, the menu is a page, and saving redirects to the list.
	menu := "/views/vms?" + query
	b.get(menu).requireStatus(t, http.StatusOK).contains(t, "<html", "No saved views yet", `value="filter=label%3Aenv%3Dprod&amp;sort=-name"`)
	a := b.post("/views/vms", url.Values{"name": {"Prod <1>"}, "query": {query + "&after=x&tree=vms"}}).requireStatus(t, http.StatusSeeOther)
	if to := a.header.Get("Location"); to != "/vms?"+query {
		t.Errorf("saving a view redirects to %s", to)
	}
	a = b.get(menu).requireStatus(t, http.StatusOK)
	a.contains(t, `href="/vms?filter=label%3Aenv%3Dprod&amp;sort=-name" aria-current="true">Prod &lt;1&gt;</a>`)
	a.excludes(t, "after=x")
	b.get("/views/vms").requireStatus(t, http.StatusOK).excludes(t, "aria-current=\"true\">Prod")

	// With JavaScript, the response to saving a view is the updated menu.
	a = b.post("/views/vms", url.Values{"name": {"My own"}, "query": {""}}, htmxFormHeaders("")...).requireStatus(t, http.StatusOK)
	a.contains(t, `href="/vms" aria-current="true">My own</a>`, "Prod &lt;1&gt;", `id="view-name"`)
	a.excludes(t, "<html")
	b.get("/views/vms", "HX-Request", "true").requireStatus(t, http.StatusOK).excludes(t, "<html", "autofocus")

	// The page of a list does not load the saved views.
	b.get("/vms?"+query).requireStatus(t, http.StatusOK).excludes(t, "Prod &lt;1&gt;", ">My own<")
	b.get("/views/hosts").requireStatus(t, http.StatusOK).contains(t, "No saved views yet")
	p.newSignedInBrowser("otto", fleet.RoleAdmin).get("/views/vms").requireStatus(t, http.StatusOK).contains(t, "No saved views yet")

	remove := regexp.MustCompile(`action="(/views/vms/[0-9a-f-]+/delete)"`).FindStringSubmatch(b.get("/views/vms").body)
	if remove == nil {
		t.Fatal("the menu has no form to delete a view")
	}
	b.post(remove[1], url.Values{"query": {"tab=all&x=y"}}, htmxFormHeaders("")...).requireStatus(t, http.StatusOK).excludes(t, ">My own<")
	b.post(remove[1], url.Values{}).requireStatus(t, http.StatusNotFound)
	remove = regexp.MustCompile(`action="(/views/vms/[0-9a-f-]+/delete)"`).FindStringSubmatch(b.get("/views/vms").body)
	if to := b.post(remove[1], url.Values{"query": {"tab=attention&x=y"}}).requireStatus(t, http.StatusSeeOther).header.Get("Location"); to != "/vms?tab=attention" {
		t.Errorf("deleting the last view redirects to %s", to)
	}
}

func TestInvalidSavedViewsRefused(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleNone) // saved views need no role
	a := b.post("/views/vms", url.Values{"name": {" "}, "query": {"sort=-name"}}, htmxFormHeaders("")...).requireStatus(t, http.StatusUnprocessableEntity)
	a.contains(t, "Give the view a name.", `value="sort=-name"`, "autofocus")
	a.excludes(t, "<html")
	long := strings.Repeat("n", 61)
	b.post("/views/vms", url.Values{"name": {long}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "<html", "at most 60 characters", `value="`+long+`"`)
	b.post("/views/vms", url.Values{"name": {"n"}, "query": {"filter=" + strings.Repeat("x", 2000)}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "cannot be saved")
	p.execSQL("INSERT INTO saved_views (id, user_id, list, name, query) SELECT n::text, 'mara', 'vms', n::text, '' FROM generate_series(1, 50) n")
	b.post("/views/vms", url.Values{"name": {"n"}}).requireStatus(t, http.StatusConflict).contains(t, "50 views of this list already")
	b.post("/views/vms", url.Values{"name": {"n"}}, htmxFormHeaders("")...).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "50 views of this list already")
	b.post("/views/users", url.Values{"name": {"n"}}).requireStatus(t, http.StatusNotFound)
	b.get("/views/users").requireStatus(t, http.StatusNotFound)
	b.post("/views/vms/x/delete", url.Values{}).requireStatus(t, http.StatusNotFound)
	// without a session, the request is redirected to the sign-in page
	p.newBrowser().post("/views/vms", url.Values{"name": {"n"}}).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows("saved_views"); n != 50 {
		t.Errorf("%d views", n)
	}
}
