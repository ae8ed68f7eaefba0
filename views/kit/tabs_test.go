package kit

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/testkit/rendered"
)

func TestTabLinksContainTabKey(t *testing.T) {
	t.Parallel()
	l := Link{"/tasks", url.Values{"project": {"1"}, "tab": {"b"}}}
	tabs := LinkTabs(l, "tab", "b", Tab{Key: "a", Text: "A"}, Tab{Key: "b", Text: "B", Count: "2", Severity: "bad"}, Tab{Key: "c", Text: "C", Href: "/elsewhere"})
	var hrefs []string
	for _, tab := range tabs {
		hrefs = append(hrefs, tab.Href)
		if tab.Here != (tab.Key == "b") {
			t.Errorf("%s is here: %v", tab.Text, tab.Here)
		}
	}
	if want := []string{"/tasks?project=1", "/tasks?project=1&tab=b", "/elsewhere"}; !cmp.Equal(hrefs, want) {
		t.Errorf("they lead to %v", hrefs)
	}
	if got := TabKeys(tabs); !cmp.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("keys %v", got)
	}
	bar := rendered.HTML(t, TabBar("tabs", "Views", tabs))
	if strings.Count(bar, `aria-current="page"`) != 1 || strings.Count(bar, "<span") != 1 || !strings.Contains(bar, `<span class="bad">2</span>`) {
		t.Errorf("the bar is %s", bar)
	}
}
