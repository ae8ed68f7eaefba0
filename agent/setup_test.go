package agent_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"quantix/agent"
	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// join returns a data directory with an identity of the portal.
func (p *portal) join() string {
	p.t.Helper()
	dir := filepath.Join(p.t.TempDir(), "agent")
	_, err := agent.Join(p.t.Context(), agent.JoinOptions{Portal: p.srv.URL, Token: p.token, Name: "host-1", HostUUID: "uuid-1", DataDir: dir})
	if err != nil {
		p.t.Fatal(err)
	}
	return dir
}

func (p *portal) lastJoin() wire.JoinRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.joined
}

// startAgent starts an agent over a backend. stop ends the agent and waits for its end; the test's cleanup calls stop,
// too.
func (p *portal) startAgent(dir string, hv hypervisor.Hypervisor, host hostHardware) (a *agent.Agent, stop func()) {
	p.t.Helper()
	id, err := agent.OpenIdentity(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	a, run := newRun(p.t, id, hv, host)
	return a, p.waitHello(id, run)
}

// startAgentOnRebootedHost is startAgent for a host whose boot ID can change.
func (p *portal) startAgentOnRebootedHost(dir string, host *rebooted) (a *agent.Agent, stop func()) {
	p.t.Helper()
	id, err := agent.OpenIdentity(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	a, run := newRun(p.t, id, host, host)
	return a, p.waitHello(id, run)
}

// waitHello runs the agent and returns once the portal has given the agent a session or refused it. From then on, no
// claim of an earlier agent takes the jobs of this agent.
func (p *portal) waitHello(id *agent.Identity, run func(context.Context)) (stop func()) {
	p.t.Helper()
	p.mu.Lock()
	before, refused := p.session, p.refusals["hello"] != 0
	p.mu.Unlock()
	stop = p.runAgent(id, run)
	p.waitUntil("the agent's hello", func() bool { return p.session > before || refused })
	return stop
}

// runAgent runs an agent until the caller calls stop, which waits for the agent's end.
func (p *portal) runAgent(id *agent.Identity, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
		id.Close()
	}()
	stop = func() {
		cancel()
		<-ended
	}
	p.t.Cleanup(stop)
	return stop
}

// hostHardware is the host's hardware for an agent.
type hostHardware interface {
	Inventory(context.Context) (fleet.Inventory, error)
	NICs() []fleet.HostNIC
	Load(context.Context) (fleet.HostLoad, error)
}

func newRun(t *testing.T, id *agent.Identity, hv hypervisor.Hypervisor, host hostHardware) (*agent.Agent, func(context.Context)) {
	t.Helper()
	client, err := id.Client("")
	if err != nil {
		t.Fatal(err)
	}
	o := agent.Options{
		Identity: id, Client: client, Hypervisor: hv, Inventory: host.Inventory, NICs: host.NICs, Load: host.Load, Version: "1.0",
	}
	if own, ok := host.(interface {
		Memory(context.Context) (available, total int64, err error)
	}); ok {
		o.Memory = own.Memory
	}
	if own, ok := host.(agent.Links); ok {
		o.Links = own
	}
	if own, ok := host.(interface{ Settings() fleet.AgentSettings }); ok {
		o.Settings = own.Settings()
	}
	if own, ok := host.(interface {
		Power(context.Context, fleet.JobKind) error
	}); ok {
		o.HostPower = own.Power
	}
	if testing.Verbose() {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	a, err := agent.NewWithShortTimes(o)
	if err != nil {
		t.Fatal(err)
	}
	return a, func(ctx context.Context) {
		if err := a.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
		client.Close()
	}
}

// newPortalWithAgent returns a portal with a running agent on a simulated host.
func newPortalWithAgent(t *testing.T) (*portal, *mock.Host) {
	t.Helper()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	p.startAgent(p.join(), host, host)
	return p, host
}

func newVM(name string) *fleet.VM {
	return &fleet.VM{
		Meta: fleet.Meta{ID: fleet.NewID[fleet.VMID](), Name: name, Generation: 1},
		Spec: fleet.VMSpec{Power: fleet.Running, CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS},
	}
}

// reportedVM returns the VM's entry in a host state.
func reportedVM(s wire.State, id fleet.VMID) (wire.VMReport, bool) {
	for _, r := range s.VMs {
		if r.ID == id {
			return r, true
		}
	}
	return wire.VMReport{}, false
}
