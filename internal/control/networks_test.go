package control_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/control/network"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// natSpec returns the spec of a NAT network with the gateway.
func natSpec(gateway string) fleet.NetworkSpec {
	return fleet.NetworkSpec{Mode: fleet.NetworkNAT, DNS: true, IPv4: &fleet.Subnet{Gateway: gateway}}
}

// defineNetwork creates a network. An isolated, NAT or routed network is published to all projects, any other to none.
func (s *projectFixture) defineNetwork(name string, spec fleet.NetworkSpec, hosts ...fleet.HostID) fleet.NetworkView {
	s.t.Helper()
	v, err := s.CreateNetwork(s.t.Context(), chief, network.CreateNetwork{Name: name, Spec: spec, HostIDs: hosts})
	if err != nil {
		s.t.Fatal(err)
	}
	s.execSQL(`INSERT INTO network_grants (network_id) SELECT id FROM networks WHERE id = $1 AND spec->>'mode' IN ('isolated', 'nat', 'routed')`, v.ID)
	return v
}

// setNetworkStatus writes a host's reported status of a network.
func (s *projectFixture) setNetworkStatus(id fleet.NetworkID, host fleet.HostID, status string) {
	s.t.Helper()
	s.execSQL(`UPDATE assignments SET status = $3, observed_generation = 1 WHERE network_id = $1 AND host_id = $2`, id, host, status)
}

func TestNetworkAssignedReleasedAndDeleted(t *testing.T) {
	s := newProjectFixture(t)
	v := s.defineNetwork("lan", natSpec(" 10.5.0.1/24 "), s.h1, s.h1)
	if v.Spec == nil || v.Spec.IPv4.Gateway != "10.5.0.1/24" || len(v.Hosts) != 1 || v.Hosts[0].State != fleet.NetworkPending || !v.Hosts[0].Assigned {
		t.Fatalf("%+v", v)
	}
	subject := fleet.SubjectOf(fleet.TypeNetwork, v.ID)
	jobs, err := s.Assign(t.Context(), chief, fleet.SubjectNetwork(v.ID), []fleet.HostID{s.h1, s.h2})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%v %v", jobs, err)
	}
	s.setNetworkStatus(v.ID, s.h2, `{"active":false,"error":"Network is already in use by interface eth0"}`)
	if again, err := s.Retry(t.Context(), chief, fleet.SubjectNetwork(v.ID), s.h2); err != nil || again != jobs[0] {
		t.Errorf("a retry does not join the waiting job: %v %v", again, err)
	}
	if _, err := s.Release(t.Context(), chief, fleet.SubjectNetwork(v.ID), s.h2); err != nil {
		t.Fatal(err)
	}
	if got := s.jobList(subject); got != "network.apply queued, network.apply cancelled, network.release queued" {
		t.Errorf("after a release: %s", got)
	}
	s.wantRefused("release twice", fleet.Conflict, "h2 is releasing the network", func() error { _, err := s.Release(t.Context(), chief, fleet.SubjectNetwork(v.ID), s.h2); return err })
	s.wantRefused("retry where it is active", fleet.Conflict, "The network is active there.", func() error {
		s.setNetworkStatus(v.ID, s.h1, `{"active":true}`)
		_, err := s.Retry(t.Context(), chief, fleet.SubjectNetwork(v.ID), s.h1)
		return err
	})
	if jobs, err = s.DeleteEverywhere(t.Context(), chief, fleet.SubjectNetwork(v.ID)); err != nil || len(jobs) != 2 {
		t.Fatalf("%v %v", jobs, err)
	}
	s.wantRefused("assign a dying network", fleet.Conflict, "being deleted", func() error {
		_, err := s.Assign(t.Context(), chief, fleet.SubjectNetwork(v.ID), []fleet.HostID{s.h1})
		return err
	})
	s.execSQL(`DELETE FROM assignments WHERE network_id = $1 AND host_id = $2`, v.ID, s.h1)
	if v, err = s.GetNetwork(t.Context(), chief, v.ID); err != nil || v.DeletedAt == nil {
		t.Errorf("%+v %v", v, err)
	}
	s.execSQL(`DELETE FROM assignments WHERE network_id = $1`, v.ID)
	if _, err := s.GetNetwork(t.Context(), chief, v.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("the network outlives its last host: %v", err)
	}
	bare := s.defineNetwork("bare", fleet.NetworkSpec{Mode: fleet.NetworkIsolated})
	if page, err := s.ListNetworks(t.Context(), chief, fleet.Query{Filter: "name:bare"}); err != nil || len(page.Items) != 1 {
		t.Errorf("a network on no host is not listed: %+v %v", page, err)
	}
	if jobs, err := s.DeleteEverywhere(t.Context(), chief, fleet.SubjectNetwork(bare.ID)); err != nil || len(jobs) != 0 {
		t.Fatalf("%v %v", jobs, err)
	}
	if _, err := s.GetNetwork(t.Context(), chief, bare.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("a network on no host outlives its deletion: %v", err)
	}
	if got := s.auditActions("network."); got != "create lan, assign lan, retry lan, release lan, delete lan, create bare, delete bare" {
		t.Errorf("the audit tells of %s", got)
	}
}

