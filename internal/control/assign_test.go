package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// reportPoolsAndNetworks reports the host's pools and networks.
func (r *hostFixture) reportPoolsAndNetworks(pools []wire.PoolReport, networks ...wire.NetworkReport) {
	r.t.Helper()
	seq := r.nextSeq()
	_, err := r.Report(r.t.Context(), r.agent, wire.Report{Seq: seq, Digest: string(rune(seq)), State: &wire.State{
		Host: fleet.HostStatus{Connected: true}, Pools: pools, Networks: networks,
	}})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *hostFixture) assignmentList() string {
	r.t.Helper()
	return queryValue[string](r, `SELECT COALESCE(string_agg(concat_ws(' ', o.noun, o.name, a.asked, COALESCE(a.status->>'state', a.status->>'active')), ', ' ORDER BY o.noun, o.name), '')
		FROM assignments a JOIN objects o ON o.noun = a.noun AND o.id = a.object_id`)
}

// The portal stores the status of a reported pool only if the pool is assigned to the host. Pools match by id or, for
// older agents, by name. A reported network without an assignment is stored as discovered.
func TestReportedPoolsMatchAssignmentsByIDOrName(t *testing.T) {
	r := newHostFixture(t)
	for _, name := range []string{"fast", "slow", "others"} {
		r.execSQL(`INSERT INTO pools (id, name, spec) VALUES ($1, $1, '{}')`, name)
	}
	r.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('pool', 'fast', $1, 'assign'), ('pool', 'slow', $1, 'release')`, r.agent.HostID)
	active := fleet.PoolStatus{State: fleet.PoolActive}
	lan := wire.NetworkReport{Name: "lan", Kind: fleet.NetworkLibvirt, Status: fleet.NetworkStatus{Active: true}}
	r.reportPoolsAndNetworks([]wire.PoolReport{{ID: "fast", Name: "renamed", Status: active}, {Name: "slow", Status: active}, {ID: "others", Name: "others", Status: active}}, lan)
	if got, want := r.assignmentList(), "net lan  true, pool fast assign active, pool slow release active"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	r.reportPoolsAndNetworks([]wire.PoolReport{{ID: "nobody's", Name: "fast", Status: fleet.PoolStatus{State: fleet.PoolFailed}}})
	if got, want := r.assignmentList(), "pool fast assign active, pool slow release active"; got != want {
		t.Errorf("after a report with another pool id and without the network: %q, want %q", got, want)
	}
}

// The drift pass queues jobs for pools and networks that are missing or inactive on the host. It skips objects that a
// person stopped on the host.
func TestLostPoolsAndNetworksAreReapplied(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`INSERT INTO networks (id, name, kind, spec) SELECT n, n, 'libvirt', '{}' FROM unnest(ARRAY['new', 'leaving', 'off', 'stopped', 'failed', 'fine']) n`)
	r.execSQL(`INSERT INTO pools (id, name, spec) VALUES ('fast', 'fast', '{}')`)
	r.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked) SELECT 'pool', 'fast', $1, 'assign'`, r.agent.HostID)
	r.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, observed_generation, status) VALUES ('net', 'new', $1, 'assign', 0, NULL),
		('net', 'leaving', $1, 'release', 1, '{"active":true}'), ('net', 'off', $1, 'assign', 1, '{"active":false}'), ('net', 'stopped', $1, 'assign', 1, '{"active":false,"byOthers":true}'),
		('net', 'failed', $1, 'assign', 1, '{"active":true,"error":"dnsmasq"}'), ('net', 'fine', $1, 'assign', 1, '{"active":true}')`, r.agent.HostID)
	r.execSQL(`UPDATE host_sessions SET seen_at = now(), blind_since = NULL`)
	if err := r.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if got := queryValue[string](r, `SELECT COALESCE(string_agg(kind || ' ' || subject, ', ' ORDER BY kind, subject), '') FROM jobs`); got != "network.apply net:new, network.apply net:off, network.release net:leaving, pool.apply pool:fast" {
		t.Errorf("queued %q", got)
	}
}

// A report without changes writes and locks no rows of the host's pools and networks.
func TestUnchangedReportWritesNoRows(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`INSERT INTO pools (id, name, spec) VALUES ('fast', 'fast', '{}')`)
	r.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('pool', 'fast', $1, 'assign')`, r.agent.HostID)
	say := func(active bool) string {
		t.Helper()
		r.reportPoolsAndNetworks([]wire.PoolReport{{ID: "fast", Name: "fast", Status: fleet.PoolStatus{State: fleet.PoolActive}}},
			wire.NetworkReport{Name: "lan", Kind: fleet.NetworkLibvirt, Status: fleet.NetworkStatus{Active: active}}, wire.NetworkReport{Name: "br0", Kind: fleet.NetworkBridge})
		return queryValue[string](r, `SELECT concat((SELECT string_agg(concat(ctid, xmin, xmax), ' ' ORDER BY ctid) FROM assignments), (SELECT string_agg(concat(ctid, xmin, xmax), ' ' ORDER BY ctid) FROM networks))`)
	}
	first := say(true)
	if again := say(true); again != first {
		t.Errorf("rows before %s, after the same report %s", first, again)
	}
	if changed := say(false); changed == first {
		t.Error("a network that is inactive now was not written")
	}
}

