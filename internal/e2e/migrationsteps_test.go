//go:build linux && ordeal

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quantix/agent"
	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// Bounds of the systematic test.
const (
	minMigrationSteps = 40                // of both kinds of migrations together
	pairsAtOnce       = 48                // pairs of hosts that migrate at the same time
	faultLimit        = 150 * time.Second // for the end of an interrupted migration, with two leases
	maxNextMigrations = 3                 // attempts of the migration after a fault
	settledLimit      = 150 * time.Second // for the end of the jobs that follow a migration, with the deletion of stranded disks
)

// goldenDisk is the image of all pools of the simulated hosts. A disk made of it has bytes of its own.
var goldenDisk = fleet.Volume{Name: "golden.qcow2", Format: "qcow2", CapacityBytes: 1 << 20, AllocBytes: 1 << 18}

// migrationKind is a migration of a running or of a stopped VM.
type migrationKind struct {
	name  string
	live  bool
	phase fleet.Phase
	power fleet.Power
}

var migrationKinds = []migrationKind{
	{"live", true, fleet.PhaseRunning, fleet.Running},
	{"cold", false, fleet.PhaseStopped, fleet.Stopped},
}

// TestMigrationFaultAtEachStep injects each fault at each step of a live and of a cold migration between two agents of
// simulated hosts. Each time both jobs end, exactly one host has the VM with its disk's bytes, nothing is left on the other
// host, and the next migration succeeds.
func TestMigrationFaultAtEachStep(t *testing.T) { //nolint:tparallel // pairsAtOnce subtests run at the same time
	t.Parallel()
	p := newPortal(t, uniqueName("steps"))
	p.via = newBoundedTransport(4)
	a := p.api()
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "steps"})
	type run struct {
		kind  migrationKind
		at    string
		fault migrationFault
	}
	var runs []run
	steps := 0
	for _, k := range migrationKinds {
		var seen, streamed []string
		t.Run(k.name+" without a fault", func(t *testing.T) {
			m := newMigratingPair(t, p, project.ID, k)
			seen, streamed = m.run("", migrationFault{})
		})
		t.Logf("a %s migration has %d steps:\n%s", k.name, len(seen), strings.Join(seen, "\n"))
		steps += len(seen)
		for _, at := range seen {
			for _, f := range migrationFaults {
				if f.cutsStream && !slices.Contains(streamed, at) {
					continue
				}
				runs = append(runs, run{k, at, f})
			}
		}
	}
	if steps < minMigrationSteps {
		t.Errorf("the migrations have %d steps, want at least %d", steps, minMigrationSteps)
	}
	slices.SortStableFunc(runs, func(x, y run) int { return cmp.Compare(y.fault.lasts, x.fault.lasts) }) // the longest first
	work := make(chan run)
	var all sync.WaitGroup
	reached := reachedSteps{reached: map[string]bool{}}
	for range pairsAtOnce {
		all.Go(func() {
			for r := range work {
				t.Run(fmt.Sprintf("%s, %s at %s", r.kind.name, r.fault.name, r.at), func(t *testing.T) {
					defer func() { reached.add(r.kind.name+", "+r.at, !t.Skipped()) }()
					newMigratingPair(t, p, project.ID, r.kind).run(r.at, r.fault)
				})
			}
		})
	}
	for _, r := range runs {
		if t.Context().Err() != nil {
			break
		}
		work <- r
	}
	close(work)
	all.Wait()
	t.Logf("%d faults at %d steps; %d migrations did not reach the step of their fault", len(runs), steps, reached.missed)
	if never := reached.never(); len(never) > 0 {
		t.Errorf("no migration with a fault reached these steps:\n%s", strings.Join(never, "\n"))
	}
}

// reachedSteps records which steps were reached by a migration with a fault at that step.
type reachedSteps struct {
	mu      sync.Mutex
	reached map[string]bool // by step
	missed  int             // migrations that did not reach the step of their fault
}

func (s *reachedSteps) add(step string, reached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !reached {
		s.missed++
	}
	s.reached[step] = s.reached[step] || reached
}

// never returns the steps that no migration reached.
func (s *reachedSteps) never() (steps []string) {
	for _, step := range slices.Sorted(maps.Keys(s.reached)) {
		if !s.reached[step] {
			steps = append(steps, step)
		}
	}
	return steps
}

// boundedTransport bounds the number of open requests, because the portal refuses more than eight of a user.
type boundedTransport chan struct{}

func newBoundedTransport(most int) boundedTransport { return make(boundedTransport, most) }

func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	b <- struct{}{}
	defer func() { <-b }()
	return http.DefaultTransport.RoundTrip(r)
}

// migratingPair is a VM on the first of two simulated hosts.
type migratingPair struct {
	*steppedPair
	api  api
	kind migrationKind
	pool fleet.Pool // a local pool of both hosts
	vm   fleet.VMView
}

