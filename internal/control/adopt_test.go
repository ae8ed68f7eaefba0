package control_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"quantix/internal/adoption"
	"quantix/internal/control"
	"quantix/internal/control/network"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// setDiscoveredPools writes a host's report on its own pools.
func (s *projectFixture) setDiscoveredPools(host fleet.HostID, pools ...fleet.DiscoveredPool) {
	s.t.Helper()
	text, err := json.Marshal(pools)
	if err != nil {
		s.t.Fatal(err)
	}
	s.execSQL(`UPDATE hosts SET status = jsonb_set(COALESCE(status, '{}'), '{discoveredPools}', $2::jsonb) WHERE id = $1`, host, string(text))
}

func dirPool(name, path string) fleet.DiscoveredPool {
	return fleet.DiscoveredPool{Name: name, Kind: "dir", Place: "at " + path, Active: true, Spec: &fleet.PoolSpec{Kind: fleet.PoolDir, Path: path}}
}

func TestPoolsOfHostsAreAdopted(t *testing.T) {
	s := newProjectFixture(t)
	s.setDiscoveredPools(s.h1, dirPool("default", "/srv/images"), fleet.DiscoveredPool{Name: "tank", Kind: "zfs", Adoptability: fleet.Adoptability{Refusal: "Quantix has no pools of the type zfs."}}, fleet.DiscoveredPool{Name: "old"})
	s.setDiscoveredPools(s.h2, dirPool("default", "/srv/images"), dirPool("tank", "/srv/tank"))
	adopt := func(host fleet.HostID, name string, hosts ...fleet.HostID) (fleet.PoolView, error) {
		return s.AdoptPool(t.Context(), chief, host, name, storage.AdoptPool{HostIDs: hosts})
	}
	refused := func(what string, code fleet.ErrorCode, words string, host fleet.HostID, name string, hosts ...fleet.HostID) {
		t.Helper()
		s.wantRefused(what, code, words, func() error { _, err := adopt(host, name, hosts...); return err })
	}
	refused("a type that Quantix lacks", fleet.Conflict, "no pools of the type zfs", s.h1, "tank")
	refused("a pool of an older agent", fleet.Conflict, "Upgrade the agent", s.h1, "old")
	refused("a missing pool", fleet.NotFound, "no pool named", s.h1, "other")
	refused("a host without an equal pool", fleet.Invalid, "no pool named tank", s.h2, "tank", s.h1)

	plan, err := s.PoolAdoption(t.Context(), chief, s.h1, "default")
	if err != nil || plan.HostName != "h1" || plan.Pool.Refusal != "" || plan.Pool.PoolID != "" || len(plan.Others) != 1 || plan.Others[0].HostID != s.h2 {
		t.Errorf("the plan is %+v %v", plan, err)
	}
	pool, err := adopt(s.h1, "default")
	if err != nil || pool.Name != "default" || pool.Spec != (fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/images"}) || len(pool.Hosts) != 1 || pool.Hosts[0].HostID != s.h1 {
		t.Fatalf("the adopted pool is %+v %v", pool, err)
	}
	if got := s.jobList(fleet.SubjectPool(pool.ID)); got != "pool.apply queued" {
		t.Errorf("the jobs are %s", got)
	}
	left, err := s.DiscoveredPools(t.Context(), chief, s.h1)
	if err != nil || len(left) != 2 || left[0].Name != "tank" || left[1].Refusal == "" {
		t.Errorf("the remaining pools are %+v %v", left, err)
	}
	refused("an adopted pool", fleet.NotFound, "no pool named", s.h1, "default")

	if found, err := s.DiscoveredPools(t.Context(), chief, s.h2); err != nil || found[0].PoolID != pool.ID {
		t.Errorf("the equal pool of another host joins %+v %v", found, err)
	}
	if joined, err := adopt(s.h2, "default"); err != nil || joined.ID != pool.ID || len(joined.Hosts) != 2 {
		t.Errorf("the second adoption returned %+v %v", joined, err)
	}
	s.setDiscoveredPools(s.h1, dirPool("tank", "/srv/elsewhere"))
	refused("a further host with another location", fleet.Invalid, "no pool named tank at /srv/tank", s.h2, "tank", s.h1)
	if _, err := adopt(s.h2, "tank"); err != nil {
		t.Error(err)
	}
	refused("another location", fleet.Conflict, "at another location (/srv/tank)", s.h1, "tank")
	if got := s.auditActions("pool."); got != "adopt default, adopt default, adopt tank" {
		t.Errorf("the audit has %s", got)
	}
}

