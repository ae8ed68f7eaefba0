package control_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/ipam"
)

// dhcpNetwork returns a network with a DHCP range, on both hosts.
func (s *projectFixture) dhcpNetwork(name, at string) fleet.NetworkView {
	s.t.Helper()
	spec := natSpec(at + "1/24")
	spec.IPv4.DHCP = &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: at + "100", End: at + "150"}}}
	return s.defineNetwork(name, spec, s.h1, s.h2)
}

// vmOnNetwork returns a VM on h1 with one NIC on the network. The host reports the NIC's addresses.
func (s *projectFixture) vmOnNetwork(name string, n fleet.NetworkID, mac string, ips ...string) fleet.VMID {
	s.t.Helper()
	v := s.createVM(name, fleet.Running)
	s.execSQL(`UPDATE vms SET host_id = $2, spec = jsonb_set(spec, '{nics}', jsonb_build_array(jsonb_build_object('networkId', $3::text, 'mac', $4::text))),
		status = jsonb_set(status, '{nics}', jsonb_build_array(jsonb_build_object('mac', $4::text, 'source', 'network', 'addresses', $5::jsonb))) WHERE id = $1`,
		v.ID, s.h1, n, mac, `["`+strings.Join(ips, `","`)+`"]`)
	return v.ID
}