func (s *projectFixture) auditActions(prefix string) (out string) {
	s.t.Helper()
	err := s.pool.QueryRow(s.t.Context(), `SELECT COALESCE(string_agg(substr(action, length($1::text) + 1) || ' ' || name, ', ' ORDER BY id), '') FROM audit WHERE action LIKE $1::text || '%'`, prefix).Scan(&out)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// Discovered networks cannot be assigned or deleted, and new networks cannot have their names.
func TestDiscoveredNetworksCannotBeChanged(t *testing.T) {
	s := newProjectFixture(t)
	id := definedNetworkArgs(&authzFixture{projectFixture: s})[0].(fleet.NetworkID)
	const found = "The network was discovered on hosts and is not managed here."
	s.wantRefused("assign", fleet.Conflict, found, func() error {
		_, err := s.Assign(t.Context(), chief, fleet.SubjectNetwork(id), []fleet.HostID{s.h1})
		return err
	})
	s.wantRefused("release", fleet.Conflict, found, func() error { _, err := s.Release(t.Context(), chief, fleet.SubjectNetwork(id), s.h1); return err })
	s.wantRefused("retry", fleet.Conflict, found, func() error { _, err := s.Retry(t.Context(), chief, fleet.SubjectNetwork(id), s.h1); return err })
	s.wantRefused("delete", fleet.Conflict, found, func() error { _, err := s.DeleteEverywhere(t.Context(), chief, fleet.SubjectNetwork(id)); return err })
	create := func(name string) func() error {
		return func() error {
			_, err := s.CreateNetwork(t.Context(), chief, network.CreateNetwork{Name: name, Spec: natSpec("10.5.0.1/24")})
			return err
		}
	}
	s.wantRefused("define its name", fleet.Invalid, "A network named default was found on hosts: h1, h2.", create("default"))
	s.defineNetwork("lan", natSpec("10.5.0.1/24"))
	s.wantRefused("define a name twice", fleet.Invalid, "A network named lan is defined already.", create("lan"))
	s.execSQL(`DELETE FROM assignments WHERE network_id = $1`, id)
	s.wantRefused("define the name of a vanished network", fleet.Invalid, "was found on a host before", create("default"))
	s.wantRefused("define invalid values", fleet.Invalid, "outside the subnet", func() error {
		spec := natSpec("10.6.0.1/24")
		spec.IPv4.DHCP = &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: "10.7.0.1", End: "10.7.0.9"}}}
		_, err := s.CreateNetwork(t.Context(), chief, network.CreateNetwork{Name: "odd", Spec: spec, HostIDs: []fleet.HostID{s.h1}})
		return err
	})
}

