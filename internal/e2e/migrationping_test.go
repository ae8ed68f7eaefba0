//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// pingInterval is the time between two pings, and so the precision of a measured pause.
const pingInterval = 20 * time.Millisecond

// TestLiveMigrationKeepsPingBetweenHosts pings a VM from a guest of another host while the VM migrates by the portal,
// and back by virsh. The VM must answer from its new host. The log shows both pauses; a pause is no assertion, because
// it depends on the machine.
func TestLiveMigrationKeepsPingBetweenHosts(t *testing.T) {
	t.Parallel()
	files, err := lab.GuestImage(t.Context(), lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	s := newSwitchedLab(t, uniqueName("pinged"))
	s.defineNetwork(t, "wire", map[string]any{"mode": "uplink", "device": "eth1", "bridge": "qx-wire"}, 0, 1)
	s.waitNetwork(t, "wire", "it is up", isNetworkUp)
	pool := s.poolByName(t, "shared")
	vm := requestJSON[fleet.VMView](t, s.api, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": "pinged", "projectId": s.projectByName(t, "lab").ID, "hostId": s.hosts[0].ID, "start": true,
		"spec": map[string]any{
			"cpus": 1, "memoryMiB": 192, "nics": []any{map[string]any{"networkId": s.ids["wire"]}},
			"disks": []any{map[string]any{"poolId": pool.ID, "image": map[string]any{"poolId": pool.ID, "volume": "tiny-guest.qcow2"}}},
		},
	})
	from := s.bootGuest(t, files, 1, "pinger", "wire").waitReady("10.76.0.1/24")
	s.waitPhase(t, bootLimit, vm.ID, fleet.PhaseRunning)
	guest := agentGuest{s.Hosts[0], vm, "10.76.0.2"}
	eventually(t, bootLimit, "the VM has its address", func() (bool, string) {
		out, err := guest.runCommand(t.Context(), "killall udhcpc; ip addr replace "+guest.ip+"/24 dev eth0 && ip link set eth0 up && echo ready")
		return err == nil && out == "ready\n", fmt.Sprint(out, err)
	})
	from.checkReaches("before a migration", guest.ip)

	from.startPings(guest.ip)
	task := requestJSON[fleet.Task](t, s.api, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/migrate", map[string]any{"hostId": s.hosts[1].ID, "mode": "live"})
	eventually(t, guestLimit, "the end of the migration", func() (bool, string) {
		got := requestJSON[fleet.Task](t, s.api, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return got.State == fleet.JobDone, string(got.State) + " " + got.Error
	})
	from.checkReaches("after the migration by the portal", guest.ip)
	t.Logf("longest pause by the portal: %s", from.longestPause())

	from.startPings(guest.ip)
	address := hostAddress.FindStringSubmatch(s.runInNetwork(t, 0, "ip", "-4", "-o", "addr", "show", "dev", "eth0"))
	if address == nil {
		t.Fatal("host-1 has no address")
	}
	s.virshMigrate(t, vm.Name, 1, 0, "--persistent", "--undefinesource", "--migrateuri", "tcp://"+address[1])
	from.checkReaches("after the migration by virsh", guest.ip)
	t.Logf("longest pause by virsh: %s", from.longestPause())
}

var hostAddress = regexp.MustCompile(`inet ([\d.]+)/`)

const pingLog = "/tmp/pings"

// startPings starts a ping that runs until longestPause.
func (g *netGuest) startPings(to string) {
	g.t.Helper()
	g.runCommand(fmt.Sprintf("ping -i %g %s >%s 2>&1 &", pingInterval.Seconds(), to, pingLog))
	eventually(g.t, stepLimit, "answers to the pings", func() (bool, string) {
		out := g.runCommand("grep -c seq= " + pingLog)
		n, err := strconv.Atoi(pingCount.FindString(out))
		return err == nil && n > 10, out
	})
}

var (
	pingCount = regexp.MustCompile(`\d+`)
	pingSeq   = regexp.MustCompile(`seq=(\d+)`)
)

// longestPause ends the ping and returns the longest time without an answer.
func (g *netGuest) longestPause() time.Duration {
	g.t.Helper()
	g.runCommand("killall -INT ping; wait")
	last, longest := -1, 0
	for _, m := range pingSeq.FindAllStringSubmatch(g.runCommand("grep -o 'seq=[0-9]*' "+pingLog), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			g.t.Fatal(err)
		}
		if last >= 0 {
			longest = max(longest, n-last-1)
		}
		last = n
	}
	if last < 0 {
		g.t.Fatal("no ping was answered")
	}
	return time.Duration(longest) * pingInterval
}
