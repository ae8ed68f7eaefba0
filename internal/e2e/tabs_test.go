//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"quantix/internal/fleet"
)

// TestTenTabsReceiveLiveUpdates opens ten pages in one browser. All of them must get live updates, although browsers
// allow only six connections to a plain HTTP server.
func TestTenTabsReceiveLiveUpdates(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	vm := findByName[fleet.VMView](t, s.api(), "vms", "desk-01")
	tabs := []*tab{newTab(t, s.URL)}
	tabs[0].signIn(s)
	for len(tabs) < 10 {
		tabs = append(tabs, tabs[0].sameBrowserTab())
	}
	for _, p := range tabs {
		p.withoutPolls()
		p.open("/vms/" + string(vm.ID))
		p.waitText("h1", "desk-01")
		p.markDocument()
	}
	shown := func(n int) {
		label := fmt.Sprintf("round=%d", n)
		path := "/api/v1/vms/" + string(vm.ID)
		requestJSON[fleet.VMView](t, s.api(), http.StatusOK, http.MethodPatch, path, map[string]any{"labels": map[string]string{"round": strconv.Itoa(n)}})
		for i, p := range tabs {
			p.waitText(".head", label)
			if i == len(tabs)-1 {
				p.checkNotReloaded()
			}
			p.checkPollsOff()
		}
	}
	shown(1)
	shown(2)
	tabs[9].click(".head nav.tabs a", "Events")
	tabs[9].waitText("main", "Audit log")
}