func TestPoolIsAdoptedWithTheEqualPoolsOfFurtherHosts(t *testing.T) {
	s := newProjectFixture(t)
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.setDiscoveredPools(h, dirPool("default", "/srv/images"))
	}
	pool, err := s.AdoptPool(t.Context(), chief, s.h1, "default", storage.AdoptPool{HostIDs: []fleet.HostID{s.h2}})
	if err != nil || len(pool.Hosts) != 2 {
		t.Errorf("the pool is %+v %v", pool, err)
	}
}

// discoverNetwork adds a network that the hosts defined.
func (s *projectFixture) discoverNetwork(name string, spec fleet.NetworkSpec, hosts ...fleet.HostID) fleet.NetworkID {
	s.t.Helper()
	id := fleet.NewID[fleet.NetworkID]()
	s.execSQL(`INSERT INTO networks (id, name, kind) VALUES ($1, $2, 'libvirt')`, id, name)
	text, err := json.Marshal(fleet.NetworkStatus{Active: true, Bridge: spec.Bridge, Forward: spec.Forward(), Definition: &fleet.HostNetworkDefinition{Spec: &spec}})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range hosts {
		s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', $1, $2, $3)`, id, h, string(text))
	}
	return id
}

func (s *projectFixture) discoveredNetwork(host fleet.HostID, name string) (d adoption.DiscoveredNetwork, ok bool) {
	s.t.Helper()
	all, err := s.DiscoveredNetworks(s.t.Context(), chief, host)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range all {
		if d.Name == name {
			return d, true
		}
	}
	return d, false
}

func hostNATSpec() fleet.NetworkSpec {
	spec := natSpec("192.168.130.1/24")
	spec.Bridge = "virbr7"
	spec.IPv4.DHCP = &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: "192.168.130.2", End: "192.168.130.254"}}}
	return spec
}

