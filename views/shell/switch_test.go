package shell

import (
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

func TestProjectSwitcherLinksToCurrentList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, query, project, want string }{
		{"/vms", "filter=web&after=x", "1", "/vms?filter=web&project=1"},
		{"/tasks", "project=1", "", "/tasks"},
		{"/hosts/7", "tab=pools", "1", "/vms?project=1"}, // not a list by project: its query has no meaning in /vms
		{"/", "", "", "/vms"},
	} {
		query, _ := url.ParseQuery(c.query)
		f := PageLayout{Path: c.path, Query: query}
		if got := f.projectSwitcher().projectPath(fleet.ProjectID(c.project)); got != c.want {
			t.Errorf("from %s?%s: %s, not %s", c.path, c.query, got, c.want)
		}
	}
	for want, f := range map[string]PageLayout{"All projects": {}, "shop": {Project: "1", ProjectName: "shop"}, "No such project": {Project: "2"}} {
		if got := f.projectName(); got != want {
			t.Errorf("project %q, want %q", got, want)
		}
	}
}
