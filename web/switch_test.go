package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestProjectSwitcherLinksToFilteredLists(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	shop, finance := p.addProject("shop"), p.addProject("finance")
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)

	list := b.get("/projects/switch?back=%2Ftasks%3Ffilter%3Dstate%3Adone%26after%3Dx&project="+string(shop), "HX-Request", "true").requireStatus(t, http.StatusOK)
	list.contains(t, "All projects", `href="/tasks?filter=state%3Adone"`, `href="/tasks?filter=state%3Adone&amp;project=`+string(finance)+`"`,
		`project=`+string(shop)+`" aria-current="true"`)
	list.excludes(t, "<html", "Part of the name")
	if n := strings.Count(list.body, "aria-current"); n != 1 {
		t.Errorf("%d projects are marked as current, want 1", n)
	}

	// Without JavaScript, the project menu is a page. If back is not the address of a list with a project filter, the
	// page's links lead to the list of VMs.
	for _, back := range []string{"", "/hosts", "https://elsewhere.example/vms", "//elsewhere.example/vms"} {
		a := b.get("/projects/switch?back="+back).requireStatus(t, http.StatusOK)
		a.contains(t, "<html", `href="/vms?project=`+string(shop)+`"`)
		if strings.Contains(a.pageContent(), "elsewhere") {
			t.Errorf("the page links back to %s", back)
		}
	}
	b.get("/vms?sort=-name&project="+string(shop)).requireStatus(t, http.StatusOK).contains(t, `aria-label="Project: shop"`,
		`href="/projects/switch?back=%2Fvms%3Fproject%3D`+string(shop)+`%26sort%3D-name&amp;project=`+string(shop)+`"`)
	b.get("/projects/"+string(finance)).requireStatus(t, http.StatusOK).contains(t, `aria-label="Project: finance"`)
	b.get("/hosts").requireStatus(t, http.StatusOK).contains(t, `aria-label="Project: All projects"`, `href="/projects/switch"`)

	// For a project that the user may not see, the response is the same as for a missing project.
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'viewer')", shop)
	for _, id := range []string{string(finance), string(fleet.NewID[fleet.ProjectID]())} {
		tom.get("/vms?project="+id).requireStatus(t, http.StatusOK).contains(t, `aria-label="Project: No such project"`)
	}
	tom.get("/projects/switch").requireStatus(t, http.StatusOK).excludes(t, "finance")
}

func TestProjectSwitcherSearchesManyProjects(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	for i := range 120 {
		p.addProject(fmt.Sprintf("team-%03d", i))
	}
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.get("/projects/switch?back=/vms").requireStatus(t, http.StatusOK)
	a.contains(t, "Part of the name", "team-049", "There are more")
	if strings.Contains(a.pageContent(), "team-050") {
		t.Error("the list shows more than 50 projects")
	}
	a = b.getFragment("/projects/switch?back=/vms&q=M-11", "switch-links").requireStatus(t, http.StatusOK)
	a.contains(t, "team-110", "team-119")
	a.excludes(t, "<form", "team-011", "All projects")
	b.get("/projects/switch?q=nothing").requireStatus(t, http.StatusOK).contains(t, "No project is called “nothing”.", `value="nothing"`)
}

// With thousands of projects, a page must not load all projects.
func TestPagesDoNotLoadAllProjects(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	p.addProject("shop")
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	p.execSQL("ALTER TABLE projects RENAME COLUMN name TO oops")
	b.get("/pools").requireStatus(t, http.StatusOK)
	b.get("/projects/switch").requireStatus(t, http.StatusInternalServerError)
}