// Address ranges on one host must not overlap: neither those of defined networks nor those of discovered networks and
// bridges.
func TestOverlappingNetworksRefusedPerHost(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`UPDATE assignments SET status = '{"active":true,"bridge":"virbr0","subnets":["192.168.122.0/24","nonsense","0.0.0.0/0"]}' WHERE noun = 'net' AND host_id = $1`, s.h1)
	s.defineNetwork("lan", natSpec("10.5.0.1/24"), s.h1)
	create := func(name string, spec fleet.NetworkSpec, host fleet.HostID) func() error {
		return func() error {
			_, err := s.CreateNetwork(t.Context(), chief, network.CreateNetwork{Name: name, Spec: spec, HostIDs: []fleet.HostID{host}})
			return err
		}
	}
	s.wantRefused("a subnet within another network's", fleet.Invalid, "10.5.0.128/25 of network b overlaps 10.5.0.0/24 of network lan on h1", create("b", natSpec("10.5.0.129/25"), s.h1))
	s.wantRefused("a subnet around another network's", fleet.Invalid, "10.0.0.0/8 of network b overlaps 10.5.0.0/24 of network lan on h1", create("b", natSpec("10.0.0.1/8"), s.h1))
	s.wantRefused("a discovered network's subnet", fleet.Invalid, "192.168.0.0/16 of network b overlaps 192.168.122.0/24 of network default on h1", create("b", natSpec("192.168.0.1/16"), s.h1))
	s.execSQL(`INSERT INTO networks (id, name, kind) VALUES ('br', 'br0', 'bridge')`)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', 'br', $1, '{"active":true,"subnets":["172.16.0.0/16"]}')`, s.h2)
	s.wantRefused("a bridge's subnet", fleet.Invalid, "172.16.5.0/24 of network b overlaps 172.16.0.0/16 of bridge br0 on h2", create("b", natSpec("172.16.5.1/24"), s.h2))
	named := fleet.NetworkSpec{Mode: fleet.NetworkIsolated, Bridge: "virbr0"}
	s.wantRefused("a bridge device", fleet.Invalid, "The network default has the bridge device virbr0 on h1 already.", create("b", named, s.h1))
	six := fleet.NetworkSpec{Mode: fleet.NetworkRouted, IPv6: &fleet.Subnet{Gateway: "fd00:5::1/64"}}
	s.defineNetwork("six", six, s.h2)
	s.wantRefused("the same IPv6", fleet.Invalid, "fd00:5::/64 of network b overlaps fd00:5::/64 of network six on h2", create("b", six, s.h2))
	other := s.defineNetwork("b", natSpec("10.5.0.129/25"), s.h2) // on another host there is no conflict
	s.wantRefused("assigned later", fleet.Invalid, "overlaps 10.5.0.0/24 of network lan on h1", func() error {
		_, err := s.Assign(t.Context(), chief, fleet.SubjectNetwork(other.ID), []fleet.HostID{s.h1})
		return err
	})
}

// Of two concurrent definitions, the second waits until the first has committed and conflicts with it.
func TestConcurrentOverlappingNetworksRefused(t *testing.T) {
	s := newProjectFixture(t)
	first, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Rollback(context.WithoutCancel(t.Context()))
	for _, sql := range []string{
		`SELECT pg_advisory_xact_lock(hashtext('quantix networks'))`,
		`INSERT INTO networks (id, name, kind, spec) VALUES ('first', 'first', 'libvirt', '{"mode":"nat","ipv4":{"gateway":"10.5.0.1/24"}}')`,
		`INSERT INTO assignments (noun, object_id, host_id, asked) SELECT 'net', 'first', id, 'assign' FROM hosts`,
	} {
		if _, err := first.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.CreateNetwork(t.Context(), chief, network.CreateNetwork{Name: "second", Spec: natSpec("10.5.0.1/16"), HostIDs: []fleet.HostID{s.h1}})
		ended <- err
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for waits := 0; waits == 0; {
		select {
		case err := <-ended:
			t.Fatalf("the second did not wait for the first: %v", err)
		case <-tick.C:
		}
		err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; fleet.CodeOf(err) != fleet.Invalid || !strings.Contains(err.Error(), "overlaps 10.5.0.0/24 of network first on h1") {
		t.Errorf("the second ended with %v", err)
	}
}

// A network cannot be released from a host while VMs there have NICs on it. The network's page counts these VMs on
// hosts where the network failed.
func TestNetworkInUseNotRemovedFromHost(t *testing.T) {
	s := newProjectFixture(t)
	v := s.defineNetwork("lan", natSpec("10.5.0.1/24"), s.h1, s.h2)
	s.setNetworkStatus(v.ID, s.h1, `{"active":true}`)
	s.setNetworkStatus(v.ID, s.h2, `{"active":true}`)
	spec := smallSpec
	spec.NICs = []fleet.NIC{{NetworkID: v.ID}}
	for _, name := range []string{"web-1", "web-2"} {
		if _, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: spec}); err != nil {
			t.Fatal(err)
		}
	}
	release := func(host fleet.HostID) func() error {
		return func() error { _, err := s.Release(t.Context(), chief, fleet.SubjectNetwork(v.ID), host); return err }
	}
	s.wantRefused("release", fleet.Conflict, "VMs on this host have NICs on network lan: web-1, web-2.", release(s.h1))
	s.wantRefused("delete", fleet.Conflict, "VMs still have NICs on network lan", func() error { _, err := s.DeleteEverywhere(t.Context(), chief, fleet.SubjectNetwork(v.ID)); return err })
	if err := release(s.h2)(); err != nil {
		t.Errorf("where no VM is on it: %v", err)
	}
	s.setNetworkStatus(v.ID, s.h1, `{"active":true,"error":"dnsmasq is not running"}`)
	page, err := s.NetworkHosts(t.Context(), chief, v.ID, fleet.Query{})
	if err != nil || len(page.Items) != 2 || page.Items[0].HostName != "h1" || page.Items[0].State != fleet.NetworkFailed || page.Items[0].VMs != 2 || page.Items[1].VMs != 0 || !page.Items[1].Releasing {
		t.Errorf("%+v %v", page.Items, err)
	}
	if seen, err := s.GetNetwork(t.Context(), s.member, v.ID); err != nil || len(seen.Hosts) != 0 || seen.Health.Hosts != 0 || seen.Health.AffectedVMs != 2 {
		t.Errorf("a project's member is shown %+v %v", seen, err)
	}
}

