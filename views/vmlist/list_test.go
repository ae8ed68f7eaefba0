package vmlist

import (
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

func TestVMListTabsKeepFilterButNotPageCursor(t *testing.T) {
	t.Parallel()
	hrefs := func(tabs []kit.Tab) (all, here []string) {
		for _, tab := range tabs {
			all = append(all, tab.Href)
			if tab.Here {
				here = append(here, tab.Text)
			}
		}
		return all, here
	}
	var vms ListPage
	vms.Link = kit.Link{Path: "/vms", Query: url.Values{"filter": {"web"}, "after": {"x"}, "tab": {"restart"}}}
	vms.Tab, vms.Actor = "restart", fleet.SystemActor
	all, here := hrefs(vms.tabs())
	want := []string{"/vms?filter=web", "/vms?filter=web&tab=attention", "/vms?filter=web&tab=restart", "/vms?tab=found", "/customizations", "/recycle-bin", "/flavors", "/device-classes", "/console-sessions"} // unmanaged VMs have another filter language
	if !cmp.Equal(here, []string{"Needs restart"}) || !cmp.Equal(all, want) {
		t.Errorf("here %v, %v", here, all)
	}
	vms.Actor = fleet.Actor{}
	if all, _ := hrefs(vms.tabs()); slices.Contains(all, "/vms?tab=found") {
		t.Errorf("a user who sees no hosts has the tab of unmanaged VMs: %v", all)
	}
}