// A NIC refers to its network by id or by name. The database stores only the id; pages and hosts get both.
func TestNICNetworkStoredByID(t *testing.T) {
	s := newProjectFixture(t)
	var id fleet.NetworkID
	if err := s.pool.QueryRow(t.Context(), `SELECT id FROM networks`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	create := func(a fleet.Actor, name string, nics ...fleet.NIC) (fleet.VMView, error) {
		spec := smallSpec
		spec.NICs = nics
		return s.CreateVM(t.Context(), a, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: spec})
	}
	vm, err := create(chief, "web", fleet.NIC{NetworkID: id}, fleet.NIC{Network: "default"}, fleet.NIC{NetworkID: id, Network: "default"})
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.ListVMs(t.Context(), chief, fleet.Query{Filter: "network:default"})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%d VMs are listed: %v", len(page.Items), err)
	}
	agent := s.agentSession(s.h1)
	claim, err := s.Claim(t.Context(), agent, wire.ClaimRequest{Max: 1}, 0)
	if err != nil || len(claim.Jobs) != 1 {
		t.Fatalf("%+v %v", claim, err)
	}
	for where, nics := range map[string][]fleet.NIC{"made": vm.Spec.NICs, "read": s.getVM(vm.ID).Spec.NICs, "listed": page.Items[0].Spec.NICs, "sent": claim.Jobs[0].VM.Spec.NICs} {
		for i, n := range nics {
			if len(nics) != 3 || n.NetworkID != id || n.Network != "default" || n.Bridge != "" || n.MAC == "" {
				t.Errorf("%s: NIC %d of %d is %+v", where, i+1, len(nics), n)
			}
		}
	}
	if n := s.countRows(`vms v, jsonb_array_elements(v.spec->'nics') AS c WHERE c ? 'networkId' AND NOT c ?| ARRAY['network', 'bridge']`); n != 3 {
		t.Errorf("%d NICs are stored with only the network's id", n)
	}
	s.reportPower(vm.ID, fleet.Stopped)
	if _, err := s.RequestPowerAction(t.Context(), chief, vm.ID, fleet.ActStart); err != nil { // a start writes the spec too
		t.Fatal(err)
	}
	if got := s.getVM(vm.ID).Spec.NICs; got[0].Network != "default" {
		t.Errorf("after an order the NICs are %+v", got)
	}

	bridge := s.addNetwork(fleet.NetworkBridge, "br0", `{"active":true}`)
	for says, try := range map[string]struct {
		by  fleet.Actor
		nic fleet.NIC
	}{
		"There is no such network.": {chief, fleet.NIC{NetworkID: fleet.NewID[fleet.NetworkID]()}},
		// The error is the same as for an unknown network, so that it does not reveal the bridge.
		"There is no such net":                 {s.member, fleet.NIC{NetworkID: bridge}},
		"There is no such":                     {chief, fleet.NIC{NetworkID: "default"}},
		"no such network that is named lan.":   {chief, fleet.NIC{NetworkID: id, Network: "lan"}},
		"br0 is not published to this project": {s.member, fleet.NIC{Bridge: "br0"}},
		"Choose one network or one bridge.":    {chief, fleet.NIC{Network: "default", Bridge: "br0"}},
		`h1 has no active network "elsewhere"`: {chief, fleet.NIC{Network: "elsewhere"}},
	} {
		s.wantRefused(says, fleet.Invalid, says, func() error { _, err := create(try.by, "refused", try.nic); return err })
	}
	if vm, err := create(chief, "bridged", fleet.NIC{NetworkID: bridge}); err != nil || vm.Spec.NICs[0].Bridge != "br0" {
		t.Errorf("%+v %v", vm.Spec.NICs, err)
	}
}