// Tenants see granted networks, without host devices and without other tenants' leases.
func TestTenantViewOfNetworkIsRedacted(t *testing.T) {
	s := newProjectFixture(t)
	spec := natSpec("10.5.0.1/24")
	spec.Bridge, spec.Device = "qx-lan", "eth7"
	spec.IPv4.DHCP = &fleet.DHCP{Leases: []fleet.StaticLease{{MAC: "52:54:00:12:34:56", IP: "10.5.0.9", Name: "secret"}}}
	v := s.defineNetwork("lan", spec, s.h1)
	seen, err := s.GetNetwork(t.Context(), s.member, v.ID)
	if err != nil || seen.Spec == nil || seen.Spec.IPv4.Gateway != "10.5.0.1/24" {
		t.Fatalf("%+v %v", seen, err)
	}
	if text := fmt.Sprintf("%+v %+v", *seen.Spec, *seen.Spec.IPv4.DHCP); strings.Contains(text, "qx-lan") || strings.Contains(text, "eth7") || strings.Contains(text, "secret") {
		t.Errorf("a tenant is shown %s", text)
	}
	s.execSQL(`DELETE FROM network_grants WHERE network_id = $1`, v.ID)
	if _, err := s.GetNetwork(t.Context(), s.member, v.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("an unpublished network is shown to a tenant: %v", err)
	}
}

