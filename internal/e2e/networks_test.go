//go:build linux && ordeal

package e2e

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// TestNetworkChangesByVirshReported defines a network in the portal and checks it with virsh. Changes by virsh must
// show in the network's status on the host, and a retry must repair them.
func TestNetworkChangesByVirshReported(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a := s.api()
	host, h := a.hostByName(t, "host-1"), s.Hosts[0]
	var b [2]byte
	rand.Read(b[:])
	at := fmt.Sprintf("10.%d.%d.", 192+b[0]%32, b[1])
	name := uniqueName("lan")
	network := requestJSON[fleet.NetworkView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/networks", map[string]any{
		"name": name, "hostIds": []any{host.ID}, "spec": map[string]any{
			"mode": "nat", "dns": true, "ipv4": map[string]any{"gateway": at + "1/24", "dhcp": map[string]any{"ranges": []any{map[string]any{"start": at + "100", "end": at + "150"}}}},
		},
	})
	path := "/api/v1/networks/" + string(network.ID)
	waitStatus := func(what string, ok func(fleet.NetworkHost) bool) {
		t.Helper()
		eventually(t, stepLimit, what, func() (bool, string) {
			n := requestJSON[fleet.NetworkView](t, a, http.StatusOK, http.MethodGet, path, nil)
			if len(n.Hosts) != 1 {
				return false, fmt.Sprintf("it is on %d hosts", len(n.Hosts))
			}
			return ok(n.Hosts[0]), fmt.Sprintf("%+v %+v", n.Hosts[0], n.Hosts[0].Status)
		})
	}
	active := func(c fleet.NetworkHost) bool { return c.State == fleet.NetworkActive && c.Status.Error == "" }
	retry := func() {
		t.Helper()
		requestJSON[any](t, a, http.StatusAccepted, http.MethodPost, path+"/hosts/"+string(host.ID)+"/retry", nil)
	}
	waitStatus("the network is active", active)
	if xml := virsh(t, h, "net-dumpxml", name); !strings.Contains(xml, string(network.ID)) || !strings.Contains(xml, at+"150") {
		t.Errorf("virsh sees\n%s", xml)
	}
	virsh(t, h, "net-destroy", name)
	waitStatus("the stop shows", func(c fleet.NetworkHost) bool { return c.State == fleet.NetworkInactive && c.Status.StoppedOutside })
	retry()
	waitStatus("it is active again", active)
	virsh(t, h, "net-update", name, "add", "ip-dhcp-host", "<host mac='52:54:00:00:00:aa' ip='"+at+"77'/>", "--live", "--config")
	waitStatus("the edit shows", func(c fleet.NetworkHost) bool {
		return c.State == fleet.NetworkFailed && c.Status.Active && strings.Contains(c.Status.Error, "addresses and DHCP")
	})
	virsh(t, h, "net-update", name, "delete", "ip-dhcp-host", "<host mac='52:54:00:00:00:aa' ip='"+at+"77'/>", "--live", "--config")
	waitStatus("it is as it was", active)
	virsh(t, h, "net-undefine", name)
	waitStatus("the removal of its definition shows", func(c fleet.NetworkHost) bool {
		return c.State == fleet.NetworkFailed && strings.Contains(c.Status.Error, "removed the network's definition")
	})
	retry()
	waitStatus("it is defined again", active)
	requestJSON[any](t, a, http.StatusAccepted, http.MethodDelete, path, nil)
	eventually(t, stepLimit, "the network is gone", func() (bool, string) {
		left := listFirstPage[fleet.NetworkView](t, a, "/api/v1/networks?filter=name:"+name)
		return len(left) == 0, fmt.Sprintf("%+v", left)
	})
	if names := virsh(t, h, "net-list", "--all", "--name"); strings.Contains(names, name) {
		t.Errorf("virsh still has %s", names)
	}
}
