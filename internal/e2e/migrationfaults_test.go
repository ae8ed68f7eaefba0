//go:build linux && ordeal

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/lab"
	"quantix/internal/testkit/tier"
)

// Sizes of the sampled test. QUANTIX_TEST_FAULTS sets another number of faults.
const (
	faultsEnv       = "QUANTIX_TEST_FAULTS"
	sampledFaults   = 17
	faultRate       = 24 << 20                  // of the migration, bytes per second
	longestDelay    = 7 * time.Second           // of a fault, from the request for the migration
	longestHang     = fleet.Lease + time.Second // of a stopped process
	usualHang       = 4 * time.Second
	migrationsLimit = 2*fleet.Lease + guestLimit // for the end of a migration with a fault
)

// riskyHosts are two real hosts with a portal and a PostgreSQL of their own, and a VM that migrates between the hosts.
type riskyHosts struct {
	*faultRig
	rigs   [2]*faultRig
	random *rand.Rand
	dir    string // name of the local pool, of its directory, and of the VM's network
	name   string
	vm     fleet.VMID
	pool   fleet.PoolID
	lan    fleet.NetworkID
	at     int // index of the VM's host
}

func newRiskyHosts(t *testing.T, seed int) *riskyHosts {
	t.Helper()
	r := &riskyHosts{faultRig: newRigWithoutHost(t, "risky-1", 21), random: rand.New(rand.NewPCG(uint64(seed), 0)), name: uniqueName("risky")}
	r.rigs[0] = r.faultRig
	r.rigs[1] = &faultRig{t: t, name: "risky-2", dir: filepath.Join(r.faultRig.dir, "b"), pg: r.pg, portal: r.portal, cutProxy: r.agentURL}
	if err := os.Mkdir(r.rigs[1].dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.rigs[1].startHost("risky-2", 22)
	r.dir = r.name
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(guest.Disk)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []fleet.HostID
	for _, rig := range r.rigs {
		if err := os.MkdirAll(r.images(rig), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(r.images(rig), "tiny-guest.qcow2"), string(image))
		rig.joinHost()
		hosts = append(hosts, r.api().hostByName(t, rig.name).ID)
	}
	project := requestJSON[fleet.Project](t, r.api(), http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "risky"})
	r.pool = requestJSON[fleet.PoolView](t, r.api(), http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": r.dir, "hostIds": hosts, "spec": map[string]any{"kind": "dir", "path": "/var/lib/libvirt/images/" + r.dir},
	}).ID
	eventually(t, guestLimit, "the image in the pool", func() (bool, string) {
		on := requestJSON[fleet.PoolView](t, r.api(), http.StatusOK, http.MethodGet, "/api/v1/pools/"+string(r.pool), nil).Hosts
		return len(on) == 2 && on[0].State == fleet.PoolActive && on[1].State == fleet.PoolActive, fmt.Sprintf("%+v", on)
	})
	r.lan = requestJSON[fleet.NetworkView](t, r.api(), http.StatusCreated, http.MethodPost, "/api/v1/networks", map[string]any{
		"name": r.dir, "hostIds": hosts[:1], "spec": map[string]any{"mode": "isolated"},
	}).ID
	// The two libvirtds share the kernel's interface names. Assigned at the same time, both would choose the same bridge.
	r.waitNetwork(1)
	requestJSON[any](t, r.api(), http.StatusAccepted, http.MethodPut, "/api/v1/networks/"+string(r.lan)+"/hosts/"+string(hosts[1]), nil)
	r.waitNetwork(2)
	eventually(t, guestLimit, "the VM", func() (bool, string) {
		got, err := r.api().send(t.Context(), http.MethodPost, "/api/v1/vms", map[string]any{
			"name": r.name, "projectId": project.ID, "hostId": hosts[0], "start": true,
			"spec": map[string]any{"cpus": 1, "memoryMiB": 160, "disks": []any{
				map[string]any{"poolId": r.pool, "image": map[string]any{"poolId": r.pool, "volume": "tiny-guest.qcow2"}},
				map[string]any{"poolId": r.pool, "sizeBytes": 16 << 20},
			}, "nics": []any{map[string]any{"networkId": r.lan}}},
		})
		var vm fleet.VMView
		ok := err == nil && got.status == http.StatusCreated && json.Unmarshal(got.body, &vm) == nil
		r.vm = vm.ID
		return ok, string(got.body)
	})
	r.api().waitPhase(t, guestLimit, r.vm, fleet.PhaseRunning)
	return r
}