func TestNetworksOfHostsAreAdopted(t *testing.T) {
	s := newProjectFixture(t)
	id := s.discoverNetwork("lab", hostNATSpec(), s.h1, s.h2)
	s.execSQL(`INSERT INTO network_grants (network_id) VALUES ($1)`, id)
	vm, err := s.CreateVM(t.Context(), s.member, control.CreateVM{
		ProjectID: s.red, HostID: s.h1, Name: "web", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, NICs: []fleet.NIC{{Network: "lab"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.NetworkAdoption(t.Context(), chief, s.h1, "lab")
	if err != nil || plan.Network.Refusal != "" || plan.Network.Joins || len(plan.Others) != 1 || plan.Others[0].HostID != s.h2 {
		t.Errorf("the plan is %+v %v", plan, err)
	}
	v, err := s.AdoptNetwork(t.Context(), chief, s.h1, "lab", network.AdoptNetwork{})
	want := hostNATSpec()
	want.Adopted = true
	if err != nil || v.ID != id || v.Spec == nil || !v.IsAdopted() || !adoption.SameDefinition(*v.Spec, want) {
		t.Fatalf("the adopted network is %+v %v", v, err)
	}
	if got := s.jobList(fleet.SubjectNetwork(id)); got != "network.apply queued" {
		t.Errorf("the jobs are %s", got)
	}
	if got, err := s.GetVM(t.Context(), s.member, vm.ID); err != nil || got.Spec.NICs[0].NetworkID != id {
		t.Errorf("the VM's NIC is %+v %v", got.Spec.NICs, err)
	}
	// The network of a host without the assignment stays usable, and can join.
	if _, err := s.CreateVM(t.Context(), s.member, control.CreateVM{
		ProjectID: s.red, HostID: s.h2, Name: "db", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, NICs: []fleet.NIC{{Network: "lab"}}},
	}); err != nil {
		t.Errorf("a VM on a host without the assignment: %v", err)
	}
	if found, ok := s.discoveredNetwork(s.h2, "lab"); !ok || !found.Joins || found.Refusal != "" {
		t.Errorf("on the other host, the discovered network is %+v", found)
	}
	if found, ok := s.discoveredNetwork(s.h1, "lab"); ok {
		t.Errorf("after the adoption, the network is still discovered: %+v", found)
	}
	for what, change := range map[string]func() error{
		"reserve an address": func() error {
			_, _, err := s.ReserveAddress(t.Context(), chief, id, fleet.StaticLease{MAC: "52:54:00:00:00:01", IP: "192.168.130.9"})
			return err
		},
		"add a port group": func() error {
			_, err := s.SetPortGroup(t.Context(), chief, id, fleet.PortGroup{Name: "a"}, true)
			return err
		},
	} {
		s.wantRefused(what, fleet.Conflict, "existed on its hosts before Quantix", change)
	}
	if joined, err := s.AdoptNetwork(t.Context(), chief, s.h2, "lab", network.AdoptNetwork{}); err != nil || len(joined.Hosts) != 2 || !joined.Hosts[1].Assigned {
		t.Errorf("the second adoption returned %+v %v", joined, err)
	}
	s.wantRefused("delete with VMs", fleet.Conflict, "web", func() error { _, err := s.DeleteEverywhere(t.Context(), chief, fleet.SubjectNetwork(id)); return err })
	if got := s.auditActions("network."); got != "adopt lab, adopt lab" {
		t.Errorf("the audit has %s", got)
	}
}

func TestNetworksThatDifferOrCannotBeExpressedAreNotAdopted(t *testing.T) {
	s := newProjectFixture(t)
	adopt := func(host fleet.HostID, name string, hosts ...fleet.HostID) func() error {
		return func() error {
			_, err := s.AdoptNetwork(t.Context(), chief, host, name, network.AdoptNetwork{HostIDs: hosts})
			return err
		}
	}
	id := s.discoverNetwork("lab", hostNATSpec(), s.h1, s.h2)
	s.setNetworkStatus(id, s.h2, strings.ReplaceAll(s.networkStatusText(id, s.h2), "130.254", "130.200"))
	s.wantRefused("a further host with another definition", fleet.Invalid, "lab of h2 has another definition", adopt(s.h1, "lab", s.h2))
	if err := adopt(s.h1, "lab")(); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("another definition", fleet.Conflict, "another definition from another host", adopt(s.h2, "lab"))
	s.wantRefused("assign to a host with another definition", fleet.Invalid, "lab of h2 has another definition", func() error {
		_, err := s.Assign(t.Context(), chief, fleet.SubjectNetwork(id), []fleet.HostID{s.h2})
		return err
	})
	s.execSQL(`DELETE FROM assignments WHERE object_id = $1 AND host_id = $2`, id, s.h2)
	s.wantRefused("assign to a host without it", fleet.Invalid, "h2 has no network named lab", func() error {
		_, err := s.Assign(t.Context(), chief, fleet.SubjectNetwork(id), []fleet.HostID{s.h2})
		return err
	})
	open := s.addNetwork(fleet.NetworkLibvirt, "open", `{"active":true,"definition":{"refusal":"Quantix has no networks with the forward mode open."}}`)
	s.wantRefused("a mode that Quantix lacks", fleet.Conflict, "forward mode open", adopt(s.h1, "open"))
	s.setNetworkStatus(open, s.h1, `{"active":true}`)
	s.wantRefused("a network of an older agent", fleet.Conflict, "Upgrade the agent", adopt(s.h1, "open"))
	s.wantRefused("a missing network", fleet.NotFound, "no libvirt network named", adopt(s.h1, "none"))
	s.addNetwork(fleet.NetworkBridge, "br7", `{"active":true}`)
	s.wantRefused("a bridge", fleet.NotFound, "no libvirt network named", adopt(s.h1, "br7"))
	lan := s.defineNetwork("lan", natSpec("10.5.0.1/24"))
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', $1, $2, '{"active":true,"foreign":true}')`, lan.ID, s.h1)
	s.wantRefused("the name of a created network", fleet.Conflict, "created another network with this name", adopt(s.h1, "lan"))
	s.wantRefused("create an adopted network", fleet.Invalid, "adopt", func() error {
		spec := natSpec("10.6.0.1/24")
		spec.Adopted = true
		_, err := s.CreateNetwork(t.Context(), chief, network.CreateNetwork{Name: "mine", Spec: spec})
		return err
	})
}

func (s *projectFixture) networkStatusText(id fleet.NetworkID, host fleet.HostID) (out string) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), `SELECT status::text FROM assignments WHERE object_id = $1 AND host_id = $2`, id, host).Scan(&out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// The UUID of an adopted network differs from its ID. Reports with the host's UUID are no conflict, and after the
// deletion the network is discovered again.
func TestAdoptedNetworkIsReportedUnderTheHostsUUIDAndDiscoveredAfterDeletion(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`UPDATE hosts SET status = '{}'`)
	spec := hostNATSpec()
	own := wire.NetworkReport{ID: fleet.NewID[fleet.NetworkID](), Name: "lab", Kind: fleet.NetworkLibvirt, Status: fleet.NetworkStatus{
		Active: true, Definition: &fleet.HostNetworkDefinition{Spec: &spec},
	}}
	r.reportFrom(time.Second, own)
	lab, err := r.AdoptNetwork(t.Context(), fleet.SystemActor, r.agent.HostID, "lab", network.AdoptNetwork{})
	if err != nil {
		t.Fatal(err)
	}
	r.reportFrom(time.Second, own)
	if v, err := r.GetNetwork(t.Context(), fleet.SystemActor, lab.ID); err != nil || len(v.Hosts) != 1 || v.Hosts[0].Status.NameTaken || v.Hosts[0].Status.Error != "" || !v.Hosts[0].Assigned {
		t.Errorf("before the host knows the adoption, its status is %+v %v", v.Hosts, err)
	}
	work := r.claimJobs()
	if len(work) != 1 || work[0].Network == nil || !work[0].Network.IsAdopted() {
		t.Fatalf("the host's work is %+v", work)
	}
	assigned := own
	assigned.ID = lab.ID
	if err := r.finishJob(work[0], wire.Finish{Outcome: wire.Done, Generation: work[0].Generation, Network: &assigned.Status}); err != nil {
		t.Fatal(err)
	}
	r.reportFrom(time.Second, assigned)
	if _, err := r.DeleteEverywhere(t.Context(), fleet.SystemActor, fleet.SubjectNetwork(lab.ID)); err != nil {
		t.Fatal(err)
	}
	work = r.claimJobs()
	if err := r.finishJob(work[0], wire.Finish{Outcome: wire.Done, Generation: work[0].Generation}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.GetNetwork(t.Context(), fleet.SystemActor, lab.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("the deleted network: %v", err)
	}
	r.reportFrom(time.Second, own)
	found, err := r.DiscoveredNetworks(t.Context(), fleet.SystemActor, r.agent.HostID)
	if err != nil || len(found) != 1 || found[0].Name != "lab" || found[0].Joins || found[0].Refusal != "" {
		t.Errorf("after the deletion, the discovered networks are %+v %v", found, err)
	}
}

// An honest agent refuses such definitions itself.
func TestPoolReportedWithInvalidSpecNotAdopted(t *testing.T) {
	s := newProjectFixture(t)
	s.setDiscoveredPools(s.h1, dirPool("relative", "srv/images"), dirPool("up", "/srv/../etc"))
	for _, name := range []string{"relative", "up"} {
		s.wantRefused(name, fleet.Conflict, "does not support the host's definition", func() error {
			_, err := s.AdoptPool(t.Context(), chief, s.h1, name, storage.AdoptPool{})
			return err
		})
	}
}