// A host's job sets up the network and returns the network's status. A new network cannot have the name of a network
// that Quantix did not define on any host.
func TestNetworkJobSetsHostStatus(t *testing.T) {
	r := newHostFixture(t)
	other := r.addHost("other")
	v, err := r.CreateNetwork(t.Context(), fleet.SystemActor, network.CreateNetwork{Name: "lan", Spec: natSpec("10.5.0.1/24"), HostIDs: []fleet.HostID{r.agent.HostID}})
	if err != nil {
		t.Fatal(err)
	}
	assignments := func() string {
		t.Helper()
		return queryValue[string](r, `SELECT string_agg(h.name || ' [' || a.asked || '] ' || COALESCE(a.status::text, '') || ' ' || a.observed_generation, ', ' ORDER BY h.name) FROM assignments a JOIN hosts h ON h.id = a.host_id WHERE a.network_id = '`+string(v.ID)+`'`)
	}
	work := r.claimJobs()
	if len(work) != 1 || work[0].Kind != fleet.NetworkApply || work[0].Network == nil || work[0].Network.Spec.IPv4.Gateway != "10.5.0.1/24" || work[0].Generation != 1 || work[0].Network.ID != v.ID {
		t.Fatalf("%+v", work)
	}
	if err := r.finishJob(work[0], wire.Finish{Outcome: wire.Done, Generation: 1, Network: &fleet.NetworkStatus{Active: true, Bridge: "virbr7"}}); err != nil {
		t.Fatal(err)
	}
	if got := assignments(); !strings.HasSuffix(got, `[assign] {"active": true, "bridge": "virbr7"} 1`) {
		t.Errorf("after the job: %s", got)
	}
	own := wire.NetworkReport{ID: v.ID, Name: "lan", Kind: fleet.NetworkLibvirt, Status: fleet.NetworkStatus{Active: true}}
	r.reportPoolsAndNetworks(nil, own)
	if got := assignments(); strings.Contains(got, "foreign") {
		t.Errorf("its own network: %s", got)
	}
	alien := own
	alien.ID = fleet.NewID[fleet.NetworkID]()
	r.reportPoolsAndNetworks(nil, alien)
	if got := assignments(); !strings.Contains(got, `"foreign": true`) || !strings.Contains(got, "which Quantix did not make") {
		t.Errorf("another network of its name: %s", got)
	}
	old := own
	old.ID = ""
	r.reportPoolsAndNetworks(nil, old)
	if got := assignments(); !strings.Contains(got, `"foreign": true`) {
		t.Errorf("a network reported by an older agent: %s", got)
	}
	r.reportPoolsAndNetworks(nil, own)
	r.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', $1, $2, '{"active": true, "foreign": true, "error": "x"}')`, v.ID, other.HostID)
	if _, err := r.DeleteEverywhere(t.Context(), fleet.SystemActor, fleet.SubjectNetwork(v.ID)); err != nil {
		t.Fatal(err)
	}
	if work = r.claimJobs(); len(work) != 1 || work[0].Kind != fleet.NetworkRelease || work[0].Generation != 2 {
		t.Fatalf("%+v", work)
	}
	r.execSQL(`INSERT INTO network_grants (network_id) VALUES ($1)`, v.ID)
	if err := r.finishJob(work[0], wire.Finish{Outcome: wire.Done, Generation: 2}); err != nil {
		t.Fatal(err)
	}
	if got, want := assignments(), `other [] {"active": true} 0`; got != want {
		t.Errorf("with a network of the same name on another host: %q, want %q", got, want)
	}
	if left, err := r.GetNetwork(t.Context(), chief, v.ID); err != nil || left.Spec != nil || left.DeletedAt != nil {
		t.Errorf("the remaining networks are %+v %v", left, err)
	}
	if n := queryValue[int](r, `SELECT count(*)::integer FROM network_grants`); n != 0 {
		t.Error("the network's grants outlive the network")
	}
}

// A VM is placed only on hosts where its network is assigned and active, not on hosts with a different network of the
// same name.
func TestVMPlacedOnlyOnHostsWithItsNetwork(t *testing.T) {
	s := newProjectFixture(t)
	v := s.defineNetwork("lan", natSpec("10.5.0.1/24"), s.h1)
	spec := smallSpec
	spec.NICs = []fleet.NIC{{NetworkID: v.ID}}
	create := func() error {
		_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "web", Spec: spec})
		return err
	}
	s.wantRefused("before it is there", fleet.Invalid, "no active network", func() error { return create() })
	s.setNetworkStatus(v.ID, s.h1, `{"active":true,"foreign":true}`)
	// Host h2 reports the network as active without an assignment. The VM is not placed on h2.
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', $1, $2, '{"active":true}')`, v.ID, s.h2)
	s.wantRefused("where only a different network of the same name is active", fleet.Invalid, "no active network", func() error { return create() })
	s.setNetworkStatus(v.ID, s.h1, `{"active":true}`)
	if err := create(); err != nil {
		t.Error(err)
	}
	assign := func() error {
		_, err := s.Assign(t.Context(), chief, fleet.SubjectNetwork(v.ID), []fleet.HostID{s.h2})
		return err
	}
	s.setNetworkStatus(v.ID, s.h2, `{"active":true,"foreign":true}`)
	s.wantRefused("assign beside a different network of the same name", fleet.Invalid, "h2 has a network named lan already, which Quantix did not make.", assign)
	s.setNetworkStatus(v.ID, s.h2, `{"active":true}`) // a status of a former assignment
	if err := assign(); err != nil {
		t.Error(err)
	}
}
