//go:build linux && ordeal

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"quantix/internal/connectivity"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// agentGuest is a running guest that was created in the portal. Its methods run commands through the guest agent.
type agentGuest struct {
	h  readyHost
	vm fleet.VMView
	ip string
}

const (
	guestCommandLimit = 60 * time.Second // for one command in a guest
	bootLimit         = 2 * guestLimit   // for two guests that boot at once
)

// runCommand runs a command in the guest and returns its output. If the guest agent does not answer, it returns an
// error.
func (g agentGuest) runCommand(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, guestCommandLimit)
	defer cancel()
	var began struct{ PID int }
	if err := g.sendAgentCommand(ctx, &began, "guest-exec", map[string]any{"path": "/bin/sh", "arg": []string{"-c", command}, "capture-output": true}); err != nil {
		return "", err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		var now struct {
			Exited bool
			Out    []byte `json:"out-data"` // base64 in JSON
		}
		if err := g.sendAgentCommand(ctx, &now, "guest-exec-status", map[string]any{"pid": began.PID}); err != nil {
			return "", err
		}
		if now.Exited {
			return string(now.Out), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%s: %w", command, ctx.Err())
		case <-tick.C:
		}
	}
}

// sendAgentCommand sends one command to the guest agent.
func (g agentGuest) sendAgentCommand(ctx context.Context, answer any, execute string, arguments map[string]any) error {
	text, err := json.Marshal(map[string]any{"execute": execute, "arguments": arguments})
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "virsh", "-q", "-c", g.h.LibvirtURI, "qemu-agent-command", "--timeout", "10", string(g.vm.ID), string(text)).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return err
	}
	return json.Unmarshal(out, &struct{ Return any }{answer})
}

// fetchPorts requests a page from another guest on each port, and returns the ports that answered. A blocked connection
// never ends, so each attempt has a timeout.
func (g agentGuest) fetchPorts(ctx context.Context, from agentGuest, ports ...int) (string, error) {
	var script strings.Builder
	for _, port := range ports {
		fmt.Fprintf(&script, "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 8 nc -w 3 %s %d 2>/dev/null | grep -q served && echo %[2]d; ", from.ip, port)
	}
	out, err := g.runCommand(ctx, script.String()+"true")
	return strings.Join(strings.Fields(out), " "), err
}

