//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// TestNetworksConnectGuestsBetweenHosts checks which guests each network mode connects, on one host and between two
// hosts. It also changes the network that the agent itself uses: the agent must confirm the change, or it is rolled
// back.
func TestNetworksConnectGuestsBetweenHosts(t *testing.T) { //nolint:tparallel // sequential steps in one lab
	t.Parallel()
	files, err := lab.GuestImage(t.Context(), lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	s := newSwitchedLab(t, "apart")
	s.defineNetwork(t, "over", map[string]any{"mode": "vxlan", "vni": 4711, "underlay": s.subnet}, 0, 1)
	s.defineNetwork(t, "wire", map[string]any{"mode": "uplink", "device": "eth1", "bridge": "qx-wire"}, 0, 1)
	s.defineNetwork(t, "alone", map[string]any{"mode": "isolated", "ipv4": map[string]any{"gateway": "10.72.0.254/24"}}, 0, 1)
	s.defineNetwork(t, "out", map[string]any{"mode": "nat", "ipv4": map[string]any{"gateway": "10.73.0.254/24"}}, 0, 1)
	s.runInNetwork(t, 0, "ip", "link", "add", "br-own", "type", "bridge")
	s.runInNetwork(t, 0, "ip", "link", "set", "br-own", "up")
	s.defineNetwork(t, "published", map[string]any{"mode": "bridge", "bridge": "br-own"}, 0)
	s.waitNetwork(t, "over", "each host knows the other", func(h fleet.NetworkHost) bool {
		return isNetworkUp(h) && h.Status.Peers == 1 && h.Status.MTU == 1450 && h.Status.VTEP != "" && h.Status.Uplink == "eth0"
	})
	for _, name := range []string{"wire", "alone", "out", "published"} {
		s.waitNetwork(t, name, "it is up", isNetworkUp)
	}
	if xml := virsh(t, s.Hosts[0], "net-dumpxml", "wire"); !strings.Contains(xml, "qx-wire") {
		t.Errorf("virsh sees\n%s", xml)
	}
	nets := []string{"over", "wire", "alone", "out"}
	own := append(slices.Clone(nets), "published")
	a, b, c := s.bootGuest(t, files, 0, "a", own...), s.bootGuest(t, files, 0, "b", own...), s.bootGuest(t, files, 1, "c", nets...)
	for i, g := range []*netGuest{a, b, c} {
		g.waitReady(fmt.Sprintf("10.70.0.%d/24", i+1), fmt.Sprintf("10.71.0.%d/24", i+1), fmt.Sprintf("10.72.0.%d/24", i+1), fmt.Sprintf("10.73.0.%d/24", i+1))
		g.runCommand("ip link set eth0 mtu 1450; ip route add default via 10.73.0.254 dev eth3")
	}
	a.checkReaches("VXLAN, one host", "10.70.0.2")
	a.checkReaches("VXLAN, across", "10.70.0.3")
	a.checkReaches("a bridge on a device, one host", "10.71.0.2")
	a.checkReaches("a bridge on a device, across", "10.71.0.3")
	a.checkReaches("isolated, one host", "10.72.0.2")
	a.runCommand("ip addr add 10.74.0.1/24 dev eth4; ip link set eth4 up")
	b.runCommand("ip addr add 10.74.0.2/24 dev eth4; ip link set eth4 up")
	a.checkReaches("a bridge that the host has", "10.74.0.2")
	a.checkReaches("NAT, one host", "10.73.0.2")
	a.checkReaches("NAT, outside", s.portal)
	c.checkReaches("NAT, outside", s.portal)
	if n := a.countPingReplies("10.72.0.3"); n != 0 {
		t.Errorf("an isolated network leads to another host: %d answers", n)
	}
	if out := a.runCommand("ping -q -c 2 -W 2 -s 1400 10.70.0.3"); !strings.Contains(out, "2 packets received") {
		t.Errorf("packets as large as the overlay allows do not pass: %s", out)
	}

	// A host that releases the overlay must disappear from the other host's peers, and appear again after it is
	// assigned again.
	virsh(t, s.Hosts[1], "destroy", "c")
	if xml := virsh(t, s.Hosts[1], "list", "--all", "--name"); !strings.Contains(xml, "c") {
		t.Fatal(xml)
	}
	release := s.networkPath("over") + "/hosts/" + string(s.hosts[1].ID)
	requestJSON[any](t, s.api, http.StatusAccepted, http.MethodDelete, release, nil)
	eventually(t, stepLimit, "the host that a VM is on refuses to give it up", func() (bool, string) {
		tasks := listFirstPage[fleet.Task](t, s.api, "/api/v1/tasks?filter=kind:network.release")
		return len(tasks) > 0 && strings.Contains(tasks[0].Error, "in use by c"), fmt.Sprintf("%+v", tasks)
	})
	virsh(t, s.Hosts[1], "undefine", "c")
	requestJSON[any](t, s.api, http.StatusAccepted, http.MethodPut, release, nil)
	s.waitNetwork(t, "over", "it stays", func(h fleet.NetworkHost) bool { return isNetworkUp(h) && h.Status.Peers == 1 })
	requestJSON[any](t, s.api, http.StatusAccepted, http.MethodDelete, release, nil)
	s.waitNetwork(t, "over", "the peers of who stays", func(h fleet.NetworkHost) bool {
		return h.HostID == s.hosts[0].ID && isNetworkUp(h) && h.Status.Peers == 0
	})
	if devices := s.runInNetwork(t, 1, "ip", "-br", "link"); strings.Contains(devices, "qxv-") {
		t.Errorf("the host that released the overlay has\n%s", devices)
	}
	requestJSON[any](t, s.api, http.StatusAccepted, http.MethodPut, release, nil)
	s.waitNetwork(t, "over", "it is back", func(h fleet.NetworkHost) bool { return isNetworkUp(h) && h.Status.Peers == 1 })
	s.bootGuest(t, files, 1, "c2", "over").waitReady("10.70.0.3/24")
	a.checkReaches("VXLAN, after the return", "10.70.0.3")

	t.Run("confirmed change", func(t *testing.T) { s.checkChangeConfirmed(t, a) })
	t.Run("change that cuts the host off", func(t *testing.T) { s.checkChangeRolledBack(t, a) })
	t.Run("agent killed before it confirms", func(t *testing.T) { s.checkKillBeforeConfirm(t) })
}

var pingsBack = regexp.MustCompile(`60 packets transmitted, (\d\d) packets received`)

// checkChangeConfirmed moves the agent's network device into a bridge and out again, while guests of both hosts
// communicate through it.
func (s *switchedLab) checkChangeConfirmed(t *testing.T, g *netGuest) {
	g = g.withTest(t)
	through := func(what string, change func()) {
		t.Helper()
		g.runCommand("ping -q -c 60 -i 0.1 -W 5 10.70.0.3 >/tmp/ping 2>&1 &")
		change()
		out := g.runCommand("wait; cat /tmp/ping")
		// Packets in flight at the moment of the change may be lost. If the link were broken or rolled back, most
		// packets would be lost.
		if m := pingsBack.FindStringSubmatch(out); m == nil || m[1] < "57" {
			t.Errorf("%s: %s", what, out)
		}
	}
	through("into a bridge", func() {
		s.defineNetwork(t, "mgmt", map[string]any{"mode": "uplink", "device": "eth0", "bridge": "qx-mgmt"}, 0)
		s.waitNetwork(t, "mgmt", "it is up", isNetworkUp)
	})
	if routes := s.runInNetwork(t, 0, "ip", "route"); !strings.Contains(routes, "default via "+s.portal+" dev qx-mgmt") || strings.Contains(routes, "dev eth0") {
		t.Errorf("the host's routes are\n%s", routes)
	}
	through("and back", func() { s.removeNetwork(t, "mgmt") })
	s.waitRestored(t)
}

// waitRestored waits until the first host's device has its address and routes again and the bridge is removed. The
// portal must have this state, too: a bridge reported during the change would block its name for the next network.
func (s *switchedLab) waitRestored(t *testing.T) {
	t.Helper()
	eventually(t, stepLimit, "the host is as before", func() (bool, string) {
		routes, devices := s.runInNetwork(t, 0, "ip", "route"), s.runInNetwork(t, 0, "ip", "-br", "addr")
		reported := listFirstPage[fleet.NetworkView](t, s.api, "/api/v1/networks?filter=name:qx-mgmt")
		return strings.Contains(routes, "default via "+s.portal+" dev eth0") && !strings.Contains(devices, "qx-mgmt") && len(reported) == 0, fmt.Sprint(routes, devices, reported)
	})
}

// checkChangeRolledBack creates a bridge whose outgoing traffic is blocked, so that the host must roll the change back.
func (s *switchedLab) checkChangeRolledBack(t *testing.T, g *netGuest) {
	g = g.withTest(t)
	s.runInNetwork(t, 0, "iptables", "-I", "OUTPUT", "-o", "qx-mgmt", "-j", "DROP")
	s.defineNetwork(t, "mgmt-cut", map[string]any{"mode": "uplink", "device": "eth0", "bridge": "qx-mgmt"}, 0)
	undone := func(h fleet.NetworkHost) bool {
		return h.State == fleet.NetworkFailed && h.Status.RolledBack != nil && strings.Contains(h.Status.Error, "The change was undone: the portal was not reached through qx-mgmt")
	}
	s.waitNetwork(t, "mgmt-cut", "the change is rolled back, with the reason", undone)
	s.waitRestored(t)
	g.checkReaches("VXLAN, after the change was undone", "10.70.0.3")
	p := newTab(t, s.URL)
	p.signIn(s.playground)
	p.open("/networks/" + string(s.ids["mgmt-cut"]))
	p.waitText("#network-body", "The change was undone")
	p.waitText("#network-body", "Rolled back")
	p.capture("network-rolled-back")
	p.open("/networks/" + string(s.ids["over"]))
	p.waitText("#network-body", "1 of 1")
	p.capture("network-overlay")
	// After the blocking iptables rule is deleted, a retry must succeed.
	s.runInNetwork(t, 0, "iptables", "-D", "OUTPUT", "-o", "qx-mgmt", "-j", "DROP")
	requestJSON[any](t, s.api, http.StatusAccepted, http.MethodPost, s.networkPath("mgmt-cut")+"/hosts/"+string(s.hosts[0].ID)+"/retry", nil)
	s.waitNetwork(t, "mgmt-cut", "it is up", isNetworkUp)
	s.removeNetwork(t, "mgmt-cut")
	s.waitRestored(t)
}

// checkKillBeforeConfirm kills the agent before it can confirm the change, which must then be rolled back.
func (s *switchedLab) checkKillBeforeConfirm(t *testing.T) {
	s.runInNetwork(t, 0, "iptables", "-I", "OUTPUT", "-o", "qx-mgmt", "-j", "DROP")
	s.defineNetwork(t, "mgmt-dies", map[string]any{"mode": "uplink", "device": "eth0", "bridge": "qx-mgmt"}, 0)
	eventually(t, stepLimit, "the change to begin", func() (bool, string) {
		devices := s.runInNetwork(t, 0, "ip", "-br", "addr", "show", "dev", "eth0")
		return !strings.Contains(devices, s.portal[:strings.LastIndex(s.portal, ".")]), devices
	})
	if err := syscall.Kill(s.agentPID(t, 0), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.waitNetwork(t, "mgmt-dies", "the change is rolled back", func(h fleet.NetworkHost) bool {
		return h.State == fleet.NetworkFailed && h.Status.RolledBack != nil && strings.Contains(h.Status.Error, "The change was undone")
	})
	s.waitRestored(t)
	s.runInNetwork(t, 0, "iptables", "-D", "OUTPUT", "-o", "qx-mgmt", "-j", "DROP")
	s.removeNetwork(t, "mgmt-dies")
}
