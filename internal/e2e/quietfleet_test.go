//go:build linux && ordeal

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/agent"
	"quantix/agent/mock"
	"quantix/agent/transfer"
	"quantix/db"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit/tier"
)

// Times of TestUsualOperationRaisesNoAlarm. They are shorter than those of the product, so that a wrong condition is
// an alarm sooner.
const (
	quietRuns     = 100
	quietReports  = fleet.MinReportInterval // interval of the hosts' reports in seconds
	quietWait     = 10 * time.Second        // longest duration of a rule
	quietEvaluate = 500 * time.Millisecond  // interval of evaluations; the portal's own ones continue
	longAbsence   = 2*quietWait + fleet.MinReportInterval*3*time.Second
	bootTime      = 21 * time.Second // longer than the agent of a machine that is off counts as alive
	quietVMs      = 4
)

// quietHost is a simulated host. Its guests continue while its agent is stopped.
type quietHost struct {
	f       *quietFleet
	host    *mock.Host
	id      fleet.HostID
	name    string
	dir     string
	ports   transfer.PortRange
	version int
	boot    int        // number of reboots
	booted  *time.Time // of the last reboot

	mu   sync.Mutex // a shutdown of the host stops the agent, too
	stop func()     // nil: no agent runs
}

// start runs the agent. Each start is a new version.
func (h *quietHost) start() {
	h.f.t.Helper()
	h.version++
	identity, err := agent.OpenIdentity(h.dir)
	if err != nil {
		h.f.t.Fatal(err)
	}
	client, err := identity.Client(h.f.portal.agentURL)
	if err != nil {
		h.f.t.Fatal(err)
	}
	run, err := agent.New(agent.Options{
		Identity: identity, Client: client, Hypervisor: h.host, Inventory: h.inventory, NICs: h.host.NICs, Load: h.host.Load, Memory: h.host.Memory, Version: h.versionText(), Ports: h.ports,
		Settings: fleet.AgentSettings{ReportInterval: quietReports}, Log: slog.New(slog.NewTextHandler(h.f.agentLog, nil)).With("host", h.name),
		HostPower: func(context.Context, fleet.JobKind) error { go h.stopAgent(); return nil },
	})
	if err != nil {
		h.f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer identity.Close()
		defer client.Close()
		if err := run.Run(ctx); err != nil {
			h.f.t.Error(err)
		}
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = func() { cancel(); <-ended }
}

// inventory is the simulated hardware after the host's reboots.
func (h *quietHost) inventory(ctx context.Context) (fleet.Inventory, error) {
	inv, err := h.host.Inventory(ctx)
	if h.booted != nil {
		inv.BootID, inv.BootedAt = fmt.Sprintf("%s-%d", inv.BootID, h.boot), h.booted
	}
	return inv, err
}

// bootUp boots the host whose agent is stopped, and waits for its reports.
func (h *quietHost) bootUp() {
	h.f.t.Helper()
	h.boot, h.booted = h.boot+1, new(time.Now())
	h.f.pause(2 * time.Second)
	h.start()
	h.waitOnline()
}

func (h *quietHost) versionText() string { return fmt.Sprintf("1.%d", h.version) }

// stopAgent stops the agent as systemd does, and waits for its end.
func (h *quietHost) stopAgent() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// waitOnline waits until the agent of the newest version reports.
func (h *quietHost) waitOnline() {
	h.f.t.Helper()
	eventually(h.f.t, stepLimit, "reports of "+h.name, func() (bool, string) {
		v := h.view()
		return v.Phase == fleet.HostOnline && v.Status != nil && v.Status.AgentVersion == h.versionText(), string(v.Phase)
	})
}

func (h *quietHost) view() fleet.HostView {
	h.f.t.Helper()
	return requestJSON[fleet.HostView](h.f.t, h.f.api, http.StatusOK, http.MethodGet, "/api/v1/hosts/"+string(h.id), nil)
}

// quietFleet is a portal with two simulated hosts and their VMs.
type quietFleet struct {
	t        *testing.T
	portal   *portal
	api      api
	random   *rand.Rand
	pg       *pgxpool.Pool
	control  *control.Control // evaluates the rules more often than the portal
	agentLog *os.File
	hosts    [2]*quietHost
	pool     fleet.PoolID
	vms      []fleet.VMID

	evaluating sync.Mutex     // held while the rules must not be evaluated
	passes     int            // number of evaluations of the test
	pending    map[string]int // by rule: evaluations that found its condition held, but not long enough
	raised     map[string]bool
}

func newQuietFleet(t *testing.T) *quietFleet {
	t.Helper()
	f := &quietFleet{t: t, random: rand.New(rand.NewPCG(uint64(tier.Seed()), 0)), pending: map[string]int{}, raised: map[string]bool{}}
	name := uniqueName("quiet")
	server := newPostgres(t, name+"-pg")
	f.portal = newPortal(t, name, "--database-url", server.URL())
	f.api = f.portal.api()
	var err error
	if f.agentLog, err = os.Create(filepath.Join(root, name+"-agents.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, f.agentLog.Name())
		}
		f.agentLog.Close()
	})
	if f.pg, err = db.Open(t.Context(), server.URL(), 4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.pg.Close)
	f.control = control.New(f.pg, control.Options{Log: slog.New(slog.DiscardHandler)})
	storage := mock.NewStorage()
	for i := range f.hosts {
		f.hosts[i] = f.join(fmt.Sprintf("%s-host-%d", name, i+1), storage)
	}
	f.createVMs(name)
	eventually(t, stepLimit, "the default rules", func() (bool, string) {
		rules := listFirstPage[fleet.AlarmRuleView](t, f.api, "/api/v1/alarm-rules")
		for _, r := range rules {
			if time.Duration(r.Spec.ForSeconds)*time.Second > quietWait {
				requestJSON[fleet.AlarmRuleView](t, f.api, http.StatusOK, http.MethodPatch, "/api/v1/alarm-rules/"+string(r.ID), map[string]any{"spec": map[string]any{"forSeconds": quietWait.Seconds()}})
			}
		}
		return len(rules) > 0, "there are none"
	})
	return f
}

