package home

import (
	"testing"

	"quantix/internal/fleet"
)

func TestSearchHitsLinkToObjectPages(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		searchHitPath(fleet.SearchHit{Kind: "found", ID: "2/1"}): "/hosts/2/found/1",
		searchHitPath(fleet.SearchHit{Kind: "project", ID: "5"}): "/vms?project=5",
		searchHitPath(fleet.SearchHit{Kind: "network", ID: "4"}): "/networks/4",
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
