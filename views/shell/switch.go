package shell

import (
	"net/url"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// Switcher is the choice of the project that lists are cut to.
type Switcher struct {
	Back     kit.Link        // the list that is shown now, if it can be cut to a project
	Project  fleet.ProjectID // that it is cut to; empty: all
	Text     string          // the part of a name that was asked for
	Projects []fleet.Project // that have it
	Few      bool            // so few projects in all that nobody needs to ask for a part of a name
}

// mostChoices is how many projects the switcher shows at once.
const mostChoices = 100

func (s Switcher) shown() []fleet.Project { return s.Projects[:min(len(s.Projects), mostChoices)] }

// address is the switcher's own.
func (s Switcher) address() string {
	l := kit.Link{Path: "/projects/switch", Query: url.Values{}}
	if s.Back.Path != "" {
		l = l.With("back", s.Back.String())
	}
	return l.With("project", string(s.Project)).String()
}

// to leads to the same list cut to a project, or to its VMs.
func (s Switcher) to(id fleet.ProjectID) string {
	l := s.Back
	if l.Path == "" {
		l = kit.Link{Path: "/vms", Query: url.Values{}}
	}
	return l.With("project", string(id)).First().String()
}

func (f Frame) switcher() Switcher {
	s := Switcher{Project: f.Project}
	if CutByProject(f.Path) {
		s.Back = kit.Link{Path: f.Path, Query: f.Query}
	}
	return s
}