func TestAddressReservationAppliedOnEachHost(t *testing.T) {
	s := newProjectFixture(t)
	n := s.dhcpNetwork("lab", "10.7.0.")
	s.execSQL(`UPDATE jobs SET state = 'done', ended_at = now()`)
	web := s.vmOnNetwork("web", n.ID, "52:54:00:00:07:01", "10.7.0.101")
	s.vmOnNetwork("db", n.ID, "52:54:00:00:07:02", "10.7.0.2")

	// A request without an address reserves the NIC's current address.
	lease, tasks, err := s.ReserveAddress(t.Context(), chief, n.ID, fleet.StaticLease{MAC: "52-54-00-00-07-01", Name: "web"})
	if err != nil || lease.IP != "10.7.0.101" || len(tasks) != 2 {
		t.Fatalf("%+v %v %v", lease, tasks, err)
	}
	got, err := s.GetNetwork(t.Context(), chief, n.ID)
	if err != nil || got.Generation != 2 || len(got.Spec.IPv4.DHCP.Leases) != 1 || got.Spec.IPv4.DHCP.Leases[0] != lease {
		t.Fatalf("%+v %v", got.Spec.IPv4.DHCP, err)
	}
	if jobs := s.jobList(fleet.SubjectNetwork(n.ID)); strings.Count(jobs, "network.apply queued") != 2 {
		t.Errorf("jobs: %s", jobs)
	}
	if _, tasks, err = s.ReserveAddress(t.Context(), chief, n.ID, lease); err != nil || len(tasks) != 0 {
		t.Errorf("the same again: %v %v", tasks, err)
	}
	// A request for a MAC address without a VM reserves the next free address. The addresses of the gateway and of VM "db"
	// are skipped.
	if lease, _, err = s.ReserveAddress(t.Context(), chief, n.ID, fleet.StaticLease{MAC: "52:54:00:00:07:09"}); err != nil || lease.IP != "10.7.0.3" {
		t.Errorf("%+v %v", lease, err)
	}
	// Another address for the same NIC replaces the first reservation.
	if _, _, err = s.ReserveAddress(t.Context(), chief, n.ID, fleet.StaticLease{MAC: "52:54:00:00:07:01", IP: "10.7.0.7"}); err != nil {
		t.Fatal(err)
	}
	known, err := s.NetworkAddresses(t.Context(), chief, n.ID, "")
	if err != nil || len(known.Reservations) != 2 || known.Reservations[1].VMID != web || known.Reservations[1].IP != "10.7.0.7" {
		t.Errorf("%+v %v", known.Reservations, err)
	}
	if len(known.Conflicts) != 1 || known.Conflicts[0].Kind != ipam.ConflictUnusedReservation {
		t.Errorf("conflicts: %+v", known.Conflicts)
	}
	nics, err := s.VMAddresses(t.Context(), s.member, web)
	if err != nil || len(nics) != 1 || nics[0].Reserved != "10.7.0.7" || nics[0].Seen[0].IP != "10.7.0.101" || !nics[0].SupportsReservations {
		t.Errorf("%+v %v", nics, err)
	}
	if tasks, err = s.FreeAddress(t.Context(), chief, n.ID, "52:54:00:00:07:01"); err != nil || len(tasks) != 2 {
		t.Errorf("%v %v", tasks, err)
	}
	if got := s.auditActions("network."); got != "create lab, reserve lab, reserve lab, reserve lab, unreserve lab" {
		t.Errorf("the audit tells of %s", got)
	}
	found := definedNetworkArgs(&authzFixture{projectFixture: s})[0].(fleet.NetworkID)
	bare := s.defineNetwork("bare", fleet.NetworkSpec{Mode: fleet.NetworkIsolated})
	reserve := func(id fleet.NetworkID, mac, ip, name string) func() error {
		return func() error {
			_, _, err := s.ReserveAddress(t.Context(), chief, id, fleet.StaticLease{MAC: mac, IP: ip, Name: name})
			return err
		}
	}
	for name, c := range map[string]struct {
		do   func() error
		code fleet.ErrorCode
		says string
	}{
		"no MAC":            {reserve(n.ID, "nonsense", "10.7.0.8", ""), fleet.Invalid, "unicast MAC address"},
		"another's address": {reserve(n.ID, "52:54:00:00:07:0a", "10.7.0.3", ""), fleet.Invalid, "10.7.0.3 is already leased to another NIC"},
		"the hosts' own":    {reserve(n.ID, "52:54:00:00:07:0a", "10.7.0.1", ""), fleet.Invalid, "the hosts' own address"},
		"outside":           {reserve(n.ID, "52:54:00:00:07:0a", "10.8.0.1", ""), fleet.Invalid, "outside the subnet"},
		"a bad name":        {reserve(n.ID, "52:54:00:00:07:0a", "10.7.0.8", "no name!"), fleet.Invalid, `"no name!" is not a host name`},
		"no DHCP":           {reserve(bare.ID, "52:54:00:00:07:0a", "10.7.0.8", ""), fleet.Conflict, "DHCP for IPv4 is off"},
		"a found network":   {reserve(found, "52:54:00:00:07:0a", "10.7.0.8", ""), fleet.Conflict, "discovered on hosts"},
		"no network":        {reserve("00000000-0000-7000-8000-000000000000", "52:54:00:00:07:0a", "10.7.0.8", ""), fleet.NotFound, "no such network"},
		"free what is free": {func() error { _, err := s.FreeAddress(t.Context(), chief, n.ID, "52:54:00:00:07:0a"); return err }, fleet.NotFound, "No address is reserved"},
	} {
		s.wantRefused(name, c.code, c.says, c.do)
	}
}

// Of two concurrent reservations of one address, one succeeds.
func TestOnlyOneOfConcurrentRequestsReservesAddress(t *testing.T) {
	s := newProjectFixture(t)
	n := s.dhcpNetwork("lab", "10.7.0.")
	var wait sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wait.Go(func() {
			_, _, errs[i] = s.ReserveAddress(context.WithoutCancel(t.Context()), chief, n.ID, fleet.StaticLease{MAC: fmt.Sprintf("52:54:00:00:08:%02x", i), IP: "10.7.0.9"})
		})
	}
	wait.Wait()
	got := 0
	for _, err := range errs {
		if err == nil {
			got++
		} else if fleet.CodeOf(err) != fleet.Invalid {
			t.Error(err)
		}
	}
	if got != 1 {
		t.Errorf("%d have it: %v", got, errs)
	}
}

