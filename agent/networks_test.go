package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func natNetwork(name string) fleet.Network {
	return fleet.Network{
		ID: fleet.NewID[fleet.NetworkID](), Name: name, Kind: fleet.NetworkLibvirt, Generation: 1,
		Spec: &fleet.NetworkSpec{Mode: fleet.NetworkNAT, DNS: true, IPv4: &fleet.Subnet{Gateway: "10.5.0.1/24"}},
	}
}

// waitForStatus waits until the host reports a matching status of the network.
func (p *portal) waitForStatus(n fleet.Network, what string, ok func(fleet.NetworkStatus) bool) {
	p.t.Helper()
	p.waitNextState(what, func(s wire.State) bool {
		for _, r := range s.Networks {
			if r.ID == n.ID {
				return ok(r.Status)
			}
		}
		return false
	})
}

// A network stopped or removed on the host is reported as such, also by the next agent. A network that has been
// inactive since the host's boot is not reported as stopped.
func TestNetworkStoppedOnHostIsReported(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), &rebooted{Host: mock.New(mock.Options{Name: "host-1"}), boot: "boot-1"}
	dir := p.join()
	lan := natNetwork("lan")
	p.networks = []fleet.Network{lan}
	_, stop := p.startAgentOnRebootedHost(dir, host)
	p.waitForStatus(lan, "a network that was never there", func(s fleet.NetworkStatus) bool { return s.Error == hypervisor.NetworkMissingText && !s.StoppedOutside })
	if f := p.runJob(wire.Work{Kind: fleet.NetworkApply, Network: &lan, Generation: 1}); f.Outcome != wire.Done || f.Network == nil || !f.Network.Active || f.Generation != 1 {
		t.Fatalf("apply ended %+v %+v", f.Finish, f.Network)
	}
	p.waitForStatus(lan, "the network", func(s fleet.NetworkStatus) bool { return s.Active && s.Error == "" })
	host.StopNetwork("lan")
	stopped := func(s fleet.NetworkStatus) bool { return !s.Active && s.StoppedOutside && s.Error == "" }
	p.waitForStatus(lan, "the stop", stopped)
	stop()
	_, stop = p.startAgentOnRebootedHost(dir, host)
	p.waitForStatus(lan, "the stop, by the next agent", stopped)
	host.UndefineNetwork("lan")
	p.waitForStatus(lan, "the removal", func(s fleet.NetworkStatus) bool {
		return !s.Active && s.StoppedOutside && s.Error == hypervisor.NetworkRemovedText
	})
	if f := p.runJob(wire.Work{Kind: fleet.NetworkApply, Network: &lan, Generation: 1, Epoch: 2}); f.Outcome != wire.Done {
		t.Fatalf("the second apply ended %+v", f.Finish)
	}
	p.waitForStatus(lan, "the network again", func(s fleet.NetworkStatus) bool { return s.Active && !s.StoppedOutside })
	stop()
	host.boot = "boot-2"
	host.StopNetwork("lan")
	_, stop = p.startAgentOnRebootedHost(dir, host)
	p.waitForStatus(lan, "what the boot did not start", func(s fleet.NetworkStatus) bool { return !s.Active && !s.StoppedOutside })
	if f := p.runJob(wire.Work{Kind: fleet.NetworkRelease, Network: &lan, Generation: 1, Epoch: 3}); f.Outcome != wire.Done || f.Network != nil {
		t.Errorf("release ended %+v %+v", f.Finish, f.Network)
	}
	stop()
}

// A failure's error is reported, also across a restart, until the network is active.
func TestNetworkFailureIsReported(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	dir := p.join()
	bad := natNetwork(mock.NoDNSMasq)
	p.networks = []fleet.Network{bad}
	_, stop := p.startAgent(dir, host, host)
	f := p.runJob(wire.Work{Kind: fleet.NetworkApply, Network: &bad, Generation: 1})
	if f.Outcome != wire.Failed || f.Retry || !strings.Contains(f.Error, "dnsmasq") || f.Network == nil || f.Network.Error != f.Error {
		t.Fatalf("apply ended %+v %+v", f.Finish, f.Network)
	}
	says := func(s fleet.NetworkStatus) bool { return !s.Active && s.Error == f.Error }
	p.waitForStatus(bad, "the failure", says)
	stop()
	p.startAgent(dir, host, host)
	p.waitForStatus(bad, "the failure after the restart", says)
}