// TestSecurityGroupBlocksPortBetweenGuests checks the rules of a security group between two running guests on one
// network of a real host. Removing a rule must block its port and no other port. A new rule must open the port again
// for the members of a group, while they are members. The portal's rule test must agree with the actual traffic.
func TestSecurityGroupBlocksPortBetweenGuests(t *testing.T) {
	t.Parallel()
	// The hosts are in networks of their own, apart from other tests' hosts: whenever libvirt writes firewall rules, it
	// briefly removes the jump to all its rules, which would open this test's firewall.
	s := newSwitchedLab(t, uniqueName("groups"))
	a := s.api
	const prefix = "10.75.0."
	mac := func(i int) string { return fmt.Sprintf("52:54:00:5e:75:%02x", i) }
	s.defineNetwork(t, "guests", map[string]any{"mode": "isolated", "ipv4": map[string]any{"gateway": prefix + "1/24", "dhcp": map[string]any{
		"leases": []any{map[string]any{"mac": mac(11), "ip": prefix + "11"}, map[string]any{"mac": mac(12), "ip": prefix + "12"}},
	}}}, 0)
	s.waitNetwork(t, "guests", "it is up", isNetworkUp)
	for name := range strings.FieldsSeq(virsh(t, s.Hosts[0], "list", "--name")) {
		virsh(t, s.Hosts[0], "destroy", name) // this guest of the lab would slow the machine down
	}

	project, pool := a.projectByName(t, "lab"), a.poolByName(t, "shared")
	create := func(name string, rules ...map[string]any) secgroup.View {
		t.Helper()
		return requestJSON[secgroup.View](t, a, http.StatusCreated, http.MethodPost, "/api/v1/security-groups", map[string]any{
			"projectId": project.ID, "name": name, "spec": map[string]any{"rules": rules},
		})
	}
	out := map[string]any{"direction": "egress", "protocol": "any"}
	in := func(port int, more ...any) map[string]any {
		rule := map[string]any{"direction": "ingress", "protocol": "tcp", "fromPort": port}
		if len(more) > 0 {
			rule["groupId"] = more[0]
		}
		return rule
	}
	clients := create("clients", out)
	web := create("web", out, in(80), in(81))

	boot := func(name string, number int, group fleet.SecurityGroupID) agentGuest {
		t.Helper()
		vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
			"name": name, "projectId": project.ID, "hostId": s.hosts[0].ID, "start": true,
			"spec": map[string]any{
				"cpus": 1, "memoryMiB": 192, "disks": []any{map[string]any{"poolId": pool.ID, "image": map[string]any{"poolId": pool.ID, "volume": "tiny-guest.qcow2"}}},
				"nics": []any{map[string]any{"networkId": s.ids["guests"], "mac": mac(number), "securityGroups": []any{group}}},
			},
		})
		return agentGuest{s.Hosts[0], vm, fmt.Sprint(prefix, number)}
	}
	client, server := boot("client", 11, clients.ID), boot("server", 12, web.ID)
	for _, g := range []agentGuest{client, server} {
		a.waitPhase(t, bootLimit, g.vm.ID, fleet.PhaseRunning)
		eventually(t, bootLimit, g.vm.Name+" has its address", func() (bool, string) {
			out, err := g.runCommand(t.Context(), "ip -4 addr show dev eth0")
			return err == nil && strings.Contains(out, g.ip+"/"), fmt.Sprint(out, err)
		})
	}
	// The servers listen permanently. If a server were restarted for each request, it might not listen yet when a
	// request comes.
	eventually(t, guestLimit, "the server serves", func() (bool, string) {
		_, err := server.runCommand(t.Context(), "mkdir -p /tmp/www; echo served >/tmp/www/index.html; for p in 80 81; do httpd -p $p -h /tmp/www; done 2>/dev/null")
		here := server
		here.ip = "127.0.0.1"
		got, bad := server.fetchPorts(t.Context(), here, 80, 81)
		return got == "80 81", fmt.Sprint(got, err, bad)
	})

	// sees waits until the client gets pages from exactly the wanted ports among 80 and 81, three times in a row. In
	// each round an open port answers, so only the rules can block the other port.
	sees := func(what, want string) {
		t.Helper()
		rounds := 0
		eventually(t, guestLimit, fmt.Sprintf("%s: pages only on ports %q", what, want), func() (bool, string) {
			got, err := client.fetchPorts(t.Context(), server, 80, 81)
			if rounds++; err != nil || got != want {
				rounds = 0
			}
			return rounds == 3, fmt.Sprintf("pages on %q, %v", got, err)
		})
		for _, port := range []string{"80", "81"} {
			answer := requestJSON[connectivity.PassAnswer](t, a, http.StatusOK, http.MethodGet, "/api/v1/security-groups/test?protocol=tcp&port="+port+"&fromVm="+string(client.vm.ID)+"&toVm="+string(server.vm.ID), nil)
			if answer.Pass != strings.Contains(want, port) || !answer.Known {
				t.Errorf("%s: the portal's rule test for port %s: %+v", what, port, answer)
			}
		}
	}
	rules := func(rules ...map[string]any) {
		t.Helper()
		requestJSON[any](t, a, http.StatusOK, http.MethodPatch, "/api/v1/security-groups/"+string(web.ID), map[string]any{"spec": map[string]any{"rules": rules}})
	}
	sees("both ports are open", "80 81")
	rules(out, in(81))
	sees("the rule for port 80 is gone", "81")
	rules(out, in(81), in(80, clients.ID))
	sees("port 80 is open to the members of a group", "80 81")
	nics := a.getVM(t, client.vm.ID).Spec.NICs
	nics[0].SecurityGroups = nil
	requestJSON[any](t, a, http.StatusOK, http.MethodPatch, "/api/v1/vms/"+string(client.vm.ID), map[string]any{"spec": map[string]any{"nics": nics}})
	sees("the client is no longer a member", "81")
	rules(out, in(81), in(80))
	sees("both ports are open again", "80 81")

	// If Linux does not pass bridged packets to iptables, a host cannot filter them. The portal must report this.
	filterBridges := func(value string) {
		t.Helper()
		s.runInNetwork(t, 0, "sh", "-c", "echo "+value+" >/proc/sys/net/bridge/bridge-nf-call-iptables")
	}
	state := func(what string, want secgroup.State, says string) {
		t.Helper()
		eventually(t, guestLimit, what, func() (bool, string) {
			g := requestJSON[secgroup.View](t, a, http.StatusOK, http.MethodGet, "/api/v1/security-groups/"+string(web.ID), nil)
			if len(g.Hosts) != 1 || g.Hosts[0].Status == nil {
				return false, fmt.Sprintf("%+v", g.Hosts)
			}
			h := g.Hosts[0]
			return h.State == want && strings.Contains(h.Status.Error+h.Status.Drift, says), fmt.Sprintf("%s %+v", h.State, h.Status)
		})
	}
	const why = "Set net.bridge.bridge-nf-call-iptables to 1"
	filterBridges("0")
	state("the host reports that no rule applies", secgroup.Changed, why)
	rules(out, in(81))
	state("it refuses more rules", secgroup.NotApplied, why)
	filterBridges("1")
	requestJSON[any](t, a, http.StatusNoContent, http.MethodPost, "/api/v1/security-groups/"+string(web.ID)+"/retry", nil)
	state("rules applied after retry", secgroup.Applied, "")
	sees("as they say", "81")
}