// images is the directory of the local pool on a host.
func (r *riskyHosts) images(rig *faultRig) string {
	return filepath.Join(rig.dir, "h/lib/images", r.dir)
}

// inGuest runs a shell script in the guest and returns its output.
func (r *riskyHosts) inGuest(script string) (string, error) {
	call := func(command string, arguments map[string]any, out any) error {
		text, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
		if err != nil {
			return err
		}
		answer, err := r.rigs[r.at].host.Virsh(r.t.Context(), "qemu-agent-command", "--timeout", "10", r.name, string(text))
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(answer), out)
	}
	var started struct{ Return struct{ PID int } }
	if err := call("guest-exec", map[string]any{"path": "/bin/sh", "arg": []string{"-c", script}, "capture-output": true}, &started); err != nil {
		return "", err
	}
	for range 200 {
		var state struct {
			Return struct {
				Exited  bool
				OutData string `json:"out-data"`
			}
		}
		if err := call("guest-exec-status", map[string]any{"pid": started.Return.PID}, &state); err != nil {
			return "", err
		}
		if state.Return.Exited {
			out, err := base64.StdEncoding.DecodeString(state.Return.OutData)
			return strings.TrimSpace(string(out)), err
		}
		time.Sleep(pollEvery)
	}
	return "", errors.New("the script did not end")
}

// guestSays runs the script until it succeeds with an output that ok accepts.
func (r *riskyHosts) guestSays(what, script string, ok func(string) bool) (out string) {
	r.t.Helper()
	eventually(r.t, guestLimit, what, func() (bool, string) {
		var err error
		out, err = r.inGuest(script)
		return err == nil && ok(out), fmt.Sprint(out, err)
	})
	return out
}

// Scripts in the guest. The counter is only in the guest's memory; the pattern is only on its second disk.
const (
	startCounter = `[ -e /tmp/counter ] || { echo 1 >/tmp/counter; (n=1; while sleep 0.2; do n=$((n+1)); echo $n >/tmp/counter; done) >/dev/null 2>&1 & }; cat /tmp/counter`
	readCounter  = `cat /tmp/counter`
	writePattern = `yes quantix | head -c 8388608 | dd of=/dev/vdb bs=64k conv=fsync 2>/dev/null; sync; echo 3 >/proc/sys/vm/drop_caches; head -c 8388608 /dev/vdb | md5sum`
	readPattern  = `echo 3 >/proc/sys/vm/drop_caches; head -c 8388608 /dev/vdb | md5sum`
)

// counter returns the guest's counter once it has passed the value.
func (r *riskyHosts) counter(above int) (n int) {
	r.t.Helper()
	r.guestSays(fmt.Sprintf("a counter above %d", above), readCounter, func(s string) bool {
		var err error
		n, err = strconv.Atoi(s)
		return err == nil && n > above
	})
	return n
}

// guestPIDs returns the process IDs of all QEMUs of the VM, on both hosts.
func (r *riskyHosts) guestPIDs() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if pid, err := strconv.Atoi(e.Name()); err == nil && strings.Contains(string(args), "guest="+r.name+",") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// sampledFault is a fault during a migration. inject returns when the fault is over.
type sampledFault struct {
	name    string
	killsVM bool                                   // the guest may end
	inject  func(r *riskyHosts, source int) string // source: the process ID of the guest on its host
}