// Invalid networks are refused before the hypervisor is called.
func TestAgentValidatesNetworks(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	for what, change := range map[string]func(*fleet.Network){
		"no spec":          func(n *fleet.Network) { n.Spec = nil },
		"no id":            func(n *fleet.Network) { n.ID = "../lan" },
		"a path as a name": func(n *fleet.Network) { n.Name = "../../etc/passwd" },
		"a wrong subnet":   func(n *fleet.Network) { n.Spec.IPv4.Gateway = "127.0.0.1/8" },
		"a system device":  func(n *fleet.Network) { n.Spec.Bridge = "eth0" },
		"markup":           func(n *fleet.Network) { n.Spec.Domain = "'/><x>" },
	} {
		n := natNetwork("lan")
		change(&n)
		for _, kind := range []fleet.JobKind{fleet.NetworkApply, fleet.NetworkRelease} {
			if f := p.runJob(wire.Work{Kind: kind, Network: &n, Subject: fleet.Subject("net:" + what), Epoch: 1}); f.Outcome != wire.Failed {
				t.Errorf("%s with %s ended %+v", kind, what, f.Finish)
			}
		}
	}
	if f := p.runJob(wire.Work{Kind: fleet.NetworkApply, Subject: "net:none"}); f.Outcome != wire.Failed || !strings.Contains(f.Error, "without its network") {
		t.Errorf("without a network: %+v", f.Finish)
	}
}

func TestHungNetworkDelaysNoOtherJob(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	hung, lan := natNetwork(mock.HangOnStart), natNetwork("lan")
	job := p.queueJob(wire.Work{Kind: fleet.NetworkApply, Network: &hung})
	if f := p.runJob(wire.Work{Kind: fleet.NetworkApply, Network: &lan}); f.Outcome != wire.Done {
		t.Errorf("the other network ended %+v", f.Finish)
	}
	p.waitUntil("heartbeats", func() bool {
		n := 0
		for _, r := range p.reports {
			if len(r.Leases) == 1 && r.Leases[0].ID == job {
				n++
			}
		}
		return n >= 3
	})
}

// A host that loses virtual functions reports the loss on their networks once more NICs need a function than exist.
func TestLostVirtualFunctionsAreReported(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	host.SetVirtualFunctions("eth4", 3)
	fast, tagged, lan := natNetwork("fast"), natNetwork("tagged"), natNetwork("lan")
	fast.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkSRIOV, Device: "eth4"}
	tagged.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkSRIOV, Device: "eth4", VLAN: 7}
	p.networks = []fleet.Network{fast, tagged, lan}
	for i, on := range [][]string{{"fast", "tagged"}, {"fast", "lan"}} {
		vm := fleet.VM{Meta: fleet.Meta{ID: fleet.NewID[fleet.VMID](), Name: fmt.Sprintf("vm-%d", i), Generation: 1}, Spec: fleet.VMSpec{Power: fleet.Stopped, CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS}}
		for k, name := range on {
			vm.Spec.NICs = append(vm.Spec.NICs, fleet.NIC{Network: name, MAC: fmt.Sprintf("52:54:00:00:0%d:0%d", i, k)})
		}
		if err := host.ApplyVM(t.Context(), hypervisor.ApplyWork{VM: vm, Progress: func(int, string) {}, RecordDisk: func(fleet.Volref) error { return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	p.startAgent(p.join(), host, host)
	for _, n := range []fleet.Network{fast, tagged, lan} {
		if f := p.runJob(wire.Work{Kind: fleet.NetworkApply, Network: &n, Generation: 1, Subject: fleet.SubjectNetwork(n.ID), Epoch: 1}); f.Outcome != wire.Done {
			t.Fatalf("apply ended %+v", f.Finish)
		}
	}
	// waitForBoth waits until ok accepts the status of both networks on the device, and the third network has no error.
	waitForBoth := func(what string, ok func(fleet.NetworkStatus) bool) {
		t.Helper()
		p.waitNextState(what, func(s wire.State) bool {
			good := 0
			for _, r := range s.Networks {
				if (r.ID == fast.ID || r.ID == tagged.ID) && r.Status.NICs != nil && ok(r.Status) || r.ID == lan.ID && r.Status.NICs == nil && r.Status.Error == "" {
					good++
				}
			}
			return good == 3
		})
	}
	waitForBoth("three for three NICs", func(s fleet.NetworkStatus) bool { return s.NICs.Total == 3 && s.Error == "" })
	host.SetVirtualFunctions("eth4", 2)
	waitForBoth("that one is lost", func(s fleet.NetworkStatus) bool {
		return s.NICs.Total == 2 && s.Error == "The device eth4 has 2 virtual functions, but 3 NICs of VMs on this host need one each: not all of these VMs can start."
	})
	host.SetVirtualFunctions("eth4", 0)
	waitForBoth("that all are", func(s fleet.NetworkStatus) bool { return strings.Contains(s.Error, "has no virtual functions") })
	host.SetVirtualFunctions("eth4", 3)
	waitForBoth("that they are back", func(s fleet.NetworkStatus) bool { return s.Error == "" && s.NICs.Total == 3 })
}
