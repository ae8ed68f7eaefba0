package kit

import (
	"strings"
	"testing"

	"github.com/a-h/templ"

	"quantix/internal/testkit/rendered"
)

// TestLiveElementFragmentOmitsEnclosingElement checks that the fragment of a live part contains only the content,
// without the enclosing element.
func TestLiveElementFragmentOmitsEnclosingElement(t *testing.T) {
	t.Parallel()
	live := withChildren(LiveElement("rows", "card", "vms hosts", "/vms?tab=x&sort=name", "30s", "poke delay:6s"), StateChip("ok", "eye", "In it"))
	got := rendered.HTML(t, live)
	for _, text := range []string{
		`<div id="rows" class="card"`, `data-live="vms hosts"`, `hx-get="/vms?tab=x&amp;sort=name"`, `hx-trigger="poke, poke delay:6s, every 30s"`,
		`hx-ext="morph"`, `hx-swap="morph:innerHTML"`, "In it",
	} {
		if !strings.Contains(got, text) {
			t.Errorf("lacks %s: %s", text, got)
		}
	}
	if got := renderFragment(t, live, "rows"); !strings.HasPrefix(strings.TrimSpace(got), "<span") || !strings.Contains(got, "In it") {
		t.Errorf("the fragment is %s", got)
	}
	if got := renderFragment(t, withChildren(LiveElement("rows", "", "vms", "/", "1s"), templ.Raw("")), "rows"); got == "" {
		t.Error("an empty live part has an empty fragment")
	}
	if got := rendered.HTML(t, LiveElement("x", "", "vms", "/", "1s")); strings.Contains(got, "class") {
		t.Errorf("without a class: %s", got)
	}
}

// TestObjectHeadFragmentIncludesHeadElement checks that an update replaces the whole head of an object, so that scripts
// read the new phase from the head's attributes.
func TestObjectHeadFragmentIncludesHeadElement(t *testing.T) {
	t.Parallel()
	head := withChildren(ObjectPageHeader(PageHeader{
		Crumbs: []Breadcrumb{{"Hosts", "/hosts"}, {"here", ""}}, Icon: Icon("server"), Title: "h<1>", Actions: ActionMenu([]ActionButton{{Word: "Open"}}),
		Tabs: LinkTabs(Link{Path: "/hosts/1"}, "tab", "vms", Tab{Key: "summary", Text: "Summary"}, Tab{Key: "vms", Text: "VMs", Count: "3"}),
	}, LiveUpdates{
		ID: "host-head", Keys: "host:1", Href: "/hosts/1", Every: "10s", DeletedText: "It is gone.", DeletedHref: "/hosts", More: templ.Attributes{"data-screen": "running"},
	}), StateChip("ok", "eye", "Online"))
	if got := rendered.Text(t, head); got != "Hosts / here h<1> Online Actions Open Summary VMs 3" {
		t.Errorf("it reads %q", got)
	}
	got := renderFragment(t, head, "host-head")
	for _, text := range []string{`<div class="head" id="host-head"`, `data-gone="It is gone."`, `data-gone-href="/hosts"`, `data-screen="running"`, `hx-swap="morph:outerHTML"`, `hx-trigger="poke, every 10s"`, "Online"} {
		if !strings.Contains(got, text) {
			t.Errorf("the fragment lacks %s: %s", text, got)
		}
	}
	if got := rendered.HTML(t, ObjectPageHeader(PageHeader{Title: "x"}, LiveUpdates{ID: "y"})); strings.Contains(got, "gone") || strings.Contains(got, "<nav") || strings.Contains(got, "actions") {
		t.Errorf("a bare head has more than its title: %s", got)
	}
}
