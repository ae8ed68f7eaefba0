//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// TestTenTabs: a browser allows six connections to a plain HTTP server. Ten pages of one person must all stay live.
func TestTenTabs(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	vm := one[fleet.VMView](t, s.api(), "vms", "desk-01")
	tabs := []*tab{newTab(t, s.URL)}
	tabs[0].signIn(s)
	for len(tabs) < 10 {
		tabs = append(tabs, tabs[0].another())
	}
	for _, p := range tabs {
		p.open("/vms/" + string(vm.ID))
		p.waitText("h1", "desk-01")
		p.mark()
	}
	// The first change may still be fetched by a page's slow poll; the second must come by the stream.
	shown := func(n int, limit time.Duration) {
		label := fmt.Sprintf("round=%d", n)
		path := "/api/v1/vms/" + string(vm.ID)
		ask[fleet.VMView](t, s.api(), http.StatusOK, http.MethodPatch, path, map[string]any{"labels": map[string]string{"round": strconv.Itoa(n)}})
		for i, p := range tabs {
			p.waitWithin(limit, ".head", label)
			if i == len(tabs)-1 {
				p.sameDocument()
			}
		}
	}
	shown(1, time.Minute)
	shown(2, 10*time.Second)
	tabs[9].click(".head nav.tabs a", "Events")
	tabs[9].waitText("main", "What people did")
}