func newMigratingPair(t *testing.T, p *portal, project fleet.ProjectID, kind migrationKind) *migratingPair {
	t.Helper()
	name := uniqueName("stepped")
	m := &migratingPair{api: p.api(), kind: kind}
	m.steppedPair = &steppedPair{t: t, portal: p, counts: map[string]int{}, streamed: map[string]bool{}, injected: make(chan struct{}), ports: nextPortRange()}
	storage := mock.NewStorage()
	for i, role := range []string{"source", "target"} {
		m.agents[i] = m.join(name+"-"+role, role, mock.New(mock.Options{Name: name + "-" + role, SharedStorage: storage, Images: []fleet.Volume{goldenDisk}}))
	}
	t.Cleanup(func() {
		for _, a := range m.agents {
			a.process.stop()
		}
		m.running.Wait()
	})
	hosts := []fleet.HostID{m.agents[0].id, m.agents[1].id}
	m.pool = requestJSON[fleet.PoolView](t, m.api, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": name, "hostIds": hosts, "spec": map[string]any{"kind": "dir", "path": "/srv/" + name},
	}).Pool
	eventually(t, settledLimit, "the pool on both hosts", func() (bool, string) {
		on := requestJSON[fleet.PoolView](t, m.api, http.StatusOK, http.MethodGet, "/api/v1/pools/"+string(m.pool.ID), nil).Hosts
		return len(on) == 2 && on[0].State == fleet.PoolActive && on[1].State == fleet.PoolActive, fmt.Sprintf("%+v", on)
	})
	disk := map[string]any{"poolId": m.pool.ID, "image": map[string]any{"poolId": m.pool.ID, "volume": goldenDisk.Name}}
	m.vm = requestJSON[fleet.VMView](t, m.api, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": project, "hostId": hosts[0], "start": kind.live,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 128, "disks": []any{disk, disk}},
	})
	m.api.waitPhase(t, settledLimit, m.vm.ID, kind.phase)
	m.vm = m.api.getVM(t, m.vm.ID)
	return m
}

// nextPortRange returns ports that no other pair uses, below those that the kernel gives out.
func nextPortRange() transfer.PortRange {
	first := 10000 + int(portRanges.Add(1)%2000)*10
	return transfer.PortRange{First: first, Last: first + 9}
}

var portRanges atomic.Int64