func (r *riskyHosts) stopAndContinue(pids ...int) string {
	pause := time.Duration(r.random.Int64N(int64(usualHang)))
	if r.random.IntN(4) == 0 {
		pause = longestHang
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	time.Sleep(pause)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	return "for " + pause.Round(time.Millisecond).String()
}

func (r *riskyHosts) stopGuest(pid int) string { return r.stopAndContinue(pid) }

func (r *riskyHosts) agentPID(host int) int {
	return labAgentPID(r.t, filepath.Join(r.rigs[host].dir, "h"))
}

func (r *riskyHosts) stopLibvirtd(host int) string {
	text, err := os.ReadFile(filepath.Join(r.rigs[host].dir, "h/run/libvirtd.pid"))
	if err != nil {
		r.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		r.t.Fatal(err)
	}
	return r.stopAndContinue(pid)
}

// cutStream closes the connections between the two agents, as a firewall or a switch may do.
func (r *riskyHosts) cutStream() string {
	out, err := exec.CommandContext(r.t.Context(), "ss", "-Htnp", "state", "established").Output()
	if err != nil {
		r.t.Fatal(err)
	}
	source, target := fmt.Sprintf(",pid=%d,", r.agentPID(r.at)), fmt.Sprintf(",pid=%d,", r.agentPID(1-r.at))
	ends := func(agent string) (found [][2]string) {
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) > 4 && strings.Contains(f[4], agent) {
				found = append(found, [2]string{f[2], f[3]})
			}
		}
		return found
	}
	cut := 0
	targets := ends(target)
	for _, end := range ends(source) {
		if !slices.Contains(targets, [2]string{end[1], end[0]}) {
			continue
		}
		if out, err := exec.CommandContext(r.t.Context(), "ss", "-K", "-tn", "src", end[0], "dst", end[1]).CombinedOutput(); err != nil {
			r.t.Fatalf("%v: %s", err, out)
		}
		cut++
	}
	return fmt.Sprintf("of %d connections", cut)
}

func (r *riskyHosts) killAgent(host int) string {
	rig := r.rigs[host]
	_ = syscall.Kill(r.agentPID(host), syscall.SIGKILL)
	path, err := binary()
	if err != nil {
		r.t.Fatal(err)
	}
	rig.startAgent(path)
	return ""
}

