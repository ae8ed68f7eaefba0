package home

import (
	"strings"

	"quantix/internal/fleet"
	"quantix/static/docs"
	"quantix/views"
)

// SearchPage shows the hits of a search.
type SearchPage struct {
	Text  string
	Found []fleet.SearchHit
	Help  []docs.Hit // sections of the manual
}

func (p SearchPage) empty() bool { return len(p.Found) == 0 && len(p.Help) == 0 }

func helpPath(h docs.Hit) string { return views.HelpPath(h.Chapter.Name, h.Section.Anchor) }

// searchGroups are the searched resource types, in the order of the page.
var searchGroups = []fleet.Resource{
	fleet.TypeVM.Is(), fleet.TypeDiscovered.Is(), fleet.TypeHost.Is(), fleet.TypePool.Is(), fleet.TypeNetwork.Is(), fleet.TypeImage.Is(), fleet.TypeTemplate.Is(), fleet.TypeProject.Is(),
}

func (p SearchPage) of(kind string) []fleet.SearchHit {
	var out []fleet.SearchHit
	for _, f := range p.Found {
		if f.Kind == kind {
			out = append(out, f)
		}
	}
	return out
}

func foundLink(f fleet.SearchHit) string {
	switch t, _ := fleet.Worded(f.Kind); t.Key {
	case fleet.TypeDiscovered:
		host, id, _ := strings.Cut(f.ID, "/")
		return views.FoundPath(fleet.HostID(host), fleet.VMID(id))
	case fleet.TypeProject:
		return views.CutPath(fleet.TypeVM, fleet.ProjectID(f.ID))
	default:
		return t.At(f.ID)
	}
}

// Completion is one suggestion that completes a filter.
type Completion struct{ Value, Hint string }
