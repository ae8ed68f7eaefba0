package agent_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"quantix/agent"
	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// linkRecordingHost is a simulated host that records the calls of its Links.
type linkRecordingHost struct {
	*mock.Host
	mu        sync.Mutex
	calls     []string
	callError error
}

func (h *linkRecordingHost) recordCall(what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, what)
	return h.callError
}

func (h *linkRecordingHost) Apply(_ context.Context, order string, n fleet.Network) error {
	return h.recordCall("devices of " + n.Name + " by " + order)
}

func (h *linkRecordingHost) Release(_ context.Context, order string, n fleet.Network) error {
	return h.recordCall("no devices of " + n.Name + " by " + order)
}

func (h *linkRecordingHost) AddStatus(_ fleet.Network, st *fleet.NetworkStatus) { st.Uplink = "eth7" }

func (h *linkRecordingHost) Restore(context.Context) error { return h.recordCall("restored") }

func (h *linkRecordingHost) ApplyNetwork(ctx context.Context, n fleet.Network) error {
	return errors.Join(h.recordCall("network "+n.Name), h.Host.ApplyNetwork(ctx, n))
}

func (h *linkRecordingHost) ReleaseNetwork(ctx context.Context, n fleet.Network) error {
	return errors.Join(h.recordCall("no network "+n.Name), h.Host.ReleaseNetwork(ctx, n))
}

// Devices are created before the hypervisor's network and removed after it. Existing devices are restored first, and a
// network's report contains the host's devices. If a device fails, the hypervisor is not called, and the job has the
// device's error.
func TestNetworkDevicesAreCreatedBeforeLibvirtNetwork(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), &linkRecordingHost{Host: mock.New(mock.Options{Name: "host-1"})}
	id, err := agent.OpenIdentity(p.join())
	if err != nil {
		t.Fatal(err)
	}
	_, run := newRun(t, id, host, host)
	stop := p.waitHello(id, run)
	wire1 := natNetwork("wire")
	wire1.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkUplink, Device: "eth7"}
	p.networks = []fleet.Network{wire1}
	apply := p.runJob(wire.Work{Kind: fleet.NetworkApply, Network: &wire1, Generation: 1})
	if apply.Outcome != wire.Done || apply.Network == nil || apply.Network.Uplink != "eth7" {
		t.Errorf("apply ended %+v %+v", apply.Finish, apply.Network)
	}
	p.waitForStatus(wire1, "the network with its device", func(s fleet.NetworkStatus) bool { return s.Active && s.Uplink == "eth7" })
	if f := p.runJob(wire.Work{Kind: fleet.NetworkRelease, Network: &wire1, Generation: 2, Epoch: 2}); f.Outcome != wire.Done {
		t.Errorf("release ended %+v", f.Finish)
	}
	host.mu.Lock()
	host.callError = errors.New("the change was undone")
	host.mu.Unlock()
	other := natNetwork("other")
	if f := p.runJob(wire.Work{Kind: fleet.NetworkApply, Network: &other, Generation: 1}); f.Outcome != wire.Failed || !strings.Contains(f.Error, "the change was undone") {
		t.Errorf("a failure of the devices ended %+v", f.Finish)
	}
	stop()
	var done []string
	for _, d := range host.calls {
		d, _, _ = strings.Cut(d, " by ")
		done = append(done, d)
	}
	if want := []string{"restored", "devices of wire", "network wire", "no network wire", "no devices of wire", "devices of other"}; !slices.Equal(done, want) {
		t.Errorf("the calls are %v, want %v", done, want)
	}
}