// join joins a simulated host to the portal and starts its agent.
func (f *quietFleet) join(name string, storage *mock.Storage) *quietHost {
	f.t.Helper()
	h := &quietHost{
		f: f, name: name, dir: filepath.Join(f.t.TempDir(), name), ports: nextPortRange(),
		host: mock.New(mock.Options{Name: name, Delay: 200 * time.Millisecond, SharedStorage: storage, Images: []fleet.Volume{goldenDisk}}),
	}
	token := requestJSON[fleet.JoinToken](f.t, f.api, http.StatusCreated, http.MethodPost, "/api/v1/join-tokens", map[string]any{})
	hardware, err := h.host.Inventory(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := agent.Join(f.t.Context(), agent.JoinOptions{Portal: f.portal.agentURL, Token: token.Secret, Name: name, HostUUID: hardware.HostUUID, DataDir: h.dir}); err != nil {
		f.t.Fatal(err)
	}
	h.start()
	f.t.Cleanup(h.stopAgent)
	h.id = f.api.hostByName(f.t, name).ID
	h.waitOnline()
	return h
}

func (f *quietFleet) createVMs(name string) {
	f.t.Helper()
	project := requestJSON[fleet.Project](f.t, f.api, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": name})
	hosts := []fleet.HostID{f.hosts[0].id, f.hosts[1].id}
	f.pool = requestJSON[fleet.PoolView](f.t, f.api, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": name, "hostIds": hosts, "spec": map[string]any{"kind": "dir", "path": "/srv/" + name},
	}).ID
	network := requestJSON[fleet.NetworkView](f.t, f.api, http.StatusCreated, http.MethodPost, "/api/v1/networks", map[string]any{
		"name": name, "hostIds": hosts, "spec": map[string]any{"mode": "isolated"},
	}).ID
	eventually(f.t, stepLimit, "the pool and the network on both hosts", func() (bool, string) {
		pool := requestJSON[fleet.PoolView](f.t, f.api, http.StatusOK, http.MethodGet, "/api/v1/pools/"+string(f.pool), nil).Hosts
		lan := requestJSON[fleet.NetworkView](f.t, f.api, http.StatusOK, http.MethodGet, "/api/v1/networks/"+string(network), nil).Hosts
		return len(pool) == 2 && pool[0].State == fleet.PoolActive && pool[1].State == fleet.PoolActive &&
			len(lan) == 2 && lan[0].State == fleet.NetworkActive && lan[1].State == fleet.NetworkActive, fmt.Sprintf("%+v %+v", pool, lan)
	})
	for i := range quietVMs {
		vm := requestJSON[fleet.VMView](f.t, f.api, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
			"name": fmt.Sprintf("%s-vm-%d", name, i+1), "projectId": project.ID, "hostId": hosts[i%2], "start": true,
			"spec": map[string]any{
				"cpus": 1, "memoryMiB": 128, "nics": []any{map[string]any{"networkId": network}},
				"disks": []any{map[string]any{"poolId": f.pool, "image": map[string]any{"poolId": f.pool, "volume": goldenDisk.Name}}},
			},
		})
		f.vms = append(f.vms, vm.ID)
		f.api.waitPhase(f.t, stepLimit, vm.ID, fleet.PhaseRunning)
	}
}

