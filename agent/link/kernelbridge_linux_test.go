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
func TestBridgeGetsDeviceSettings(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	addWiredDevice(t)
	ip(t, "-6", "route", "add", "fd00:aa::1", "dev", "eth1")
	ip(t, "-6", "route", "add", "default", "via", "fd00:aa::1", "dev", "eth1")
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
	want(t, "a new bridge of the kernel's hears routers", setting("default", "accept_ra") == "1")
	k := newDevices(t, options(t.TempDir(), 0, reached))
	ip(t, "route", "add", "10.88.0.0/16", "via", "inet6", "fd00:9::1", "dev", "eth1")
	was := addressesAndRoutes(t)
	err := k.Apply(t.Context(), "order", uplink())
	want(t, "a route that cannot be moved is refused beforehand", err != nil && strings.Contains(err.Error(), "The route 10.88.0.0/16 through eth1") && addressesAndRoutes(t) == was, err, addressesAndRoutes(t))
	ip(t, "route", "del", "10.88.0.0/16")
	if err := k.Apply(t.Context(), "order", uplink()); err != nil {
		t.Fatal(err)
	}
	want(t, "the way out goes along", strings.Contains(addressesAndRoutes(t), "default via fd00:aa::1 dev qx-wire"), addressesAndRoutes(t))
	want(t, "the bridge hears no routers either", setting("qx-wire", "accept_ra") == "0", setting("qx-wire", "accept_ra"))
}

// An administrator gives the bridge's device an address, which the next job moves to the bridge. If the portal is then
// not reached, the rollback restores the administrator's state, with the host's addresses and the guest on the bridge.
func TestRollbackKeepsBridgeInUse(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	addWiredDevice(t)
	n := uplink()
	k := newDevices(t, options(t.TempDir(), time.Second, reached))
	if err := k.Apply(t.Context(), "order", n); err != nil {
		t.Fatal(err)
	}
	ip(t, "link", "add", "vnet0", "type", "veth", "peer", "name", "far2")
	ip(t, "link", "set", "vnet0", "master", "qx-wire", "up")
	ip(t, "addr", "add", "10.9.0.50/24", "dev", "eth1")
	was := addressesAndRoutes(t)
	k.o.Reach = unreached
	err := k.Apply(t.Context(), "another", n)
	want(t, "the host is as before", err != nil && addressesAndRoutes(t) == was, err, addressesAndRoutes(t), was)
	ports := ip(t, "-br", "link", "show", "master", "qx-wire")
	want(t, "the bridge has its ports", strings.Contains(ports, "eth1") && strings.Contains(ports, "vnet0"), ports)
}
