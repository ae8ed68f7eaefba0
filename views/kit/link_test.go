package kit

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLinkChangesOnlyNamedQueryParameters(t *testing.T) {
	t.Parallel()
	l := Link{"/vms", url.Values{"filter": {"state:running label:env=prod"}, "after": {"x"}}}
	for name, c := range map[string]struct {
		got  Link
		want string
	}{
		"more":       {l.With("sort", "-name"), "/vms?after=x&filter=state%3Arunning+label%3Aenv%3Dprod&sort=-name"},
		"other":      {l.With("after", "y"), "/vms?after=y&filter=state%3Arunning+label%3Aenv%3Dprod"},
		"less":       {l.With("filter", ""), "/vms?after=x"},
		"none":       {l.Without("filter", "after", "sort"), "/vms"},
		"other path": {l.Without("filter").WithPath("/tasks"), "/tasks?after=x"},
		"no query":   {Link{Path: "/vms"}.With("tab", "found"), "/vms?tab=found"},
		"still l":    {l, "/vms?after=x&filter=state%3Arunning+label%3Aenv%3Dprod"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
	if got := l.With("sort", "name").QueryNames("after"); !cmp.Equal(got, []string{"filter", "sort"}) {
		t.Errorf("names %v", got)
	}
}
