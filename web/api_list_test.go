package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
)

func TestAPIListsCanBePagedFilteredAndSorted(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	shop, lab := p.addProject("shop"), p.addProject("lab")
	host := p.addHost("h1", 0)
	for _, name := range []string{"web-1", "web-2", "web-3", "db-1"} {
		p.addVM(shop, host, name, fleet.Running)
	}
	p.addVM(lab, host, "web-9", fleet.Running)
	member := p.newAPIClient("mia", "", map[fleet.ProjectID]fleet.Role{shop: fleet.RoleMember})
	vms, err := client.AllPages(t.Context(), fleet.Query{Filter: "name:web*", Sort: "-name", Limit: 2}, member.VMs)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, vm := range vms {
		names = append(names, vm.Name)
	}
	if want := []string{"web-3", "web-2", "web-1"}; !cmp.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	// The list of VMs has several pages: read the last page, then go back to the first.
	first, err := member.VMs(t.Context(), fleet.Query{Limit: 3})
	if err != nil || len(first.Items) != 3 || first.Prev != "" {
		t.Fatalf("%+v, %v", first, err)
	}
	last, err := member.VMs(t.Context(), fleet.Query{Limit: 3, After: first.Next})
	if err != nil || len(last.Items) != 1 || last.Prev == "" {
		t.Fatalf("%+v, %v", last, err)
	}
	if again, err := member.VMs(t.Context(), fleet.Query{Limit: 3, Before: last.Prev}); err != nil || !cmp.Equal(again.Items, first.Items) || again.Prev != "" || again.Next != first.Next {
		t.Errorf("%+v, %v", again, err)
	}
	if a := member.call("GET", "/api/v1/vms?filter=name:none", "").requireStatus(t, 200); strings.TrimSpace(a.body) != `{"items":[],"next":""}` {
		t.Errorf("an empty list is encoded as %s", a.body)
	}
	projects, err := member.Projects(t.Context(), fleet.Query{})
	if err != nil || len(projects.Items) != 1 || projects.Items[0].Name != "shop" {
		t.Errorf("%+v, %v", projects, err)
	}
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	users, err := client.AllPages(t.Context(), fleet.Query{Sort: "-name", Limit: 1}, admin.Users)
	if err != nil || len(users) != 2 || users[0].Name != "mia" {
		t.Errorf("%+v, %v", users, err)
	}
	for _, name := range []string{"bob", "cyd", "eve"} { // ann, bob, cyd, eve, mia
		p.addUser(name, fleet.RoleViewer)
	}
	names = nil
	q, back := fleet.Query{Limit: 2}, false
	for {
		page, err := admin.Users(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range page.Items {
			names = append(names, u.Name)
		}
		if back = back || page.Next == ""; back && page.Prev == "" {
			break
		}
		if q.After, q.Before = page.Next, ""; back {
			q.After, q.Before = "", page.Prev
		}
	}
	if want := []string{"ann", "bob", "cyd", "eve", "mia", "cyd", "eve", "ann", "bob"}; !cmp.Equal(names, want) {
		t.Errorf("the pages of users forward and back: %v, want %v", names, want)
	}
	if a := admin.call("GET", "/api/v1/users?after=ann&before=mia", ""); a.status != http.StatusBadRequest {
		t.Errorf("after and before together: status %d", a.status)
	}
	if users, err := admin.Users(t.Context(), fleet.Query{Filter: "role:admin -name:mia"}); err != nil || len(users.Items) != 1 {
		t.Errorf("%+v, %v", users, err)
	}
}
