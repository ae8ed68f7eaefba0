package home

import (
	"strings"

	"quantix/internal/fleet"
	"quantix/static/docs"
	"quantix/views"
)

// SearchPage shows the hits of a search.
type SearchPage struct {
	Text string
	Hits []fleet.SearchHit
	Help []docs.Hit // sections of the manual
}

func (p SearchPage) empty() bool { return len(p.Hits) == 0 && len(p.Help) == 0 }

func helpPath(h docs.Hit) string { return views.HelpPath(h.Chapter.Name, h.Section.Anchor) }

// searchGroups are the searched resource types, in the order of the page.
var searchGroups = []fleet.Resource{
	fleet.TypeVM.Info(), fleet.TypeDiscovered.Info(), fleet.TypeHost.Info(), fleet.TypePool.Info(), fleet.TypeNetwork.Info(), fleet.TypeImage.Info(), fleet.TypeTemplate.Info(), fleet.TypeProject.Info(),
}

func (p SearchPage) hitsOf(kind string) []fleet.SearchHit {
	var out []fleet.SearchHit
	for _, f := range p.Hits {
		if f.Kind == kind {
			out = append(out, f)
		}
	}
	return out
}

func searchHitPath(f fleet.SearchHit) string {
	switch t, _ := fleet.ResourceByLabel(f.Kind); t.Key {
	case fleet.TypeDiscovered:
		host, id, _ := strings.Cut(f.ID, "/")
		return views.DiscoveredVMPath(fleet.HostID(host), fleet.VMID(id))
	case fleet.TypeProject:
		return views.ProjectListPath(fleet.TypeVM, fleet.ProjectID(f.ID))
	default:
		return t.PagePath(f.ID)
	}
}

// FilterCompletion is one suggestion that completes a filter.
type FilterCompletion struct{ Value, Hint string }
