//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"quantix/internal/fleet"
)

// TestPoolFailureShownForOneHost breaks and restores a pool's storage on one of two real hosts. Only that host's status
// may change, and must show the host's error text, on the pool's page and in the matrix of all pools.
func TestPoolFailureShownForOneHost(t *testing.T) {
	t.Parallel()
	s := newSwitchedLab(t, "matrix")
	dir := "/var/lib/libvirt/images/" + uniqueName("grid")
	name := filepath.Base(dir)
	pool := requestJSON[fleet.PoolView](t, s.api, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": name, "hostIds": []fleet.HostID{s.hosts[0].ID, s.hosts[1].ID}, "spec": map[string]any{"kind": "dir", "path": dir},
	})
	hostStatus := func(i int) fleet.PoolHost {
		t.Helper()
		v := requestJSON[fleet.PoolView](t, s.api, http.StatusOK, http.MethodGet, "/api/v1/pools/"+string(pool.ID), nil)
		for _, h := range v.Hosts {
			if h.HostID == s.hosts[i].ID {
				return h
			}
		}
		t.Fatalf("%s is not on the pool's page: %+v", s.hosts[i].Name, v.Hosts)
		return fleet.PoolHost{}
	}
	p := newTab(t, s.URL)
	p.signIn(s.playground)
	p.open("/pools/" + string(pool.ID))
	p.waitWithin(guestLimit, ".head", "2 of 2 hosts healthy")
	p.markDocument()

	s.runInNamespaces(t, 1, []string{"--mount"}, "mount", "-t", "tmpfs", "-o", "size=1m", "nothing", dir)
	p.waitWithin(guestLimit, ".head", "1 of 2 hosts healthy")
	p.waitText("table.matrix", "Failed")
	p.checkNotReloaded()
	if bad := hostStatus(1); bad.State != fleet.PoolFailed || bad.Status == nil || bad.Status.Error == "" {
		t.Errorf("the host without storage: %+v", bad)
	} else {
		p.waitText("table.matrix", bad.Status.Error)
	}
	if well := hostStatus(0); well.State != fleet.PoolActive || well.Status.Error != "" {
		t.Errorf("the other host: %+v", well)
	}
	matrix := newTab(t, s.URL)
	matrix.signIn(s.playground)
	matrix.open("/pools/matrix")
	box := func(i int, tone string) {
		t.Helper()
		at := fmt.Sprintf(`#grid-%s a.%s[href*="%s"]`, s.hosts[i].ID, tone, pool.ID)
		matrix.waitTrue(tone+" on "+s.hosts[i].Name, fmt.Sprintf(`document.querySelector(%s) !== null`, jsString(at)))
	}
	box(0, "ok")
	box(1, "bad")

	s.runInNamespaces(t, 1, []string{"--mount"}, "umount", dir)
	p.waitWithin(guestLimit, ".head", "2 of 2 hosts healthy")
	p.waitNoText("table.matrix", "Failed")
	p.checkNotReloaded()
	box(1, "ok")
	if well := hostStatus(1); well.State != fleet.PoolActive || well.Status.Error != "" {
		t.Errorf("the host with restored storage: %+v", well)
	}
}