// join joins a simulated host to the portal and starts its agent.
func (m *migratingPair) join(name, role string, host *mock.Host) *steppedAgent {
	m.t.Helper()
	token := requestJSON[fleet.JoinToken](m.t, m.api, http.StatusCreated, http.MethodPost, "/api/v1/join-tokens", map[string]any{})
	a := &steppedAgent{pair: m.steppedPair, role: role, host: host, dir: filepath.Join(m.t.TempDir(), role)}
	hardware, err := host.Inventory(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := agent.Join(m.t.Context(), agent.JoinOptions{Portal: m.portal.agentURL, Token: token.Secret, Name: name, HostUUID: hardware.HostUUID, DataDir: a.dir}); err != nil {
		m.t.Fatal(err)
	}
	a.start()
	eventually(m.t, settledLimit, "the first report of "+name, func() (bool, string) {
		h := m.api.hostByName(m.t, name)
		a.id = h.ID
		return h.Phase == fleet.HostOnline, string(h.Phase)
	})
	return a
}

// run migrates the VM with the fault at the step, checks the result, and migrates the VM again. It returns the steps, and
// those with an open connection between the hosts.
func (m *migratingPair) run(at string, fault migrationFault) (seen, streamed []string) {
	m.t.Helper()
	m.mu.Lock()
	m.open, m.at, m.fault = true, at, fault
	m.mu.Unlock()
	task := m.migrate(1)
	end := m.waitEnd(task)
	m.t.Logf("the migration is %s: %s", end.State, cmp.Or(end.Error, end.Note))
	if at != "" && !m.waitFault() { // the order of the two hosts' steps differs between migrations
		m.t.Skip("the migration did not reach the step")
	}
	arrived := m.check("after the fault")
	m.mu.Lock()
	m.open, m.armed = false, nil
	seen = m.seen
	for _, s := range seen {
		if m.streamed[s] {
			streamed = append(streamed, s)
		}
	}
	m.mu.Unlock()
	to := 1
	if arrived {
		to = 0
	}
	for try := 1; ; try++ {
		end := m.waitEnd(m.migrate(to))
		moved := m.check("after the next migration") == (to == 1)
		if moved != (end.State == fleet.JobDone) {
			m.t.Errorf("the next migration is %s: %s; it moved the VM: %v", end.State, end.Error, moved)
		}
		if moved {
			break
		}
		if m.t.Logf("the next migration failed: %s", end.Error); try == maxNextMigrations {
			m.t.Fatal("no further migration succeeds")
		}
	}
	m.checkDisks(m.agents[to])
	return seen, streamed
}

// waitFault waits for the end of the fault. It returns false if the migration and the jobs that follow did not reach the
// fault's step.
func (m *migratingPair) waitFault() bool {
	for deadline := time.Now().Add(stepLimit); ; time.Sleep(pollEvery) {
		m.mu.Lock()
		reached := m.at == ""
		m.mu.Unlock()
		switch {
		case reached:
			<-m.injected
			return true
		case time.Now().After(deadline):
			return false
		}
	}
}

// migrate requests a migration to the host with the index, once the portal accepts the request.
func (m *migratingPair) migrate(to int) (task fleet.Task) {
	m.t.Helper()
	in := map[string]any{"hostId": m.agents[to].id, "poolId": m.pool.ID, "mode": m.kind.name}
	eventually(m.t, settledLimit, "the request for a migration", func() (bool, string) {
		got, err := m.api.send(m.t.Context(), http.MethodPost, "/api/v1/vms/"+string(m.vm.ID)+"/migrate", in)
		if err == nil && got.status == http.StatusAccepted {
			return json.Unmarshal(got.body, &task) == nil, string(got.body)
		}
		return false, fmt.Sprint(err, got.status, string(got.body))
	})
	return task
}

func (m *migratingPair) waitEnd(task fleet.Task) (end fleet.Task) {
	m.t.Helper()
	eventually(m.t, faultLimit, "the end of the migration's task", func() (bool, string) {
		end = requestJSON[fleet.Task](m.t, m.api, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return end.State.IsFinal(), string(end.State) + " " + end.Note
	})
	return end
}

// check waits until exactly one host has the VM with its disks, in the state of the kind, and the portal names that host. It
// returns whether that is the second host.
func (m *migratingPair) check(when string) (arrived bool) {
	m.t.Helper()
	ctx := m.t.Context()
	eventually(m.t, settledLimit, when+", the VM on one host", func() (bool, string) {
		var powers [2]fleet.Power
		var files [2][]string
		owner := -1
		for i, a := range m.agents {
			s, _, err := a.host.VM(ctx, m.vm.ID)
			if err != nil {
				return false, err.Error()
			}
			powers[i], files[i] = s.Power, m.filesOn(a)
			if s.Power != fleet.Absent {
				owner = i
			}
		}
		vm := m.api.getVM(m.t, m.vm.ID)
		why := fmt.Sprintf("the hosts have %v with the files %q; the portal says %s on %s, attention %v, sightings %+v, %+v", powers, files, vm.Phase, vm.HostName, vm.Attention, vm.Sightings, vm.Status)
		if owner < 0 || powers[owner] != m.kind.power || powers[1-owner] != fleet.Absent {
			return false, why
		}
		arrived = owner == 1
		disks := 0
		others := slices.DeleteFunc(slices.Concat(files[0], files[1]), func(name string) bool {
			own := slices.ContainsFunc(vm.Spec.Disks, func(d fleet.Disk) bool { return d.Volume == name }) && slices.Contains(files[owner], name)
			if own {
				disks++
			}
			return own
		})
		return disks == len(vm.Spec.Disks) && m.areShownAsLeft(others) && vm.HostID == m.agents[owner].id &&
			vm.Phase == m.kind.phase && !vm.Attention && len(vm.Sightings) == 0, why
	})
	m.vm = m.api.getVM(m.t, m.vm.ID)
	return arrived
}

// checkDisks powers the VM off and compares its disks with the image.
func (m *migratingPair) checkDisks(owner *steppedAgent) {
	m.t.Helper()
	if m.kind.live {
		if err := owner.host.StopVM(m.t.Context(), m.vm.ID); err != nil {
			m.t.Error(err)
		}
	}
	data := func(volume string) string {
		var out strings.Builder
		err := owner.host.ReadVolume(m.t.Context(), hypervisor.VolumeWork{Pool: m.pool, Name: volume}, func(int64) (io.Writer, error) { return &out, nil })
		if err != nil {
			m.t.Error(err)
		}
		return out.String()
	}
	for _, d := range m.vm.Spec.Disks {
		if have, want := data(d.Volume), data(goldenDisk.Name); have != want {
			m.t.Errorf("the disk %s has the bytes %q, want %q", d.Volume, have, want)
		}
	}
}

// areShownAsLeft reports whether each file is that of a deletion with an unknown result. The agent never repeats a
// deletion that was interrupted, and its task asks the user to check the volume.
func (m *migratingPair) areShownAsLeft(files []string) bool {
	for _, name := range files {
		shown := slices.ContainsFunc(listFirstPage[fleet.Task](m.t, m.api, "/api/v1/tasks?filter=kind:volume.delete+target:"+name), func(t fleet.Task) bool {
			return t.State == fleet.JobUnknown && strings.Contains(t.Error, "Check the volume")
		})
		if !shown {
			return false
		}
	}
	return true
}

// filesOn returns the names of the files in the pool on a host, without the image.
func (m *migratingPair) filesOn(a *steppedAgent) (names []string) {
	s, err := a.host.HostState(m.t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{m.pool}}})
	if err != nil {
		return []string{err.Error()}
	}
	for _, p := range s.Pools {
		if p.ID != m.pool.ID {
			continue
		}
		for _, v := range p.Status.Volumes {
			if v.Name != goldenDisk.Name {
				names = append(names, v.Name)
			}
		}
	}
	return names
}
