//go:build linux

package e2e

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"quantix/internal/testkit/tier"
)

// pageShot is a page to capture. act brings the page into the state for the screenshot; nil: nothing to do.
type pageShot struct {
	name, path string
	act        func(p *tab)
}

// fragments are routes of parts of pages, or of their data, which are captured together with their pages.
var fragments = []string{
	"/vms/:id/metrics", "/hosts/:id/metrics", "/pools/:id/metrics", "/hosts/metrics", "/clusters/:id/metrics",
	"/search/suggest", "/complete", "/tree/:view/:node", "/menus/vm/:id", "/menus/found/:host/:id", "/menus/host/:id", "/menus/cluster/:id", "/menus/pool/:id", "/menus/network/:id", "/menus/image/:id", "/menus/template/:id", "/menus/recycled/:id", "/menus/console/:id",
	"/tasks/recent", "/tasks/running", "/choices/:noun", "/hosts/labelled",
}

// TestScreenshots captures every page in both themes, on a desktop and on a phone, and checks each page with axe-core.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		s := demoProgram.get(t)
		shots := append(demoShots(t, s.api()), s.api().healthShots(t)...)
		checkEveryRoute(t, shots)
		all := len(shots)
		shots = tierShots(shots)
		t.Logf("%d of %d shots", len(shots), all)
		// Two tabs capture half of the shots each, because the machine has at least two cores.
		for half := range 2 {
			t.Run([]string{"even", "odd"}[half], func(t *testing.T) {
				t.Parallel()
				p := newTab(t, s.URL)
				p.signIn(s)
				for i, shot := range shots {
					if i%2 == half {
						p.captureShot(shot)
					}
				}
			})
		}
	})
	t.Run("signed out", func(t *testing.T) {
		t.Parallel()
		p := newTab(t, demoProgram.get(t).URL)
		p.captureShot(pageShot{"sign-in", "/sign-in", nil})
		p.captureShot(pageShot{"help-stranger", "/help/virtual-machines", nil})
		p.allowFaults("401", "422", "403")
		p.captureShot(pageShot{"sign-in-refused", "/sign-in", func(p *tab) {
			p.enterCredentials("admin", "not the password")
			p.waitText(".note.bad", " ")
		}})
	})
	if !tier.Ordeal {
		return
	}
	t.Run("tenants", captureTenantPages)
	t.Run("empty fleet", captureEmptyFleet)
	t.Run("VM with faults", captureTroubledVM)
	t.Run("VM on two hosts", captureSplitVM)
	t.Run("refused dialog", checkRefusedDialog)
	t.Run("half-drained host", captureHalfDrainedHost)
	t.Run("upgrade of agents", captureUpgrade)
}

// tierShots returns the shots for the current tier. The gate takes only the first shot of each page and tab.
func tierShots(shots []pageShot) (taken []pageShot) {
	if tier.Ordeal || os.Getenv(picturesVariable) != "" {
		return shots
	}
	seen := map[string]bool{}
	for _, s := range shots {
		page, query, _ := strings.Cut(s.path, "?")
		if values, err := url.ParseQuery(query); err == nil && values.Get("tab") != "" {
			page += "?tab=" + values.Get("tab")
		}
		if !seen[page] {
			seen[page] = true
			taken = append(taken, s)
		}
	}
	return taken
}
