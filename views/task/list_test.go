package task

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/views/kit"
)

func TestTaskListTabsKeepProjectButNotPageCursor(t *testing.T) {
	t.Parallel()
	var tasks ListPage
	tasks.Link = kit.Link{Path: "/tasks", Query: url.Values{"project": {"1"}, "after": {"x"}, "filter": {"who:me"}}}
	tasks.Filter.Value = "who:me"
	hrefs := func(tabs []kit.Tab) (all, here []string) {
		for _, tab := range tabs {
			all = append(all, tab.Href)
			if tab.Here {
				here = append(here, tab.Text)
			}
		}
		return all, here
	}
	all, here := hrefs(tasks.tabs())
	want := []string{
		"/tasks?project=1", "/tasks?filter=who%3Ame&project=1", "/tasks?filter=state%3Aqueued%2Crunning&project=1", "/tasks?filter=state%3Afailed%2Cunknown&project=1",
	}
	if !cmp.Equal(here, []string{"Mine"}) || !cmp.Equal(all, want) {
		t.Errorf("here %v, %v", here, all)
	}
}
