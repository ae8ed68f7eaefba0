package control_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

// Lists of users, projects, API tokens and join tokens page by key. With every sort, pages of two rows contain the same
// rows as one large page.
func TestIdentityListPagesHaveNoGapOrOverlap(t *testing.T) {
	h := newIdentityFixture(t)
	for i, role := range []fleet.Role{fleet.RoleViewer, fleet.RoleOperator, fleet.RoleNone, fleet.RoleNone} {
		h.addUser(fmt.Sprintf("user-%d", i), role)
		h.addProject(fmt.Sprintf("project-%d", i))
		h.createJoinToken()
		if _, err := h.CreateToken(t.Context(), chief, "same name", 0); err != nil {
			t.Fatal(err)
		}
	}
	h.execSQL("UPDATE projects SET created_at = date_trunc('day', now())") // equal ages
	h.execSQL("UPDATE join_tokens SET created_at = date_trunc('day', now())")
	h.addProject("aaa")
	for _, sort := range []string{"", "name", "-name", "created", "-created"} {
		checkPaging(t, "users", sort, h.ListUsers, func(u fleet.User) string { return string(u.ID) }, 5)
		checkPaging(t, "projects", sort, h.ListProjects, func(p fleet.Project) string { return string(p.ID) }, 5)
		checkPaging(t, "tokens", sort, h.ListTokens, func(k fleet.Token) string { return string(k.ID) }, 4)
		if !strings.HasSuffix(sort, "name") {
			checkPaging(t, "join tokens", sort, h.ListJoinTokens, func(k fleet.JoinToken) string { return string(k.ID) }, 4)
		}
	}
	projects, err := h.ListProjects(t.Context(), chief, fleet.Query{})
	if err != nil || projects.Items[0].Name != "aaa" {
		t.Errorf("projects begin with %+v, %v", projects.Items, err)
	}
	_, err = h.ListUsers(t.Context(), chief, fleet.Query{Sort: "role"})
	wantField(t, err, "sort")
	_, err = h.ListUsers(t.Context(), chief, fleet.Query{Filter: "role:chief"})
	wantField(t, err, "filter")
	_, err = h.ListTokens(t.Context(), chief, fleet.Query{After: "zzz"})
	wantCode(t, err, fleet.Malformed)
}

func checkPaging[T any](t *testing.T, name, sort string, list func(context.Context, fleet.Actor, fleet.Query) (fleet.Page[T], error), id func(T) string, want int) {
	t.Helper()
	ids := func(items []T) (all []string) {
		for _, item := range items {
			all = append(all, id(item))
		}
		return all
	}
	complete, err := query.ReadAllPages(t.Context(), chief, fleet.Query{Sort: sort}, list)
	if err != nil || len(complete) != want {
		t.Fatalf("%s by %q: %d, %v", name, sort, len(complete), err)
	}
	var got []T
	for q := (fleet.Query{Sort: sort, Limit: 2}); ; {
		page, err := list(t.Context(), chief, q)
		if err != nil || len(page.Items) > 2 {
			t.Fatalf("%s by %q: %+v, %v", name, sort, page, err)
		}
		got = append(got, page.Items...)
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if !slices.Equal(ids(got), ids(complete)) {
		t.Errorf("%s by %q: %v page by page, %v at once", name, sort, ids(got), ids(complete))
	}
}

func TestIdentityListsAreFiltered(t *testing.T) {
	h := newIdentityFixture(t)
	ann := h.addUser("ann", fleet.RoleNone)
	h.addUser("Bob", fleet.RoleOperator)
	for _, who := range []fleet.Actor{chief, ann} {
		if _, err := h.CreateToken(t.Context(), who, "CI of "+who.Name, 0); err != nil {
			t.Fatal(err)
		}
	}
	for filter, want := range map[string]string{
		"": "Bob ann chief", "role:none": "ann", "role:operator,admin": "Bob chief", "-role:none -name:chief": "Bob", "b": "Bob", "name:a*": "ann",
	} {
		users, err := query.ReadAllPages(t.Context(), chief, fleet.Query{Filter: filter}, h.ListUsers)
		names := []string{}
		for _, u := range users {
			names = append(names, u.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%q finds %q, not %q: %v", filter, got, want, err)
		}
	}
	for filter, want := range map[string]int{"": 1, "ci": 1, "name:\"CI of chief\"": 1, "ann": 0} {
		if page, err := h.ListTokens(t.Context(), chief, fleet.Query{Filter: filter}); err != nil || len(page.Items) != want {
			t.Errorf("tokens by %q: %+v, %v", filter, page.Items, err)
		}
	}
	if _, err := h.joinHost(h.createJoinToken().Secret, "node-1", ""); err != nil {
		t.Fatal(err)
	}
	h.createJoinToken()
	if page, err := h.ListJoinTokens(t.Context(), chief, fleet.Query{Filter: "node"}); err != nil || len(page.Items) != 1 || page.Items[0].UsedBy != "node-1" {
		t.Errorf("join tokens: %+v, %v", page.Items, err)
	}
}
