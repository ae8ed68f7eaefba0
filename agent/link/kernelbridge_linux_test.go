//go:build linux

package link

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The bridge gets its device's routes, including a route to a gateway behind another route, and its router
// advertisement settings.
func TestBridgeGetsUplinkRoutesAndRouterAdvertisementSettings(t *testing.T) {
	if !runsInNamespace(t) {
		return
	}
	addWiredDevice(t)
	runIP(t, "-6", "route", "add", "fd00:aa::1", "dev", "eth1")
	runIP(t, "-6", "route", "add", "default", "via", "fd00:aa::1", "dev", "eth1")
	setting := func(device, name string) string {
		text, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + device + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/eth1/accept_ra", []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	requireTrue(t, "a new bridge of the kernel's hears routers", setting("default", "accept_ra") == "1")
	k := newDevices(t, testOptions(t.TempDir(), 0, portalReachable))
	runIP(t, "route", "add", "10.88.0.0/16", "via", "inet6", "fd00:9::1", "dev", "eth1")
	was := addressesAndRoutes(t)
	err := k.Apply(t.Context(), "order", newUplinkNetwork())
	requireTrue(t, "a route that cannot be moved is refused beforehand", err != nil && strings.Contains(err.Error(), "The route 10.88.0.0/16 through eth1") && addressesAndRoutes(t) == was, err, addressesAndRoutes(t))
	runIP(t, "route", "del", "10.88.0.0/16")
	if err := k.Apply(t.Context(), "order", newUplinkNetwork()); err != nil {
		t.Fatal(err)
	}
	requireTrue(t, "the way out goes along", strings.Contains(addressesAndRoutes(t), "default via fd00:aa::1 dev qx-wire"), addressesAndRoutes(t))
	requireTrue(t, "the bridge hears no routers either", setting("qx-wire", "accept_ra") == "0", setting("qx-wire", "accept_ra"))
}

// An administrator gives the bridge's device an address, which the next job moves to the bridge. If the portal is then
// not reached, the rollback restores the administrator's state, with the host's addresses and the guest on the bridge.
func TestRollbackKeepsBridgeInUse(t *testing.T) {
	if !runsInNamespace(t) {
		return
	}
	addWiredDevice(t)
	n := newUplinkNetwork()
	k := newDevices(t, testOptions(t.TempDir(), time.Second, portalReachable))
	if err := k.Apply(t.Context(), "order", n); err != nil {
		t.Fatal(err)
	}
	runIP(t, "link", "add", "vnet0", "type", "veth", "peer", "name", "far2")
	runIP(t, "link", "set", "vnet0", "master", "qx-wire", "up")
	runIP(t, "addr", "add", "10.9.0.50/24", "dev", "eth1")
	was := addressesAndRoutes(t)
	k.options.ReachPortal = portalUnreachable
	err := k.Apply(t.Context(), "another", n)
	requireTrue(t, "the host is as before", err != nil && addressesAndRoutes(t) == was, err, addressesAndRoutes(t), was)
	ports := runIP(t, "-br", "link", "show", "master", "qx-wire")
	requireTrue(t, "the bridge has its ports", strings.Contains(ports, "eth1") && strings.Contains(ports, "vnet0"), ports)
}