func (r *riskyHosts) killLibvirtd(host int) string {
	if err := r.rigs[host].host.KillLibvirtd(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if err := r.rigs[host].host.StartLibvirtd(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return ""
}

// signalGuest signals the VM's QEMU on the source or on the target, if there is one.
func (r *riskyHosts) signalGuest(source int, onTarget bool, act func(pid int) string) string {
	for _, pid := range r.guestPIDs() {
		if (pid == source) != onTarget {
			return act(pid)
		}
	}
	return "there was none"
}

func killProcess(pid int) string { return fmt.Sprint(syscall.Kill(pid, syscall.SIGKILL)) }

func (r *riskyHosts) killPostgres() string {
	for _, pid := range slices.Backward(r.postgresProcesses()) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err := r.pg.Stop(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.startPostgres()
	return ""
}

func (r *riskyHosts) waitPortal() {
	r.t.Helper()
	eventually(r.t, endLimit, "the portal's readiness", func() (bool, string) {
		res, err := httpClient.Get(r.url + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK, res.Status
	})
}

// sampledFaultKinds are the faults. Each is as likely as the others.
var sampledFaultKinds = []sampledFault{
	{name: "SIGKILL of the source's agent", inject: func(r *riskyHosts, _ int) string { return r.killAgent(r.at) }},
	{name: "SIGKILL of the target's agent", inject: func(r *riskyHosts, _ int) string { return r.killAgent(1 - r.at) }},
	{name: "SIGSTOP of the source's agent", inject: func(r *riskyHosts, _ int) string {
		return r.stopAndContinue(r.agentPID(r.at))
	}},
	{name: "SIGSTOP of the target's agent", inject: func(r *riskyHosts, _ int) string {
		return r.stopAndContinue(r.agentPID(1 - r.at))
	}},
	{name: "SIGKILL of the source's libvirtd", inject: func(r *riskyHosts, _ int) string { return r.killLibvirtd(r.at) }},
	{name: "SIGKILL of the target's libvirtd", inject: func(r *riskyHosts, _ int) string { return r.killLibvirtd(1 - r.at) }},
	{name: "SIGSTOP of the source's libvirtd", inject: func(r *riskyHosts, _ int) string { return r.stopLibvirtd(r.at) }},
	{name: "SIGSTOP of the target's libvirtd", inject: func(r *riskyHosts, _ int) string { return r.stopLibvirtd(1 - r.at) }},
	{name: "SIGKILL of the source's QEMU", killsVM: true, inject: func(r *riskyHosts, source int) string { return r.signalGuest(source, false, killProcess) }},
	{name: "SIGKILL of the target's QEMU", killsVM: true, inject: func(r *riskyHosts, source int) string { return r.signalGuest(source, true, killProcess) }},
	{name: "SIGSTOP of the source's QEMU", inject: func(r *riskyHosts, source int) string { return r.signalGuest(source, false, r.stopGuest) }},
	{name: "SIGSTOP of the target's QEMU", inject: func(r *riskyHosts, source int) string { return r.signalGuest(source, true, r.stopGuest) }},
	{name: "SIGKILL of the portal", inject: func(r *riskyHosts, _ int) string { r.kill(); r.start(r.program.name); return "" }},
	{name: "SIGKILL of PostgreSQL", inject: func(r *riskyHosts, _ int) string { return r.killPostgres() }},
	{name: "SIGSTOP of the portal", inject: func(r *riskyHosts, _ int) string { return r.stopAndContinue(r.program.cmd.Process.Pid) }},
	{name: "SIGSTOP of PostgreSQL", inject: func(r *riskyHosts, _ int) string { return r.stopAndContinue(r.postgresProcesses()...) }},
	{name: "cut of the stream", inject: func(r *riskyHosts, _ int) string { return r.cutStream() }},
}

// TestMigrationSurvivesRandomFaults migrates a running VM between two real hosts, with a random fault at a random time of
// each migration. Each time exactly one QEMU runs the VM, a counter in the guest's memory goes on, the disk keeps its
// pattern, and the other host has nothing. If the fault kills a QEMU, the VM may be off instead.
func TestMigrationSurvivesRandomFaults(t *testing.T) {
	t.Parallel()
	seed := tier.Seed()
	runs := sampledFaults
	if text := os.Getenv(faultsEnv); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	r := newRiskyHosts(t, seed)
	t.Logf("%d faults: repeat with %s=%d", runs, tier.SeedVariable, seed)
	r.guestSays("the counter", startCounter, func(s string) bool { return s != "" })
	pattern := r.guestSays("the pattern", writePattern, func(s string) bool { return len(s) > 32 })
	r.checkFullTarget(r.counter(0))
	r.checkMissingNetwork(r.counter(0))
	kinds := r.random.Perm(len(sampledFaultKinds))
	for n := range runs {
		if n > 0 && n%len(kinds) == 0 {
			kinds = r.random.Perm(len(sampledFaultKinds))
		}
		fault := sampledFaultKinds[kinds[n%len(kinds)]]
		before := r.counter(0)
		source := r.guestPIDs()[0]
		delay := time.Duration(r.random.Int64N(int64(longestDelay)))
		task := r.migrate()
		time.Sleep(delay)
		detail := fault.inject(r, source)
		r.waitPortal()
		end := r.waitEnd(task)
		from := r.rigs[r.at].name
		runsNow := r.settle(fault)
		t.Logf("%d: from %s, %s %s after %s: %s on %s: %s", n+1, from, fault.name, detail, delay.Round(time.Millisecond), end.State, r.rigs[r.at].name, end.Error+end.Note)
		if !runsNow {
			requestJSON[fleet.Task](t, r.api(), http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(r.vm)+"/actions", map[string]any{"action": "start"})
			r.api().waitPhase(t, guestLimit, r.vm, fleet.PhaseRunning)
			r.guestSays("the counter", startCounter, func(s string) bool { return s != "" })
			before = 0
		}
		r.counter(r.counter(before))
		if now := r.guestSays("the pattern", readPattern, func(s string) bool { return len(s) > 32 }); now != pattern {
			t.Fatalf("the disk has the checksum %s, want %s", now, pattern)
		}
	}
}

// checkFullTarget migrates the VM to a pool whose storage on the target is smaller than the disks' data. The portal refuses
// that. If a user orders it nevertheless, the VM stays on its host, and the target has no copy.
func (r *riskyHosts) checkFullTarget(counter int) {
	r.t.Helper()
	small := "/var/lib/libvirt/images/" + r.dir + "-small"
	for i, rig := range r.rigs {
		script := "mkdir " + small
		if i == 1 {
			script += " && mount -t tmpfs -o size=4m none " + small
		}
		if out, err := rig.host.Command(r.t.Context(), "sh", "-c", script).CombinedOutput(); err != nil {
			r.t.Fatalf("%v: %s", err, out)
		}
	}
	to := r.api().hostByName(r.t, r.rigs[1].name).ID
	hosts := []fleet.HostID{r.api().hostByName(r.t, r.rigs[0].name).ID, to}
	pool := requestJSON[fleet.PoolView](r.t, r.api(), http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": r.dir + "-small", "hostIds": hosts, "spec": map[string]any{"kind": "dir", "path": small},
	}).ID
	eventually(r.t, guestLimit, "the small pool on the target", func() (bool, string) {
		on := requestJSON[fleet.PoolView](r.t, r.api(), http.StatusOK, http.MethodGet, "/api/v1/pools/"+string(pool), nil).Hosts
		return len(on) == 2 && on[0].State == fleet.PoolActive && on[1].State == fleet.PoolActive, fmt.Sprintf("%+v", on)
	})
	order := map[string]any{"hostId": to, "poolId": pool, "mode": "live"}
	path := "/api/v1/vms/" + string(r.vm) + "/migrate"
	if got, err := r.api().send(r.t.Context(), http.MethodPost, path, order); err != nil || got.status/100 != 4 {
		r.t.Errorf("the migration to a full pool was answered with %d %s, %v; want a refusal", got.status, got.body, err)
	}
	order["overcommit"] = true
	end := r.waitEnd(requestJSON[fleet.Task](r.t, r.api(), http.StatusAccepted, http.MethodPost, path, order))
	if r.t.Logf("to a full pool: %s: %s", end.State, end.Error); end.State != fleet.JobFailed {
		r.t.Errorf("the migration to a full pool is %s", end.State)
	}
	if r.settle(sampledFault{}); r.at != 0 {
		r.t.Error("the VM migrated to a full pool")
	}
	r.counter(counter)
	left, err := r.rigs[1].host.Command(r.t.Context(), "sh", "-c", "ls "+small+"/*.qcow2 "+small+"/*.raw 2>/dev/null; true").Output()
	if err != nil || len(left) > 0 {
		r.t.Errorf("the full pool has %s, %v", left, err)
	}
}

// checkMissingNetwork removes the VM's network from the target with virsh before the portal knows it. The VM stays on its
// host, and the error names the network.
func (r *riskyHosts) checkMissingNetwork(counter int) {
	r.t.Helper()
	target := r.rigs[1].host
	for _, command := range []string{"net-destroy", "net-undefine"} {
		if _, err := target.Virsh(r.t.Context(), command, r.dir); err != nil {
			r.t.Fatal(err)
		}
	}
	to := r.api().hostByName(r.t, r.rigs[1].name).ID
	got, err := r.api().send(r.t.Context(), http.MethodPost, "/api/v1/vms/"+string(r.vm)+"/migrate", map[string]any{"hostId": to, "mode": "live"})
	if err != nil {
		r.t.Fatal(err)
	}
	why := string(got.body)
	if got.status == http.StatusAccepted {
		var task fleet.Task
		if err := json.Unmarshal(got.body, &task); err != nil {
			r.t.Fatal(err)
		}
		end := r.waitEnd(task)
		if why = end.Error; end.State != fleet.JobFailed {
			r.t.Errorf("the migration without the network on the target is %s", end.State)
		}
	}
	if r.t.Logf("to a host without the network: %d: %s", got.status, why); !strings.Contains(why, r.dir) {
		r.t.Errorf("the error does not name the network %s", r.dir)
	}
	if r.settle(sampledFault{}); r.at != 0 {
		r.t.Error("the VM migrated to a host without its network")
	}
	r.counter(counter)
	requestJSON[any](r.t, r.api(), http.StatusAccepted, http.MethodPost, "/api/v1/networks/"+string(r.lan)+"/hosts/"+string(to)+"/retry", nil)
	r.waitNetwork(2)
}

// waitNetwork waits until the VM's network is active on that many hosts.
func (r *riskyHosts) waitNetwork(hosts int) {
	r.t.Helper()
	eventually(r.t, guestLimit, fmt.Sprintf("the network on %d hosts", hosts), func() (bool, string) {
		on := requestJSON[fleet.NetworkView](r.t, r.api(), http.StatusOK, http.MethodGet, "/api/v1/networks/"+string(r.lan), nil).Hosts
		inactive := func(h fleet.NetworkHost) bool { return h.State != fleet.NetworkActive }
		return len(on) == hosts && !slices.ContainsFunc(on, inactive), fmt.Sprintf("%+v", on)
	})
}

// migrate requests a migration to the other host, once the portal accepts the request.
func (r *riskyHosts) migrate() (task fleet.Task) {
	r.t.Helper()
	to := r.api().hostByName(r.t, r.rigs[1-r.at].name).ID
	eventually(r.t, guestLimit, "the request for a migration", func() (bool, string) {
		got, err := r.api().send(r.t.Context(), http.MethodPost, "/api/v1/vms/"+string(r.vm)+"/migrate", map[string]any{"hostId": to, "mode": "live", "rateBytes": faultRate})
		return err == nil && got.status == http.StatusAccepted && json.Unmarshal(got.body, &task) == nil, string(got.body)
	})
	return task
}

func (r *riskyHosts) waitEnd(task fleet.Task) (end fleet.Task) {
	r.t.Helper()
	eventually(r.t, migrationsLimit, "the end of the migration's task", func() (bool, string) {
		got, err := r.api().send(r.t.Context(), http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return err == nil && got.status == http.StatusOK && json.Unmarshal(got.body, &end) == nil && end.State.IsFinal(), string(got.body)
	})
	return end
}

// settle waits until exactly one host has the VM, and sets r.at. It reports whether the VM runs.
func (r *riskyHosts) settle(fault sampledFault) (running bool) {
	r.t.Helper()
	eventually(r.t, guestLimit, "the VM on one host", func() (bool, string) {
		vm := r.api().getVM(r.t, r.vm)
		var states, files [2]string
		owner := -1
		for i, rig := range r.rigs {
			states[i], _ = rig.host.Virsh(r.t.Context(), "domstate", r.name)
			names, err := filepath.Glob(filepath.Join(r.images(rig), r.name+"*"))
			if err != nil {
				return false, err.Error()
			}
			files[i] = strings.Join(names, " ")
			if rig.name == vm.HostName {
				owner = i
			}
		}
		pids := r.guestPIDs()
		why := fmt.Sprintf("the portal says %s on %s, attention %v, %+v; the hosts say %q, with the files %q and the processes %v", vm.Phase, vm.HostName, vm.Attention, vm.Status, states, files, pids)
		if owner < 0 || states[1-owner] != "" || files[1-owner] != "" || strings.Count(files[owner], ".qcow2")+strings.Count(files[owner], ".raw") != 2 {
			return false, why
		}
		r.at, running = owner, states[owner] == "running"
		if running {
			return len(pids) == 1 && vm.Phase == fleet.PhaseRunning && !vm.Attention, why
		}
		return fault.killsVM && len(pids) == 0 && slices.Contains([]fleet.Phase{fleet.PhaseStopped, fleet.PhaseCrashed}, vm.Phase), why
	})
	return running
}
