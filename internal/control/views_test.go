package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func (h *identityFixture) viewList(a fleet.Actor, list string) string {
	h.t.Helper()
	views, err := h.ListViews(h.t.Context(), a, list)
	if err != nil {
		h.t.Fatal(err)
	}
	rows := make([]string, len(views))
	for i, v := range views {
		rows[i] = v.Name + "?" + v.Query
	}
	return strings.Join(rows, " ")
}

func TestSavedViewStoresOnlyListParameters(t *testing.T) {
	h := newIdentityFixture(t)
	for _, c := range []struct{ list, query, want string }{
		{"vms", "tab=attention&filter=label%3Aenv%3Dprod&sort=-name&columns=state,host&project=p&limit=10", "columns=state%2Chost&filter=label%3Aenv%3Dprod&limit=10&project=p&sort=-name&tab=attention"},
		{"vms", "after=x&before=y&tree=hosts&dock=all&group=env&filter=&onclick=z", ""},
		{"hosts", "tab=attention&project=p&filter=a&filter=b", "filter=a&tab=attention"},
		{"pools", "tab=attention&sort=name", "sort=name"},
		{"networks", "columns=kind", "columns=kind"},
		{"tasks", "filter=who:me&project=p", "filter=who%3Ame&project=p"},
	} {
		v, err := h.SaveView(t.Context(), chief, c.list, "  Mine ", c.query)
		if err != nil || v.Name != "Mine" || v.List != c.list || v.Query != c.want {
			t.Errorf("%s?%s is kept as %+v: %v", c.list, c.query, v, err)
		}
	}
	h.wantLastAuditAction("view.save")
	if got := h.viewList(chief, "networks"); got != "Mine?columns=kind" {
		t.Errorf("the views of networks: %s", got)
	}
}

func TestSavedViewNameIsUnique(t *testing.T) {
	h := newIdentityFixture(t)
	ann := h.addUser("ann", fleet.RoleViewer)
	save := func(a fleet.Actor, name, query string) fleet.SavedView {
		t.Helper()
		v, err := h.SaveView(t.Context(), a, "vms", name, query)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	old := save(chief, "b", "filter=x")
	save(chief, "A", "")
	save(ann, "b", "filter=hers")
	if v := save(chief, "b", "filter=y"); v.ID != old.ID {
		t.Error("the same name makes another view")
	}
	if got := h.viewList(chief, "vms"); got != "A? b?filter=y" {
		t.Errorf("the chief's views: %s", got)
	}
	_, err := h.DeleteView(t.Context(), ann, old.ID)
	wantCode(t, err, fleet.NotFound)
	if v, err := h.DeleteView(t.Context(), chief, old.ID); err != nil || v.List != "vms" || v.Name != "b" {
		t.Errorf("%+v %v", v, err)
	}
	h.wantLastAuditAction("view.delete")
	_, err = h.DeleteView(t.Context(), chief, old.ID)
	wantCode(t, err, fleet.NotFound)
	if chiefs, anns := h.viewList(chief, "vms"), h.viewList(ann, "vms"); chiefs != "A?" || anns != "b?filter=hers" {
		t.Errorf("left are %s and %s", chiefs, anns)
	}
	h.execSQL("DELETE FROM users WHERE id = 'ann'")
	if n := h.countRowsOf("saved_views"); n != 1 {
		t.Errorf("%d views are left", n)
	}
}

func TestSavedViewsAreCheckedAndLimited(t *testing.T) {
	h := newIdentityFixture(t)
	for _, name := range []string{"", " ", "two\nlines", strings.Repeat("ü", 61), "\xff"} {
		_, err := h.SaveView(t.Context(), chief, "vms", name, "")
		wantField(t, err, "name")
	}
	_, err := h.SaveView(t.Context(), chief, "vms", "long", "filter="+strings.Repeat("x", 2000))
	wantField(t, err, "query")
	_, err = h.SaveView(t.Context(), chief, "vms", "n", "filter=%zz")
	wantCode(t, err, fleet.Malformed)
	for _, list := range []string{"", "users", "vms/"} {
		_, err := h.SaveView(t.Context(), chief, list, "n", "")
		wantCode(t, err, fleet.NotFound)
		_, err = h.ListViews(t.Context(), chief, list)
		wantCode(t, err, fleet.NotFound)
	}
	_, err = h.SaveView(t.Context(), fleet.SystemActor, "vms", "n", "")
	wantCode(t, err, fleet.Forbidden)
	if n := h.countRowsOf("saved_views"); n != 0 {
		t.Fatalf("a refusal kept %d views", n)
	}
	if _, err := h.SaveView(t.Context(), chief, "vms", strings.Repeat("ü", 60), "filter="+strings.Repeat("x", 1993)); err != nil {
		t.Errorf("as long as can be: %v", err)
	}
	// Concurrent requests do not exceed the limit of saved views.
	h.execSQL("INSERT INTO saved_views (id, user_id, list, name, query) SELECT n::text, 'chief', 'vms', n::text, '' FROM generate_series(1, 47) n")
	codes := runConcurrently(5, func(i int) error {
		_, err := h.SaveView(t.Context(), chief, "vms", fmt.Sprint("new ", i), "")
		return err
	})
	if n := countCodes(codes); n[""] != 2 || n[fleet.Conflict] != 3 {
		t.Errorf("48 and 5 more: %v", codes)
	}
	if _, err := h.SaveView(t.Context(), chief, "vms", "7", "filter=z"); err != nil {
		t.Errorf("a full list takes no change: %v", err)
	}
	if _, err := h.SaveView(t.Context(), chief, "hosts", "n", ""); err != nil {
		t.Errorf("another list is full too: %v", err)
	}
}
