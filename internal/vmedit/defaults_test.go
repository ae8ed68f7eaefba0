package vmedit_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/vmedit"
)

// publishedPool returns a pool that is published to the project shop, or to another project.
func publishedPool(name string, healthy int, project fleet.ProjectID) fleet.PoolView {
	p := fleet.PoolView{Pool: fleet.Pool{ID: fleet.PoolID("id of " + name), Name: name, Spec: fleet.PoolSpec{Kind: "dir"}}}
	p.Health = fleet.PoolHealth{Healthy: healthy, AvailableBytes: 10 << 30}
	p.Grants = []fleet.ProjectGrant{{ProjectID: project}}
	return p
}

func publishedNetwork(name string, active int, project fleet.ProjectID) fleet.NetworkView {
	n := fleet.NetworkView{Network: fleet.Network{ID: fleet.NetworkID("id of " + name), Name: name, Kind: fleet.NetworkLibvirt}}
	n.Health = fleet.NetworkHealth{Active: active}
	n.Grants = []fleet.NetworkGrant{{ProjectID: project}}
	return n
}

func TestDefaultPoolIsTheOnlyPublishedOne(t *testing.T) {
	t.Parallel()
	leaving := publishedPool("leaving", 1, "shop")
	leaving.DeletedAt = &leaving.CreatedAt
	luns := publishedPool("luns", 1, "shop")
	luns.Spec.Kind = "iscsi"
	unpublished := publishedPool("unpublished", 1, "shop")
	unpublished.Grants = nil
	for _, c := range []struct {
		what, want string
		pools      []fleet.PoolView
	}{
		{"only usable pool", "one: only pool", []fleet.PoolView{publishedPool("failed", 0, "shop"), publishedPool("foreign", 9, "lab"), leaving, luns, unpublished, publishedPool("one", 1, "shop")}},
		{"pool of all projects", "one: only pool", []fleet.PoolView{publishedPool("one", 1, "")}},
		{"none of two", ": ", []fleet.PoolView{publishedPool("a", 1, "shop"), publishedPool("b", 3, "shop")}},
		{"none without grant", ": ", []fleet.PoolView{unpublished, publishedPool("foreign", 1, "lab")}},
		{"none healthy", ": ", []fleet.PoolView{publishedPool("failed", 0, "shop")}},
	} {
		got := vmedit.Defaults{}.WithFallbacks("shop", c.pools, nil).Pool
		if text := got.Name + ": " + got.Why; text != c.want {
			t.Errorf("%s: %q, want %q", c.what, text, c.want)
		}
	}
	own := vmedit.Defaults{Pool: vmedit.DefaultPool{ID: "mine", Name: "mine"}}
	if got := own.WithFallbacks("shop", []fleet.PoolView{publishedPool("one", 1, "shop")}, nil).Pool; got.Name != "mine" || got.Why != "default of the project" {
		t.Errorf("the project's default pool is %+v", got)
	}
}

func TestDefaultNetworkIsTheOnlyPublishedOne(t *testing.T) {
	t.Parallel()
	unpublished := publishedNetwork("default", 9, "")
	unpublished.Grants = nil
	for _, c := range []struct {
		what, want string
		networks   []fleet.NetworkView
	}{
		{"only published network", "lan: only network", []fleet.NetworkView{unpublished, publishedNetwork("foreign", 1, "lab"), publishedNetwork("lan", 1, "shop")}},
		{"none of two", ": ", []fleet.NetworkView{publishedNetwork("default", 2, ""), publishedNetwork("lan", 1, "shop")}},
		{"none without grant", ": ", []fleet.NetworkView{unpublished}},
		{"none if inactive", ": ", []fleet.NetworkView{publishedNetwork("default", 0, "shop")}},
	} {
		got := vmedit.Defaults{}.WithFallbacks("shop", nil, c.networks).Network
		if text := got.Name + ": " + got.Why; text != c.want {
			t.Errorf("%s: %q, want %q", c.what, text, c.want)
		}
	}
	own := vmedit.Defaults{Network: vmedit.DefaultNetwork{ID: "mine", Name: "mine"}}
	if got := own.WithFallbacks("shop", nil, []fleet.NetworkView{publishedNetwork("lan", 2, "shop")}).Network; got.Name != "mine" || got.Why != "default of the project" {
		t.Errorf("the project's default network is %+v", got)
	}
}
