//go:build linux && ordeal

package e2e

import (
	"testing"
	"time"
)

// TestPageReportsUnreachablePortal kills the portal of an open page. The page must report this within 5 s and show
// states as unknown after 30 s. Once the portal runs again, the page must follow a link that was clicked in the
// meantime.
func TestPageReportsUnreachablePortal(t *testing.T) {
	t.Parallel()
	name := uniqueName("away")
	s := newPortal(t, name)
	s.startMockAgent("alone")
	p := newTab(t, s.url)
	p.open("/sign-in")
	p.enterCredentials("admin", s.password)
	p.waitPath("/")
	p.open("/hosts")
	p.waitText("tbody .chip", "Online")
	p.markDocument()
	p.allowFaults("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET", "htmx:sendError", "htmx:afterRequest", "Failed to load resource")
	s.kill()
	p.waitWithin(5*time.Second, "#page-bar", "The portal does not answer")
	p.waitText("tbody .chip", "Online")
	p.click("tbody th a", "alone")
	p.waitText("#page-bar", "“alone” goes on by itself")
	p.waitWithin(35*time.Second, "tbody .chip", "Unknown")
	p.checkNotReloaded()
	s.start(name)
	p.waitPath("/hosts/")
	p.waitText(".head", "Online")
}
