package vmedit_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/vmedit"
)

func poolWithSpace(name string, healthy int, available, allocated int64) fleet.PoolView {
	p := fleet.PoolView{Pool: fleet.Pool{ID: fleet.PoolID("id of " + name), Name: name, Spec: fleet.PoolSpec{Kind: "dir"}}}
	p.Health = fleet.PoolHealth{Healthy: healthy, AvailableBytes: available << 30, ProvisionedBytes: allocated << 30}
	return p
}

func networkOnHosts(name string, hosts int, forwards ...string) fleet.NetworkView {
	n := fleet.NetworkView{Network: fleet.Network{ID: fleet.NetworkID("id of " + name), Name: name, Kind: fleet.NetworkLibvirt}}
	n.Health = fleet.NetworkHealth{Active: hosts, Forwards: forwards}
	return n
}

func TestDefaultPoolHasMostFreeSpace(t *testing.T) {
	t.Parallel()
	of := func(pools ...fleet.PoolView) vmedit.DefaultPool {
		return vmedit.Defaults{}.WithFallbacks("shop", pools, nil).Pool
	}
	leaving := poolWithSpace("leaving", 1, 9000, 0)
	leaving.DeletedAt = &leaving.CreatedAt
	luns := poolWithSpace("luns", 1, 9000, 0)
	luns.Spec.Kind = "iscsi"
	got := of(poolWithSpace("a-small", 3, 10, 0), poolWithSpace("b-provisioned", 3, 2000, 1900), leaving, luns, poolWithSpace("m-large", 1, 1229, 0), poolWithSpace("z-failed", 0, 9000, 0))
	if got.Name != "m-large" || got.ID != "id of m-large" || got.Why != "most free space: 1.2 TiB" {
		t.Errorf("the default pool is %+v", got)
	}
	if got := of(poolWithSpace("a-failed", 0, 9000, 0), poolWithSpace("one", 1, 10, 0)); got.Name != "one" || got.Why != "only pool" {
		t.Errorf("with one usable pool the default is %+v", got)
	}
	if got := of(poolWithSpace("a-failed", 0, 9000, 0)); got != (vmedit.DefaultPool{}) {
		t.Errorf("without a healthy pool the default is %+v", got)
	}
	own := vmedit.Defaults{Pool: vmedit.DefaultPool{ID: "mine", Name: "mine"}}
	if got := own.WithFallbacks("shop", []fleet.PoolView{poolWithSpace("m-large", 1, 1229, 0)}, nil).Pool; got.Name != "mine" || got.Why != "default of the project" {
		t.Errorf("the project's default pool is %+v", got)
	}
}

func TestDefaultNetworkIsTheNATNetwork(t *testing.T) {
	t.Parallel()
	of := func(networks ...fleet.NetworkView) string {
		n := vmedit.Defaults{}.WithFallbacks("shop", nil, networks).Network
		return n.Name + ": " + n.Why
	}
	bridge := networkOnHosts("br0", 9, "")
	bridge.Kind, bridge.Restricted = fleet.NetworkBridge, true
	granted := bridge
	granted.Grants = []fleet.NetworkGrant{{ProjectID: "shop"}}
	defined := networkOnHosts("defined", 2)
	defined.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkNAT}
	foreignNAT := networkOnHosts("foreign-nat", 9, "nat")
	foreignNAT.Restricted, foreignNAT.Grants = true, []fleet.NetworkGrant{{ProjectID: "lab"}}
	reported := networkOnHosts("reported", 1)
	reported.Hosts = []fleet.NetworkHost{{Status: &fleet.NetworkStatus{Active: true, Forward: "nat"}}}
	for _, c := range []struct {
		what, want string
		networks   []fleet.NetworkView
	}{
		{"NAT network after an isolated one", "web-nat: NAT network", []fleet.NetworkView{networkOnHosts("a-isolated", 9, ""), granted, networkOnHosts("web-nat", 1, "nat")}},
		{"managed network", "defined: NAT network", []fleet.NetworkView{networkOnHosts("a-isolated", 9), defined}},
		{"unmanaged network", "reported: NAT network", []fleet.NetworkView{networkOnHosts("a-isolated", 9), reported}},
		{"network on most hosts", "b-nat: NAT network", []fleet.NetworkView{networkOnHosts("a-nat", 1, "nat"), networkOnHosts("b-nat", 2, "nat"), networkOnHosts("default", 1, "nat")}},
		{"libvirt's default network of two equal ones", "default: NAT network", []fleet.NetworkView{networkOnHosts("a-nat", 2, "nat"), networkOnHosts("default", 2, "nat")}},
		{"none of two equal ones", ": ", []fleet.NetworkView{networkOnHosts("a-nat", 2, "nat"), networkOnHosts("b-nat", 2, "nat")}},
		{"only open network", "br0: only network", []fleet.NetworkView{granted, foreignNAT}},
		{"none without grant", ": ", []fleet.NetworkView{bridge, foreignNAT}},
		{"none of several without NAT", ": ", []fleet.NetworkView{networkOnHosts("a-isolated", 1), networkOnHosts("routed", 1, "route")}},
		{"none if inactive", ": ", []fleet.NetworkView{networkOnHosts("default", 0, "nat")}},
	} {
		if got := of(c.networks...); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	own := vmedit.Defaults{Network: vmedit.DefaultNetwork{ID: "mine", Name: "mine"}}
	if got := own.WithFallbacks("shop", nil, []fleet.NetworkView{networkOnHosts("default", 2, "nat")}).Network; got.Name != "mine" || got.Why != "default of the project" {
		t.Errorf("the project's default network is %+v", got)
	}
}
