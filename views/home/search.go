package home

import (
	"slices"
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

// searchGroups are the resource types of hits, in the order of the page: discovered VMs follow VMs.
var searchGroups = func() []fleet.ResourceTypeInfo {
	isDiscovered := func(t fleet.ResourceTypeInfo) bool { return t.Key == fleet.TypeDiscovered }
	others := slices.DeleteFunc(fleet.ResourceTypes(), isDiscovered)
	return slices.Insert(others, 1, fleet.TypeDiscovered.Info())
}()

func (p SearchPage) hitsOfKind(kind string) []fleet.SearchHit {
	var out []fleet.SearchHit
	for _, f := range p.Hits {
		if f.Kind == kind {
			out = append(out, f)
		}
	}
	return out
}

func searchHitPath(f fleet.SearchHit) string {
	switch t, _ := fleet.ResourceTypeByLabel(f.Kind); t.Key {
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
