package views

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
)

func TestALinkChangesOneValueAtATime(t *testing.T) {
	t.Parallel()
	l := Link{"/vms", url.Values{"filter": {"phase:running label:env=prod"}, "after": {"x"}}}
	for name, c := range map[string]struct {
		got  Link
		want string
	}{
		"more":       {l.With("sort", "-name"), "/vms?after=x&filter=phase%3Arunning+label%3Aenv%3Dprod&sort=-name"},
		"other":      {l.With("after", "y"), "/vms?after=y&filter=phase%3Arunning+label%3Aenv%3Dprod"},
		"less":       {l.With("filter", ""), "/vms?after=x"},
		"none":       {l.Without("filter", "after", "sort"), "/vms"},
		"other path": {l.Without("filter").At("/tasks"), "/tasks?after=x"},
		"no query":   {Link{Path: "/vms"}.With("tab", "found"), "/vms?tab=found"},
		"still l":    {l, "/vms?after=x&filter=phase%3Arunning+label%3Aenv%3Dprod"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
	if got := l.With("sort", "name").names("after"); !cmp.Equal(got, []string{"filter", "sort"}) {
		t.Errorf("names %v", got)
	}
}

func TestTheProjectPickerStaysOnTheList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, query, project, want string }{
		{"/vms", "filter=web&after=x", "1", "/vms?filter=web&project=1"},
		{"/tasks", "project=1", "", "/tasks"},
		{"/hosts/7", "tab=pools", "1", "/vms?project=1"}, // no list of projects' things: its query means nothing elsewhere
		{"/", "", "", "/vms"},
	} {
		query, _ := url.ParseQuery(c.query)
		f := Frame{Path: c.path, Query: query}
		if got := f.switcher().to(fleet.ProjectID(c.project)); got != c.want {
			t.Errorf("from %s?%s: %s, not %s", c.path, c.query, got, c.want)
		}
	}
	for want, f := range map[string]Frame{"All projects": {}, "shop": {Project: "1", ProjectName: "shop"}, "No such project": {Project: "2"}} {
		if got := f.projectName(); got != want {
			t.Errorf("project %q, want %q", got, want)
		}
	}
}

func TestTreeViewsFollowTheRights(t *testing.T) {
	t.Parallel()
	member := fleet.Actor{UserID: "mia", Projects: map[fleet.ProjectID]fleet.Role{"1": fleet.RoleMember}}
	for name, c := range map[string]struct {
		actor fleet.Actor
		want  []string
	}{
		"admin":   {fleet.Actor{UserID: "ann", Role: fleet.RoleAdmin}, []string{"hosts", "vms", "storage", "networks"}},
		"member":  {member, []string{"vms", "storage", "networks"}},
		"no role": {fleet.Actor{UserID: "bob"}, nil},
	} {
		if got := TreeViewsOf(c.actor); !cmp.Equal(got, c.want) {
			t.Errorf("%s sees %v, not %v", name, got, c.want)
		}
	}
}

func TestErrorsStandAtTheirFields(t *testing.T) {
	t.Parallel()
	e := Errors{Fields: map[string]string{"name": "Give a name."}}
	if !e.Any() || e.At("name") != "Give a name." || e.At("cpus") != "" {
		t.Errorf("%+v", e)
	}
	if !(Errors{Form: "Not possible."}).Any() || (Errors{}).Any() {
		t.Error("a form's own error does not count, or none does")
	}
}

func TestTabsKeepTheFilterAndDropThePage(t *testing.T) {
	t.Parallel()
	var tasks TasksPage
	tasks.Link = Link{"/tasks", url.Values{"project": {"1"}, "after": {"x"}, "filter": {"who:me"}}}
	tasks.Filter.Value = "who:me"
	hrefs := func(tabs []Tab) (all, here []string) {
		for _, tab := range tabs {
			all = append(all, tab.Href)
			if tab.Here {
				here = append(here, tab.Text)
			}
		}
		return all, here
	}
	all, here := hrefs(tasks.tabs())
	want := []string{
		"/tasks?project=1", "/tasks?filter=who%3Ame&project=1", "/tasks?filter=state%3Aqueued%2Crunning&project=1", "/tasks?filter=state%3Afailed%2Cunknown&project=1",
	}
	if !cmp.Equal(here, []string{"Mine"}) || !cmp.Equal(all, want) {
		t.Errorf("here %v, %v", here, all)
	}

	var vms VMsPage
	vms.Link = Link{"/vms", url.Values{"filter": {"web"}, "after": {"x"}, "tab": {"restart"}}}
	vms.Tab = "restart"
	all, here = hrefs(vms.tabs())
	want = []string{"/vms?filter=web", "/vms?filter=web&tab=attention", "/vms?filter=web&tab=restart", "/vms?tab=found"} // what is found has another filter language
	if !cmp.Equal(here, []string{"Needs restart"}) || !cmp.Equal(all, want) {
		t.Errorf("here %v, %v", here, all)
	}
}
