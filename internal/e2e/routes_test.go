//go:build linux

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// captureEmptyFleet captures the pages of a newly installed portal, and of a portal whose only host is offline.
func captureEmptyFleet(t *testing.T) {
	t.Parallel()
	s := newPortal(t, uniqueName("empty"))
	p := newTab(t, s.url)
	p.open("/")
	p.enterCredentials("admin", s.password)
	p.waitPath("/account/password")
	p.capture("password-first")
	s.api()
	p.open("/sign-in")
	p.enterCredentials("admin", s.password)
	p.waitPath("/")
	for name, path := range map[string]string{
		"projects": "/projects", "pools-matrix": "/pools/matrix", "networks-topology": "/networks/topology", "security-groups": "/security-groups", "customizations": "/customizations",
		"dashboard": "/", "vms": "/vms", "hosts": "/hosts", "clusters": "/clusters", "pools": "/pools", "networks": "/networks", "images": "/images", "templates": "/templates", "tasks": "/tasks", "vm-new": "/vms/new",
		"would-it-pass": "/security-groups/test", "images-well-known": "/images/well-known",
	} {
		p.captureShot(pageShot{"empty-" + name, path, nil})
	}

	agent, _ := s.startMockAgent("lonely")
	if err := agent.signal(os.Interrupt); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	host := s.api().hostByName(t, "lonely")
	p.open("/hosts/" + string(host.ID))
	p.markDocument()
	p.waitWithin(time.Minute, ".head", "Unknown")
	p.checkNotReloaded()
	p.capture("host-silent")
	p.captureShot(pageShot{"hosts-silent", "/hosts", nil})
}

var routeLine = regexp.MustCompile(`\{get, "([^"]+)", page,`)

// checkEveryRoute fails the test if a page in the route table is missing among the shots, unless another test captures
// it.
func checkEveryRoute(t *testing.T, shots []pageShot) {
	t.Helper()
	files, err := filepath.Glob("../../web/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range routeLine.FindAllStringSubmatch(string(text), -1) {
			routes = append(routes, m[1])
		}
	}
	if len(routes) < 20 {
		t.Fatalf("only %d pages were found in the table of routes", len(routes))
	}
	// seen starts with pages that are captured elsewhere: pages that open only after a click, and pages for users who are
	// not signed in.
	seen := []string{"/sign-in", "/plans/p", "/vms/bulk/b", "/hosts/h/found/v", "/hosts/h/found/v/console", "/hosts/h/found/v/adopt", "/tasks/t", "/account/tokens/t/delete", "/vms/v/disks/detach", "/vms/v/disks/replace", "/vms/v/disks/move", "/vms/v/disks/image", "/vms/v/disks/grow", "/images/well-known/i/edit", "/images/well-known/i/delete"}
	for _, s := range shots {
		seen = append(seen, s.path)
	}
	for _, route := range routes {
		pattern := regexp.MustCompile(routePattern(route))
		if !slices.Contains(fragments, route) && !slices.ContainsFunc(seen, pattern.MatchString) {
			t.Errorf("no shot captures the page %s %s", http.MethodGet, route)
		}
	}
}

// createCluster creates a cluster with a CPU baseline and one host, and returns its ID.
func (a api) createCluster(t *testing.T) string {
	t.Helper()
	spec := map[string]any{"description": "Second rack", "cpuModel": "Nehalem", "placement": "pack", "overcommit": map[string]any{"cpu": 2}}
	v := requestJSON[fleet.ClusterView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/clusters", map[string]any{"name": "rack-2", "spec": spec})
	requestJSON[any](t, a, http.StatusOK, http.MethodPatch, "/api/v1/hosts/"+string(a.hostByName(t, "host-3").ID), map[string]any{"clusterId": v.ID})
	return string(v.ID)
}

// createBlockPools creates an iSCSI pool with LUNs that VMs can use, and a Ceph pool whose cluster does not answer.
func (a api) createBlockPools(t *testing.T) (san, ceph fleet.PoolID) {
	t.Helper()
	add := func(name, secret string, spec fleet.PoolSpec) fleet.PoolID {
		body := map[string]any{"name": name, "spec": spec, "secret": secret, "hostIds": []fleet.HostID{a.hostByName(t, "host-1").ID}}
		return requestJSON[fleet.PoolView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/pools", body).ID
	}
	san = add("san", "secretsecret1", fleet.PoolSpec{
		Kind: fleet.PoolISCSIDirect, Portal: "10.0.0.5", Target: "iqn.2026-01.org.example:vms", Initiator: "iqn.2026-01.org.example:quantix", User: "quantix",
	})
	ceph = add("ceph", "AQBAAAAAAAAAABAAfuM/uuQ+ByFp8jV4wXUCCjAoNJx4Nw==", fleet.PoolSpec{
		Kind: fleet.PoolRBD, Monitors: "refused.example", CephPool: "vms", User: "libvirt",
	})
	waitState := func(id fleet.PoolID, want fleet.PoolState) {
		eventually(t, stepLimit, "host-1 to report the pool", func() (bool, string) {
			v := requestJSON[fleet.PoolView](t, a, http.StatusOK, http.MethodGet, "/api/v1/pools/"+string(id), nil)
			return len(v.Hosts) == 1 && v.Hosts[0].State == want, v.Health.Summary
		})
	}
	waitState(san, fleet.PoolActive)
	waitState(ceph, fleet.PoolFailed)
	return san, ceph
}
