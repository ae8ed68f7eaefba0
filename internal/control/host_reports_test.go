package control_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// A false report of one host about its domains must not affect files and VMs of other hosts.
func TestHostReportAffectsOnlyItsOwnFiles(t *testing.T) {
	s := newProjectFixture(t)
	rogue := s.addHostWithMemory("rogue", 16384)
	claim := func(host fleet.HostID, paths ...string) {
		t.Helper()
		s.execSQL(`DELETE FROM found_vms`)
		for i, p := range paths {
			s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, gen_random_uuid()::text, $2,
				jsonb_build_object('power', 'running', 'disks', jsonb_build_array(jsonb_build_object('path', $3::text))))`, host, fmt.Sprint("liar-", i), p)
		}
	}
	images := func() string {
		t.Helper()
		all, err := s.Images(t.Context(), chief)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, v := range all {
			on := []string{}
			for _, h := range v.Hosts {
				on = append(on, h.Name)
			}
			names = append(names, v.PoolName+":"+strings.Join(on, "+"))
		}
		return strings.Join(names, " ")
	}
	clone := func(pool fleet.PoolID) error {
		in := control.CreateVM{ProjectID: s.red, Name: fleet.NewID[string]()[24:], Spec: smallSpec}
		in.Name = "vm-" + in.Name
		in.Spec.Disks = []fleet.Disk{{PoolID: pool, Image: &fleet.Volref{PoolID: pool, Volume: "debian.qcow2"}}}
		_, err := s.CreateVM(t.Context(), chief, in)
		return err
	}
	const all = "local:h1 nfs:h1"
	every := []string{"/v/debian.qcow2", "/mnt/nfs/debian.qcow2", "/srv/vm/debian.qcow2"}

	claim(rogue, every...)
	if got := images(); got != all {
		t.Errorf("a host without the pool hides images: %s remains of %s", got, all)
	}
	for _, pool := range []fleet.PoolID{s.nfs, s.local} {
		if err := clone(pool); err != nil {
			t.Errorf("a host without the pool prevents cloning: %v", err)
		}
	}
	claim(s.h2, every...) // h2 has the pool nfs, but not the local pool of h1
	if got := images(); got != "local:h1" {
		t.Errorf("an unmanaged VM of h2 uses a file of the shared pool; offered: %s", got)
	}
	if err := clone(s.nfs); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("cloned from a file that an unmanaged VM writes: %v", err)
	}
	if err := clone(s.local); err != nil {
		t.Errorf("h2 keeps h1 from cloning a local image: %v", err)
	}
	claim(s.h1, "/v/debian.qcow2")
	if got := images(); got != "" {
		t.Errorf("h1's VM uses the files; offered: %s", got)
	}

	// Files of the same name in a local pool are different files on each host, so one host's report does not affect the
	// use of another host's file.
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at)
		SELECT noun, object_id, $2, asked, status, 1, now() FROM assignments WHERE pool_id = $1`, s.local, rogue)
	claim(rogue, "/v/debian.qcow2")
	if err := clone(s.local); err != nil {
		t.Errorf("the rogue's own copy is in use, h1's is not: %v", err)
	}
	// A host cannot hide another host's use of a shared file with a false path.
	s.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes,0,path}', '"/elsewhere"') WHERE noun = 'pool' AND host_id = $1`, s.h1)
	claim(s.h2, "/mnt/nfs/debian.qcow2")
	if got := images(); strings.Contains(got, "nfs") {
		t.Errorf("a used file of the shared pool is offered: %s", got)
	}
	if err := clone(s.nfs); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("cloned from a file that an unmanaged VM writes: %v", err)
	}
}

func TestNetworksMissingInReportAreRemoved(t *testing.T) {
	r := newHostFixture(t)
	other := r.addHost("h2")
	network := func(kind fleet.NetworkKind, name string) wire.NetworkReport {
		return wire.NetworkReport{Name: name, Kind: kind, Status: fleet.NetworkStatus{Active: true}}
	}
	say := func(networks ...wire.NetworkReport) {
		t.Helper()
		_, err := r.Report(t.Context(), r.agent, wire.Report{
			Seq: r.nextSeq(), Digest: strconv.FormatInt(r.seq, 10), State: &wire.State{Host: fleet.HostStatus{Connected: true}, Networks: networks},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	left := func(want string) {
		t.Helper()
		if got := queryValue[string](r, `SELECT COALESCE(string_agg(kind || ':' || name, ' ' ORDER BY kind, name), '') FROM networks`); got != want {
			t.Errorf("networks: %q, want %q", got, want)
		}
	}
	vm := r.addVM("web")
	bulkOrder := []wire.NetworkReport{
		network(fleet.NetworkLibvirt, "kept"), network(fleet.NetworkBridge, "kept"), network(fleet.NetworkBridge, "br-kept"), network(fleet.NetworkLibvirt, "both"),
	}
	for i := range 500 {
		bulkOrder = append(bulkOrder, network(fleet.NetworkBridge, fmt.Sprint("junk-", i)))
	}
	say(bulkOrder...)
	r.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('nics', (SELECT jsonb_agg(jsonb_build_object('networkId', n.id)) FROM networks n
		WHERE n.kind || ':' || n.name IN ('libvirt:kept', 'bridge:br-kept')))`)
	r.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', id, $1, '{}' FROM networks WHERE name = 'both'`, other.HostID)
	say()
	left("bridge:br-kept libvirt:both libvirt:kept")
	say(bulkOrder[0])
	r.execSQL(`DELETE FROM vms WHERE id = $1`, vm)
	r.execSQL(`DELETE FROM hosts WHERE id = $1`, other.HostID)
	if err := r.DeleteExpiredRows(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	left("libvirt:kept")
}

func TestJobEpochsRiseByRandomSteps(t *testing.T) {
	r := newHostFixture(t)
	var before, gap int64
	gaps := map[int64]bool{}
	for i := range 8 {
		r.addVM(fmt.Sprint("vm-", i))
		epoch := r.claimJobs()[0].Epoch
		if epoch <= before {
			t.Fatalf("epoch %d after %d", epoch, before)
		}
		gap, before = epoch-before, epoch
		gaps[gap] = true
	}
	if len(gaps) < 7 || gaps[1] {
		t.Errorf("the gaps between epochs: %v", gaps)
	}
}
