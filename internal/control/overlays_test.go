package control_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/control/network"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func overlaySpec(vni int) fleet.NetworkSpec {
	return fleet.NetworkSpec{Mode: fleet.NetworkVXLAN, VNI: vni, Underlay: "10.50.0.0/24"}
}

func (s *projectFixture) runPeersPass() {
	s.t.Helper()
	if err := s.UpdateOverlayPeers(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
}

// wantPeers checks the generation of the overlay network and the peers' addresses.
func (s *projectFixture) wantPeers(id fleet.NetworkID, generation int64, peers ...string) {
	s.t.Helper()
	v, err := s.GetNetwork(s.t.Context(), chief, id)
	if err != nil || v.Generation != generation || !slices.Equal(v.Peers, peers) {
		s.t.Errorf("generation %d, peers %v, %v; want %d, %v", v.Generation, v.Peers, err, generation, peers)
	}
}

// Hosts of an overlay network get the addresses that the other hosts report as peers. Invalid addresses are dropped.
func TestOverlayPeersFollowHostReports(t *testing.T) {
	s := newProjectFixture(t)
	v := s.defineNetwork("over", overlaySpec(100), s.h1, s.h2)
	if !v.Restricted {
		t.Error("anybody's VMs may come onto the overlay")
	}
	s.runPeersPass()
	s.wantPeers(v.ID, 1)
	s.setNetworkStatus(v.ID, s.h1, `{"active":true,"vtep":"10.50.0.9"}`)
	s.runPeersPass()
	s.runPeersPass()
	s.wantPeers(v.ID, 2, "10.50.0.9")
	s.setNetworkStatus(v.ID, s.h2, `{"active":true,"vtep":"10.50.0.1"}`)
	s.runPeersPass()
	s.wantPeers(v.ID, 3, "10.50.0.1", "10.50.0.9")
	subject := fleet.SubjectNetwork(v.ID)
	if got := s.jobList(subject); got != "network.apply queued, network.apply queued" {
		t.Errorf("queued jobs: %s", got)
	}
	if work, err := s.Claim(t.Context(), s.agentSession(s.h1), wire.ClaimRequest{Max: 4}, 0); err != nil || len(work.Jobs) != 1 || work.Jobs[0].Network == nil || !slices.Equal(work.Jobs[0].Network.Peers, []string{"10.50.0.1", "10.50.0.9"}) || work.Jobs[0].Generation != 3 {
		t.Errorf("the host gets %+v, %v", work, err)
	}
	// A host cannot take over another peer's address, and addresses outside the underlay's subnet are ignored.
	for _, lie := range []string{`10.50.0.1`, `192.0.2.1`, `10.50.0.7%eth0`, `no address`, ``} {
		s.setNetworkStatus(v.ID, s.h1, `{"active":true,"vtep":"`+lie+`"}`)
		s.runPeersPass()
		if v, _ := s.GetNetwork(t.Context(), chief, v.ID); !slices.Equal(v.Peers, []string{"10.50.0.1"}) {
			t.Errorf("after a host's report of %q the peers are %v", lie, v.Peers)
		}
	}
	s.setNetworkStatus(v.ID, s.h1, `{"active":true,"vtep":"10.50.0.9"}`)
	s.runPeersPass()
	if _, err := s.Release(t.Context(), chief, subject, s.h1); err != nil {
		t.Fatal(err)
	}
	s.runPeersPass()
	if v, _ := s.GetNetwork(t.Context(), chief, v.ID); !slices.Equal(v.Peers, []string{"10.50.0.1"}) {
		t.Errorf("a released host is still a peer: %v", v.Peers)
	}
	if seen, err := s.GetNetwork(t.Context(), s.member, v.ID); err == nil && (len(seen.Peers) > 0 || seen.Spec.Underlay != "") {
		t.Errorf("a tenant sees how hosts reach one another: %v %s", seen.Peers, seen.Spec.Underlay)
	}
}

func TestSecondNetworkOnDeviceRefused(t *testing.T) {
	s := newProjectFixture(t)
	on := func(device string, vlan int) fleet.NetworkSpec {
		return fleet.NetworkSpec{Mode: fleet.NetworkUplink, Device: device, VLAN: vlan}
	}
	create := func(name string, spec fleet.NetworkSpec, host fleet.HostID) func() error {
		return func() error {
			_, err := s.CreateNetwork(t.Context(), chief, network.CreateNetwork{Name: name, Spec: spec, HostIDs: []fleet.HostID{host}})
			return err
		}
	}
	s.defineNetwork("wire", on("eth1", 0), s.h1)
	s.defineNetwork("over", overlaySpec(100), s.h1)
	s.wantRefused("a second bridge on the device", fleet.Invalid, "The network wire has the device eth1 on h1 already", create("b", on("eth1", 0), s.h1))
	s.wantRefused("macvtap on the bridge's device", fleet.Invalid, "The network wire has the device eth1 on h1 already", create("b", fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth1"}, s.h1))
	s.wantRefused("the same VNI", fleet.Invalid, "The network over has the VNI 100 on h1 already", create("b", overlaySpec(100), s.h1))
	alone := fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth5", Direct: fleet.DirectPassthrough}
	s.defineNetwork("alone", alone, s.h1)
	for _, direct := range []fleet.DirectMode{"", fleet.DirectVEPA} {
		s.wantRefused("macvtap beside passthrough", fleet.Invalid, "The network alone has the device eth5 on h1 already: only one NIC can use a passthrough device", create("b", fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth5", Direct: direct}, s.h1))
	}
	s.defineNetwork("many", fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth6"}, s.h1)
	s.wantRefused("passthrough beside macvtap", fleet.Invalid, "The network many has the device eth6 on h1 already", create("b", fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth6", Direct: fleet.DirectPassthrough}, s.h1))
	s.defineNetwork("alone-too", alone, s.h1) // a network with a device that no other network uses
	s.defineNetwork("many-too", fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth6", Direct: fleet.DirectPrivate}, s.h1)
	s.defineNetwork("tagged", on("eth1", 7), s.h1)
	s.defineNetwork("elsewhere", on("eth1", 0), s.h2)
	s.defineNetwork("over-2", overlaySpec(101), s.h1)
	bridge := fleet.NetworkSpec{Mode: fleet.NetworkBridged, Bridge: "br0"}
	s.defineNetwork("published", bridge, s.h1)
	s.defineNetwork("published-too", bridge, s.h1)
}

// A guest network within the underlay's subnet is refused, because a host would confuse guest packets with packets of
// its peers.
func TestNetworkInUnderlaySubnetRefused(t *testing.T) {
	s := newProjectFixture(t)
	create := func(name string, spec fleet.NetworkSpec, host fleet.HostID) func() error {
		return func() error {
			_, err := s.CreateNetwork(t.Context(), chief, network.CreateNetwork{Name: name, Spec: spec, HostIDs: []fleet.HostID{host}})
			return err
		}
	}
	s.defineNetwork("over", overlaySpec(100), s.h1)
	s.wantRefused("guests in the underlay", fleet.Invalid, "10.50.0.0/25 of network nat overlaps 10.50.0.0/24, the underlay subnet of the network over on h1", create("nat", natSpec("10.50.0.1/25"), s.h1))
	s.defineNetwork("nat", natSpec("10.50.0.1/25"), s.h2)
	s.wantRefused("an underlay within a guest network", fleet.Invalid, "The underlay subnet 10.50.0.0/24 overlaps the guests' subnet 10.50.0.0/25 of network nat on h2", create("late", overlaySpec(101), s.h2))
	found := fleet.NetworkSpec{Mode: fleet.NetworkVXLAN, VNI: 102, Underlay: "192.168.0.0/16"}
	s.execSQL(`UPDATE assignments SET status = status || '{"subnets":["192.168.122.0/24"]}' WHERE host_id = $1 AND network_id = (SELECT id FROM networks WHERE name = 'default')`, s.h1)
	s.wantRefused("an underlay within a discovered network", fleet.Invalid, "The underlay subnet 192.168.0.0/16 overlaps the guests' subnet 192.168.122.0/24 of network default on h1", create("late", found, s.h1))
	s.execSQL(`INSERT INTO networks (id, name, kind) VALUES ($1, 'br9', 'bridge')`, fleet.NewID[fleet.NetworkID]())
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', id, $1, '{"active":true,"bridge":"br9","subnets":["10.50.0.0/24"]}' FROM networks WHERE name = 'br9'`, s.h1)
	s.defineNetwork("over-2", overlaySpec(103), s.h1) // the host's own bridge may be the underlay of an overlay network
}

// A network change that a host rolled back, because it lost its connection, is retried only on request.
func TestRolledBackNetworkIsRetriedOnlyOnRequest(t *testing.T) {
	s := newProjectFixture(t)
	v := s.defineNetwork("wire", fleet.NetworkSpec{Mode: fleet.NetworkUplink, Device: "eth0"}, s.h1)
	subject := fleet.SubjectNetwork(v.ID)
	s.execSQL(`UPDATE jobs SET state = 'failed', ended_at = now() - interval '1 hour' WHERE subject = $1`, subject)
	s.setNetworkStatus(v.ID, s.h1, `{"active":false,"error":"The change was undone.","rolledBack":"2026-01-01T00:00:00Z"}`)
	if err := s.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if got := s.jobList(subject); strings.Contains(got, "queued") {
		t.Errorf("a rolled-back change is retried automatically: %s", got)
	}
	s.setNetworkStatus(v.ID, s.h1, `{"active":false,"error":"It failed."}`)
	if err := s.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if got := s.jobList(subject); !strings.Contains(got, "queued") {
		t.Errorf("another failure is not tried again: %s", got)
	}
}
