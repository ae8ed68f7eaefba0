package home

import (
	"strings"

	"quantix/internal/fleet"
	"quantix/static/docs"
	"quantix/views"
)

// SearchPage is what a text was found in.
type SearchPage struct {
	Text  string
	Found []fleet.Found
	Help  []docs.Hit // sections of the manual
}

func (p SearchPage) empty() bool { return len(p.Found) == 0 && len(p.Help) == 0 }

func helpPath(h docs.Hit) string { return views.HelpPath(h.Chapter.Name, h.Section.Anchor) }

// searchGroups are what is searched, in the order of the page.
var searchGroups = []fleet.Thing{
	fleet.NounVM.Is(), fleet.NounFound.Is(), fleet.NounHost.Is(), fleet.NounPool.Is(), fleet.NounNetwork.Is(), fleet.NounImage.Is(), fleet.NounTemplate.Is(), fleet.NounProject.Is(),
}

func (p SearchPage) of(kind string) []fleet.Found {
	var out []fleet.Found
	for _, f := range p.Found {
		if f.Kind == kind {
			out = append(out, f)
		}
	}
	return out
}

func foundLink(f fleet.Found) string {
	switch t, _ := fleet.Worded(f.Kind); t.Key {
	case fleet.NounFound:
		host, id, _ := strings.Cut(f.ID, "/")
		return views.FoundPath(fleet.HostID(host), fleet.VMID(id))
	case fleet.NounProject:
		return views.CutPath(fleet.NounVM, fleet.ProjectID(f.ID))
	default:
		return t.At(f.ID)
	}
}

// Completion is one way to go on with a filter.
type Completion struct{ Value, Hint string }