// evaluate evaluates the rules until ctx ends.
func (f *quietFleet) evaluate(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(quietEvaluate) {
		f.evaluating.Lock()
		err := f.control.EvaluateAlarms(ctx, fleet.SystemActor)
		f.passes++
		var held []string
		if err == nil {
			err = f.pg.QueryRow(ctx, "SELECT COALESCE(array_agg(DISTINCT r.name), '{}') FROM alarms a JOIN alarm_rules r ON r.id = a.rule_id WHERE a.raised_at IS NULL").Scan(&held)
		}
		for _, rule := range held {
			f.pending[rule]++
		}
		f.evaluating.Unlock()
		if err != nil && ctx.Err() == nil {
			f.t.Error(err)
		}
	}
}

// newAlarms waits until a whole evaluation has passed, and returns the alarms that were raised since the last call.
func (f *quietFleet) newAlarms() (found []string) {
	f.t.Helper()
	var now time.Time
	if err := f.pg.QueryRow(f.t.Context(), "SELECT now()").Scan(&now); err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, stepLimit, "an evaluation", func() (done bool, why string) {
		if err := f.pg.QueryRow(f.t.Context(), "SELECT EXISTS (SELECT 1 FROM alarm_evaluation WHERE at > $1)", now).Scan(&done); err != nil {
			return false, err.Error()
		}
		return done, "there was none"
	})
	rows, err := f.pg.Query(f.t.Context(), "SELECT a.id, r.name || ': ' || a.subject_name || ': ' || a.text FROM alarms a JOIN alarm_rules r ON r.id = a.rule_id WHERE a.raised_at IS NOT NULL ORDER BY a.id")
	if err != nil {
		f.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, text string
		if err := rows.Scan(&id, &text); err != nil {
			f.t.Fatal(err)
		}
		if !f.raised[id] {
			f.raised[id], found = true, append(found, text)
		}
	}
	if err := rows.Err(); err != nil {
		f.t.Fatal(err)
	}
	return found
}

// chance returns true once in n times.
func (f *quietFleet) chance(n int) bool { return f.random.IntN(n) == 0 }

func (f *quietFleet) pause(limit time.Duration) {
	time.Sleep(time.Duration(f.random.Int64N(int64(limit))))
}

func (f *quietFleet) anyHost() *quietHost { return f.hosts[f.random.IntN(len(f.hosts))] }

func (f *quietFleet) anyVM() fleet.VMView {
	return f.api.getVM(f.t, f.vms[f.random.IntN(len(f.vms))])
}

func (f *quietFleet) hostOf(vm fleet.VMView) *quietHost {
	return f.hosts[slices.IndexFunc(f.hosts[:], func(h *quietHost) bool { return h.id == vm.HostID })]
}

// task sends a request and waits until its task has succeeded.
func (f *quietFleet) task(path string, in any) {
	f.t.Helper()
	f.api.waitTask(f.t, requestJSON[fleet.Task](f.t, f.api, http.StatusAccepted, http.MethodPost, path, in), fleet.JobDone)
}

// request requests the power action without waiting for its end.
func (f *quietFleet) request(vm fleet.VMView, action fleet.Action) {
	f.t.Helper()
	requestJSON[fleet.Task](f.t, f.api, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": action})
}

// switchPower requests that a running VM shuts down or a stopped VM starts. It returns a function that waits for it.
func (f *quietFleet) switchPower(vm fleet.VMView) (wait func()) {
	f.t.Helper()
	action, want := fleet.ActShutdown, fleet.PhaseStopped
	if vm.Phase == fleet.PhaseStopped {
		action, want = fleet.ActStart, fleet.PhaseRunning
	}
	f.request(vm, action)
	return func() {
		f.t.Helper()
		f.api.waitPhase(f.t, fleet.Lease+stepLimit, vm.ID, want)
	}
}
