package control_test

import (
	"sync"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// createWithReservation creates a VM that reserves the given percentage of each of its vCPUs.
func (s *projectFixture) createWithReservation(a fleet.Actor, name string, host fleet.HostID, cpus, percent int) (fleet.VMView, error) {
	spec := smallSpec
	spec.CPUs, spec.CPU.Reserved = cpus, percent
	return s.CreateVM(s.t.Context(), a, control.CreateVM{ProjectID: s.red, HostID: host, Name: name, Spec: spec})
}

// CPU capacity that a VM has reserved is not reserved again, not even by an administrator or while the VM is off.
func TestReservedCPUCapacityNotReservedTwice(t *testing.T) {
	s := newProjectFixture(t) // both hosts have 8 CPUs
	one, err := s.createWithReservation(chief, "db-1", s.h1, 8, 75)
	if err != nil {
		t.Fatal(err)
	}
	s.reportPower(one.ID, fleet.Stopped)
	s.wantRefused("more than is free on a named host", fleet.Invalid, "h1 has 2 left to reserve of 8 processors, and the VM needs 2.25", func() error { _, err := s.createWithReservation(chief, "db-2", s.h1, 3, 75); return err })
	two, err := s.createWithReservation(chief, "db-2", "", 3, 75)
	if err != nil || s.getVM(two.ID).HostID != s.h2 {
		t.Fatalf("the second is on %s: %v", s.getVM(two.ID).HostName, err)
	}
	s.wantRefused("more than any host has free", fleet.Invalid, "h1: h1 has 2 left to reserve of 8 processors, and the VM needs 6; h2: h2 has 5.75 left", func() error { _, err := s.createWithReservation(chief, "db-3", "", 6, 100); return err })
	s.wantRefused("of a member", fleet.Invalid, "Only those who may change infrastructure may choose CPU reservation", func() error { _, err := s.createWithReservation(s.member, "db-3", "", 6, 100); return err })
	if _, err := s.createWithReservation(s.member, "none", s.h1, 8, 0); err != nil {
		t.Errorf("a VM that reserves nothing: %v", err)
	}
}

// An edit checks an increased reservation, but not an unchanged or reduced one.
func TestEditChecksOnlyAddedCPUReservation(t *testing.T) {
	s := newProjectFixture(t)
	one, err := s.createWithReservation(chief, "db-1", s.h1, 8, 75)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.createWithReservation(chief, "db-2", s.h1, 1, 100)
	if err != nil {
		t.Fatal(err)
	}
	s.reportPower(one.ID, fleet.Stopped)
	s.reportPower(two.ID, fleet.Stopped)
	edit := func(a fleet.Actor, change func(*fleet.VMSpec)) error {
		_, _, err := s.UpdateVM(t.Context(), a, one.ID, editedSpec(s.getVM(one.ID), change))
		return err
	}
	s.wantRefused("a larger reservation", fleet.Invalid, "h1 has 7 left to reserve of 8 processors, and the VM needs 8", func() error { return edit(chief, func(s *fleet.VMSpec) { s.CPU.Reserved = 100 }) })
	s.wantRefused("more vCPUs with it", fleet.Invalid, "Not enough processors to reserve.", func() error { return edit(s.member, func(s *fleet.VMSpec) { s.CPUs = 10 }) })
	for _, change := range []func(*fleet.VMSpec){
		func(s *fleet.VMSpec) { s.CPUs = 9 }, func(s *fleet.VMSpec) { s.MemoryMiB = 512 }, func(s *fleet.VMSpec) { s.CPU.Reserved = 0 }, func(s *fleet.VMSpec) { s.CPUs = 30 },
	} {
		if err := edit(s.member, change); err != nil {
			t.Error(err)
		}
		s.reportPower(one.ID, fleet.Stopped)
	}
	if h, err := s.GetHost(t.Context(), chief, s.h1); err != nil || h.ReservedCPU != 100 {
		t.Errorf("of h1 %d %% are reserved: %v", h.ReservedCPU, err)
	}
}

// Of concurrent requests for the remaining CPUs, one succeeds.
func TestConcurrentCPUReservationsDoNotExceedHost(t *testing.T) {
	s := newProjectFixture(t)
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			if _, err := s.createWithReservation(chief, name, s.h1, 5, 100); err != nil && fleet.CodeOf(err) != fleet.Invalid {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.countRows("vms"); n != 1 {
		t.Errorf("%d VMs have 5 of 8 processors each", n)
	}
}

// A VM's reservation counts on the target host as soon as its migration is requested.
func TestCPUReservationCountsOnMigrationTarget(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.vmToMigrate("web")
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{cpu}', '{"reserved": 100}') || '{"cpus": 5}' WHERE id = $1`, v.ID)
	other, err := s.createWithReservation(chief, "db", s.h2, 4, 100)
	if err != nil {
		t.Fatal(err)
	}
	s.wantRefused("migration to a host with too few CPUs", fleet.Invalid, "h2 has 4 left to reserve of 8 processors, and the VM needs 5", func() error {
		_, err := s.MigrateVM(t.Context(), chief, v.ID, control.MigrateVM{HostID: s.h2})
		return err
	})
	s.execSQL(`DELETE FROM vms WHERE id = $1`, other.ID)
	s.migrateToH2(s.getVM(v.ID))
	s.wantRefused("another VM on the target host", fleet.Invalid, "h2 has 3 left", func() error { _, err := s.createWithReservation(chief, "db", s.h2, 4, 100); return err })
	s.wantRefused("a VM on the source host before the migration ends", fleet.Invalid, "h1 has 3 left", func() error { _, err := s.createWithReservation(chief, "db", s.h1, 4, 100); return err })
}
