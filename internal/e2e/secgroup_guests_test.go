//go:build linux

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// inGuest runs a command in a guest by its agent, and returns what it printed.
func inGuest(t *testing.T, h readyHost, vm, command string) (out string) {
	t.Helper()
	tell := func(execute string, args map[string]any) []byte {
		text, err := json.Marshal(map[string]any{"execute": execute, "arguments": args})
		if err != nil {
			t.Fatal(err)
		}
		return []byte(virsh(t, h, "qemu-agent-command", vm, string(text), "--timeout", "60"))
	}
	var began struct{ Return struct{ PID int } }
	if err := json.Unmarshal(tell("guest-exec", map[string]any{"path": "/bin/sh", "arg": []string{"-c", command}, "capture-output": true}), &began); err != nil {
		t.Fatal(err)
	}
	eventually(t, stepLimit, "the guest has done "+command, func() (bool, string) {
		var said struct {
			Return struct {
				Exited bool
				Out    string `json:"out-data"`
			}
		}
		if err := json.Unmarshal(tell("guest-exec-status", map[string]any{"pid": began.Return.PID}), &said); err != nil {
			return false, err.Error()
		}
		text, err := base64.StdEncoding.DecodeString(said.Return.Out)
		out = string(text)
		return err == nil && said.Return.Exited, out
	})
	return out
}

var passedPackets = regexp.MustCompile(`(\d+) packets`)

// TestSecurityGroupBetweenGuests makes a security group on the pages, which blocks a port between two guests that run and opens it again, and sees
// its rule count what passes.
func TestSecurityGroupBetweenGuests(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a := s.api()
	host, h := a.host(t, "host-1"), s.Hosts[0]
	number := time.Now().UnixNano()
	at := fmt.Sprintf("10.%d.%d.", 224+number%16, number/16%250)
	name := unique("guarded")
	var leases []any
	macs := []string{fmt.Sprintf("52:54:00:7e:%02x:01", number/16%250), fmt.Sprintf("52:54:00:7e:%02x:02", number/16%250)}
	for i, mac := range macs {
		leases = append(leases, map[string]any{"mac": mac, "ip": at + strconv.Itoa(11+i)})
	}
	network := ask[fleet.NetworkView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/networks", map[string]any{
		"name": name, "hostIds": []any{host.ID}, "spec": map[string]any{"mode": "isolated", "ipv4": map[string]any{"gateway": at + "1/24", "dhcp": map[string]any{"leases": leases}}},
	})
	pool := one[fleet.Pool](t, a, "pools", "shared")
	vms := make([]fleet.VMView, 2)
	for i, mac := range macs {
		eventually(t, stepLimit, "the host has the network", func() (bool, string) {
			n := ask[fleet.NetworkView](t, a, http.StatusOK, http.MethodGet, "/api/v1/networks/"+string(network.ID), nil)
			return len(n.Hosts) == 1 && n.Hosts[0].State == fleet.NetworkActive, fmt.Sprintf("%+v", n.Hosts)
		})
		vms[i] = ask[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
			"projectId": a.project(t, "lab").ID, "hostId": host.ID, "name": unique("peer"), "start": true, "spec": map[string]any{
				"cpus": 1, "memoryMiB": 256, "firmware": "bios", "power": "running", "iso": map[string]any{"poolId": pool.ID, "volume": "tiny-guest.iso"},
				"nics": []any{map[string]any{"network": name, "mac": mac}},
			},
		})
	}
	client, server := vms[0].Name, vms[1].Name
	for i, vm := range vms {
		booted(t, h, vm.Name)
		eventually(t, guestLimit, "the guest has its address", func() (bool, string) {
			out := inGuest(t, h, vm.Name, "ip -4 addr show dev eth0")
			return strings.Contains(out, at+strconv.Itoa(11+i)), out
		})
	}
	inGuest(t, h, server, "(while :; do nc -l -p 80 -e echo served; done) >/dev/null 2>&1 &")
	reaches := func(what string, want bool) {
		t.Helper()
		eventually(t, guestLimit, what, func() (bool, string) {
			out := inGuest(t, h, client, "timeout 5 nc -w 2 "+at+"12 80 </dev/null")
			return strings.Contains(out, "served") == want, out
		})
	}
	reaches("the port is open without a group", true)

	p := newTab(t, s.URL)
	p.signIn(s)
	p.open("/security-groups/new")
	group := unique("doorman")
	p.fill("#name", group)
	p.choose("#project", "lab")
	p.click("footer button.primary", "Create security group")
	p.waitText("h1", group)
	path := p.path()
	p.open("/vms/" + string(vms[1].ID))
	p.click(".card-filter a", "Change")
	p.click("#dialog label.check", group)
	p.click("#dialog button.primary", "Save")
	p.waitText(".card-filter", group)
	reaches("a card in a group without a rule for it lets nobody in", false)

	p.open(path)
	p.choose("#direction", "in")
	p.fill("#ports", "80")
	p.click("#rules button.primary", "Allow")
	p.waitText("#group-rules", "80")
	reaches("the rule opens the port", true)
	counted := func() (n int) {
		if m := passedPackets.FindStringSubmatch(p.text("#group-rules tbody tr:first-child")); m != nil {
			n, _ = strconv.Atoi(m[1])
		}
		return n
	}
	eventually(t, guestLimit, "the page shows what the rule let through", func() (bool, string) {
		return counted() >= 5, p.text("#group-rules")
	})
	before := counted()
	reaches("the port is open", true)
	eventually(t, guestLimit, "the number rises on the open page", func() (bool, string) {
		return counted() >= before+5, p.text("#group-rules")
	})
	p.open("/vms/" + string(vms[1].ID))
	p.waitText(".card-filter", "dropped")
	for _, vm := range vms {
		ask[any](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/vms/"+string(vm.ID), nil)
	}
}
