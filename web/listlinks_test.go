package web_test

import (
	"html"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"quantix/internal/fleet"
)

var listToolbarLinks = regexp.MustCompile(`href="(/[^"]+\.csv[^"]*)"|hx-get="(/views/[^"]+)"|href="(/views/[^"]+)"`)

// The links above each list work: CSV export, saved views (as menu and as page), and the completion of filters.
func TestListToolbarLinksReturnStatusOK(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("ann", fleet.RoleAdmin)
	for _, list := range []string{"vms", "hosts", "pools", "networks", "security-groups", "images", "tasks"} {
		page := b.get("/"+list).requireStatus(t, http.StatusOK)
		var links []string
		for _, m := range listToolbarLinks.FindAllStringSubmatch(page.body, -1) {
			links = append(links, html.UnescapeString(m[1]+m[2]+m[3]))
		}
		if len(links) < 2 {
			t.Errorf("/%s has only the links %q above the list", list, links)
		}
		for _, link := range slices.Compact(slices.Sorted(slices.Values(links))) {
			b.get(link).requireStatus(t, http.StatusOK).excludes(t, `<a href="/`+list+`"></a>`)
		}
		b.get("/complete?noun="+list+"&q=na").requireStatus(t, http.StatusOK)
		if list != "tasks" {
			b.get("/complete?noun="+list+"&q=na").contains(t, "name:")
		}
	}
}
