package agent_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// The secret of a pool's storage is fetched when the pool is applied, and only the hypervisor stores it: neither the
// agent's files nor its messages contain it. If the fetch fails, the pool is not applied and the portal's error is
// reported.
func TestPoolSecretIsStoredOnlyInHypervisor(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	host := mock.New(mock.Options{Name: "host-1"})
	dir := p.join()
	p.startAgent(dir, host, host)
	const secret = "a-secret-of-storage"
	p.update(func() { p.secret = secret })
	pool := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: "san", Generation: 1, Spec: fleet.PoolSpec{
		Kind: fleet.PoolISCSIDirect, Portal: "10.0.0.5", Target: "iqn.2026-01.org.example:vms", User: "quantix", Shared: true,
	}}
	order := func() wire.Work {
		return wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: fleet.PoolApply, Subject: fleet.SubjectPool(pool.ID), Epoch: 1, Generation: 1, Pool: &pool}
	}
	p.update(func() { p.refusals["pools"] = 404 })
	if f := p.runJob(order()); f.Outcome == wire.Done || !strings.Contains(f.Error, "credentials cannot be fetched: The test refuses this.") || host.PoolSecret(pool.ID) != "" {
		t.Errorf("without its secret: %+v, the host has %q", f, host.PoolSecret(pool.ID))
	}
	p.update(func() { delete(p.refusals, "pools") })
	if f := p.runJob(order()); f.Outcome != wire.Done || host.PoolSecret(pool.ID) != secret {
		t.Fatalf("with it: %+v, the host has %q", f, host.PoolSecret(pool.ID))
	}
	changed := secret + "-2"
	p.update(func() { p.secret = changed })
	if f := p.runJob(order()); f.Outcome != wire.Done || host.PoolSecret(pool.ID) != changed {
		t.Errorf("changed: %+v, the host has %q", f, host.PoolSecret(pool.ID))
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), secret) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	release := order()
	release.Kind = fleet.PoolRelease
	if f := p.runJob(release); f.Outcome != wire.Done || host.PoolSecret(pool.ID) != "" {
		t.Errorf("released: %+v, the host has %q", f, host.PoolSecret(pool.ID))
	}
}