// Concurrent reservations without an address get different addresses; a repeated reservation returns the same one.
func TestConcurrentReservationsGetDifferentAddresses(t *testing.T) {
	s := newProjectFixture(t)
	n := s.dhcpNetwork("lab", "10.7.0.")
	s.vmOnNetwork("db", n.ID, "52:54:00:00:07:02", "10.7.0.2")
	var wait sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wait.Go(func() {
			_, _, errs[i] = s.ReserveAddress(context.WithoutCancel(t.Context()), chief, n.ID, fleet.StaticLease{MAC: fmt.Sprintf("52:54:00:00:08:%02x", i)})
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			t.Errorf("there are plenty: %v", err)
		}
	}
	got, err := s.GetNetwork(t.Context(), chief, n.ID)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	for _, l := range got.Spec.IPv4.DHCP.Leases {
		if other, twice := of[l.IP]; twice || l.IP == "10.7.0.2" {
			t.Errorf("%s is reserved for %s and %q", l.IP, l.MAC, other)
		}
		of[l.IP] = l.MAC
	}
	was := got.Spec.IPv4.DHCP.Leases[0]
	if again, tasks, err := s.ReserveAddress(t.Context(), chief, n.ID, fleet.StaticLease{MAC: was.MAC}); err != nil || again.IP != was.IP || len(tasks) > 0 {
		t.Errorf("a repeated request returns %+v with %d tasks, first %+v: %v", again, len(tasks), was, err)
	}
}

// Leases reported by a host without the network assigned are ignored.
func TestDHCPLeasesOfUnassignedHostIgnored(t *testing.T) {
	s := newProjectFixture(t)
	n := s.defineNetwork("lab", natSpec("10.7.0.1/24"), s.h1)
	const leases = `{"active":true,"leases":[{"mac":"52:54:00:00:07:01","ip":"10.7.0.2"}]}`
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', $1, $2, $3)`, n.ID, s.h2, leases)
	if got, err := s.NetworkAddresses(t.Context(), chief, n.ID, ""); err != nil || len(got.InUse) != 0 || got.Next != "10.7.0.2" {
		t.Errorf("%+v %v", got, err)
	}
	s.setNetworkStatus(n.ID, s.h1, leases)
	if got, err := s.NetworkAddresses(t.Context(), chief, n.ID, ""); err != nil || len(got.InUse) != 1 || got.Next != "10.7.0.3" {
		t.Errorf("%+v %v", got, err)
	}
}

// An unmanaged VM that uses a NIC's MAC address is shown. Only actors who see hosts see its name.
func TestUnmanagedVMUsingManagedMACShownAsConflict(t *testing.T) {
	s := newProjectFixture(t)
	n := s.dhcpNetwork("lab", "10.7.0.")
	id := s.vmOnNetwork("web", n.ID, "52:54:00:00:07:01")
	s.addUnmanagedVM("old-web", "52:54:00:00:07:01")
	known, err := s.NetworkAddresses(t.Context(), chief, n.ID, s.h1)
	if err != nil || len(known.Conflicts) != 1 || !strings.Contains(known.Conflicts[0].Text, "old-web on h2, which Quantix did not create") {
		t.Errorf("%+v %v", known.Conflicts, err)
	}
	for actor, name := range map[string]string{"chief": "old-web", "member": ""} {
		nics, err := s.VMAddresses(t.Context(), map[string]fleet.Actor{"chief": chief, "member": s.member}[actor], id)
		if err != nil || len(nics) != 1 || len(nics[0].Others) != 1 || nics[0].Others[0].Name != name || (name == "") != (nics[0].Others[0].HostName == "") {
			t.Errorf("%s: %+v %v", actor, nics, err)
		}
	}
	if got, err := s.NetworkAddresses(t.Context(), chief, n.ID, s.h2); err != nil || len(got.Conflicts) != 0 {
		t.Errorf("on another host: %+v %v", got, err)
	}
}
