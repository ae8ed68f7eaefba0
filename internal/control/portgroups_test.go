package control_test

import (
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

func TestPortGroupIsCreatedGrantedAndDeleted(t *testing.T) {
	s := newProjectFixture(t)
	n := s.dhcpNetwork("lab", "10.7.0.")
	s.setNetworkStatus(n.ID, s.h1, `{"active":true}`)
	s.setNetworkStatus(n.ID, s.h2, `{"active":true}`)
	set := func(g fleet.PortGroup, fresh bool) error {
		_, err := s.SetPortGroup(t.Context(), chief, n.ID, g, fresh)
		return err
	}
	slow := fleet.PortGroup{Name: "slow", ToGuest: &fleet.Rate{AverageKiB: 1000, PeakKiB: 2000}}
	if err := set(slow, true); err != nil {
		t.Fatal(err)
	}
	if err := set(fleet.PortGroup{Name: "staff", Restricted: true}, true); err != nil {
		t.Fatal(err)
	}
	slow.ToGuest = &fleet.Rate{AverageKiB: 4000}
	if err := set(slow, false); err != nil {
		t.Fatal(err)
	}
	if got, err := s.GetNetwork(t.Context(), chief, n.ID); err != nil || got.Generation != 4 || got.Spec.PortGroupByName("slow").ToGuest.AverageKiB != 4000 || len(got.Spec.PortGroups) != 2 {
		t.Errorf("%+v %v", got.Spec, err)
	}
	if jobs := s.jobList(fleet.SubjectNetwork(n.ID)); strings.Count(jobs, "network.apply queued") != 2 {
		t.Errorf("jobs: %s", jobs)
	}
	s.wantRefused("the same name", fleet.Invalid, "has a port group named slow already", func() error { return set(slow, true) })
	s.wantRefused("a peak below the average", fleet.Invalid, "The peak must be at least the average, and", func() error {
		return set(fleet.PortGroup{Name: "x", FromGuest: &fleet.Rate{AverageKiB: 10, PeakKiB: 5}}, true)
	})
	s.wantRefused("a VLAN without support", fleet.Invalid, "The bridge of this kind of network does not", func() error { return set(fleet.PortGroup{Name: "x", VLAN: &fleet.VLAN{ID: 20}}, true) })

	// A member may use a restricted port group only with a grant. Without a grant the error is the same as for an unknown
	// port group.
	create := func(a fleet.Actor, name, group string) (fleet.VMView, error) {
		return s.CreateVM(t.Context(), a, control.CreateVM{
			ProjectID: s.red, Name: name, HostID: s.h1, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, NICs: []fleet.NIC{{Network: "lab", PortGroup: group}}},
		})
	}
	v, err := create(s.member, "web", "slow")
	if err != nil || v.Spec.NICs[0].PortGroup != "slow" || v.Spec.NICs[0].Network != "lab" {
		t.Fatalf("%+v %v", v.Spec.NICs, err)
	}
	const closed = "has no port group staff that is open to this project"
	s.wantRefused("an unavailable network", fleet.Invalid, closed, func() error { _, err := create(s.member, "db", "staff"); return err })
	s.wantRefused("a missing object", fleet.Invalid, "no port group other", func() error { _, err := create(chief, "db", "other"); return err })
	known := func(a fleet.Actor) string {
		var names []string
		groups, err := s.PortGroups(t.Context(), a, n.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			names = append(names, g.Name)
		}
		return strings.Join(names, " ")
	}
	if got := known(s.member) + "/" + known(chief); got != "slow/slow staff" {
		t.Errorf("port groups that are known: %s", got)
	}
	if err := s.GrantPortGroup(t.Context(), chief, n.ID, "staff", s.red); err != nil {
		t.Fatal(err)
	}
	if got := known(s.member) + "/" + known(s.blueMember); got != "slow staff/slow" {
		t.Errorf("port groups after a grant: %s", got)
	}
	if _, err := create(s.member, "db", "staff"); err != nil {
		t.Errorf("after the grant: %v", err)
	}
	s.wantRefused("a grant of a missing object", fleet.NotFound, "no such port group", func() error { return s.GrantPortGroup(t.Context(), chief, n.ID, "other", s.red) })
	if err := s.RevokePortGroup(t.Context(), chief, n.ID, "staff", s.red); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("after it was cancelled", fleet.Invalid, closed, func() error { _, err := create(s.member, "mail", "staff"); return err })

	// An edit moves a NIC to another port group, which takes effect at the guest's next start.
	spec := s.getVM(v.ID).Spec
	spec.NICs[0].PortGroup = ""
	if _, _, err := s.UpdateVM(t.Context(), s.member, v.ID, control.UpdateVM{Spec: &spec}); err != nil {
		t.Error(err)
	}
	if groups, err := s.PortGroups(t.Context(), chief, n.ID); err != nil || len(groups) != 2 || groups[0].VMs != 0 || groups[1].VMs != 1 {
		t.Errorf("VMs on the port groups: %+v %v", groups, err)
	}
	s.wantRefused("drop one with NICs", fleet.Conflict, "VMs have NICs on staff: db", func() error { _, err := s.DropPortGroup(t.Context(), chief, n.ID, "staff"); return err })
	if _, err := s.DropPortGroup(t.Context(), chief, n.ID, "slow"); err != nil {
		t.Error(err)
	}
	s.wantRefused("drop it twice", fleet.NotFound, "no such port group", func() error { _, err := s.DropPortGroup(t.Context(), chief, n.ID, "slow"); return err })
}

// A grant of a port group also works on an unpublished network, and is deleted with the port group.
func TestGrantedPortGroupUsableOnUnpublishedNetwork(t *testing.T) {
	s := newProjectFixture(t)
	n := s.dhcpNetwork("lan", "10.7.0.")
	s.setNetworkStatus(n.ID, s.h1, `{"active":true}`)
	s.execSQL(`DELETE FROM network_grants WHERE network_id = $1`, n.ID)
	if _, err := s.SetPortGroup(t.Context(), chief, n.ID, fleet.PortGroup{Name: "web"}, true); err != nil {
		t.Fatal(err)
	}
	create := func(group string) error {
		_, err := s.CreateVM(t.Context(), s.member, control.CreateVM{
			ProjectID: s.red, Name: "vm-x" + group, HostID: s.h1, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, NICs: []fleet.NIC{{Network: "lan", PortGroup: group}}},
		})
		return err
	}
	s.wantRefused("a port group of an unpublished network", fleet.Invalid, "The network has no port group web that is open to this project.", func() error { return create("web") })
	if err := s.GrantPortGroup(t.Context(), chief, n.ID, "web", ""); err != nil {
		t.Fatal(err)
	}
	if err := create("web"); err != nil {
		t.Errorf("a port group that is open to all: %v", err)
	}
	s.wantRefused("the network itself", fleet.Invalid, "lan is not published to this project", func() error { return create("") })
	use, err := s.UsablePortGroups(t.Context(), s.member)
	if err != nil || len(use) != 1 || use[0].Name != "web" {
		t.Errorf("%+v %v", use, err)
	}
	s.execSQL(`DELETE FROM vms`)
	if _, err := s.DropPortGroup(t.Context(), chief, n.ID, "web"); err != nil {
		t.Fatal(err)
	}
	if got := queryScalar[int](s, `SELECT count(*)::int FROM port_group_grants`); got != 0 {
		t.Errorf("%d grants outlive their port group", got)
	}
}

func queryScalar[T any](s *projectFixture, sql string) (out T) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), sql).Scan(&out); err != nil {
		s.t.Fatal(err)
	}
	return out
}
