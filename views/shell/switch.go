package shell

import (
	"net/url"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// ProjectSwitcher is the choice of the project filter.
type ProjectSwitcher struct {
	Back     kit.Link        // current list, if the list has a project filter
	Project  fleet.ProjectID // current project filter; empty: all
	Text     string          // typed part of a project's name
	Recent   []fleet.Project // projects that the person has used last, the newest first; only without Text
	Projects []fleet.Project // the first matching projects
	More     bool            // more projects match
	AllShown bool            // so few projects in total that a search box is not needed
}

// MaxProjectsShown is how many projects the switcher shows at once.
const MaxProjectsShown = 50

// switcherPath is the address of the switcher itself.
func (s ProjectSwitcher) switcherPath() string {
	l := kit.Link{Path: "/projects/switch", Query: url.Values{}}
	if s.Back.Path != "" {
		l = l.With("back", s.Back.String())
	}
	return l.With("project", string(s.Project)).String()
}

// projectPath is the address of the current list filtered by project, or else of the project's VMs.
func (s ProjectSwitcher) projectPath(id fleet.ProjectID) string {
	l := s.Back
	if l.Path == "" {
		l = kit.Link{Path: "/vms", Query: url.Values{}}
	}
	return l.With("project", string(id)).FirstPage().String()
}

func (f PageLayout) projectSwitcher() ProjectSwitcher {
	s := ProjectSwitcher{Project: f.Project}
	if HasProjectFilter(f.Path) {
		s.Back = kit.Link{Path: f.Path, Query: f.Query}
	}
	return s
}
