package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// Naming a host does not bypass the checks of memory and CPUs: an administrator must choose overcommit.
func TestFullRequestedHostRefusedWithoutOvercommit(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,cpu}', '{"threads": 2}') WHERE id = $1`, s.h1)
	ask := func(a fleet.Actor, name string, mib, cpus int, overcommit bool) func() error {
		return func() error {
			in := control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Overcommit: overcommit, Spec: smallSpec}
			in.Spec.MemoryMiB, in.Spec.CPUs = mib, cpus
			_, err := s.CreateVM(t.Context(), a, in)
			return err
		}
	}
	s.wantRefused("memory", fleet.Invalid, "2 fields", ask(chief, "big", 16000, 1, false))
	s.wantRefused("vCPUs", fleet.Invalid, "2 fields", ask(chief, "wide", 256, 9, false))
	s.wantRefused("a member with overcommit", fleet.Invalid, "Only those who may change infrastructure", ask(s.member, "big", 16000, 1, true))
	for i := range 2 { // the second VM exceeds the host's memory
		if err := ask(chief, fmt.Sprintf("big-%d", i), 16000, 64, true)(); err != nil {
			t.Fatal(err)
		}
	}
	var message string
	err := s.pool.QueryRow(t.Context(), `SELECT detail FROM audit WHERE action = 'vm.create' AND name = 'big-1'`).Scan(&message)
	if err != nil || !strings.Contains(message, "overcommit chosen") {
		t.Errorf("the audit says %q, %v", message, err)
	}
	vm, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, HostID: s.h2, Name: "edited", Spec: smallSpec})
	if err != nil {
		t.Fatal(err)
	}
	grown := vm.Spec
	grown.MemoryMiB = 8000
	edit := func(overcommit bool) func() error {
		return func() error {
			_, _, err := s.UpdateVM(t.Context(), chief, vm.ID, control.UpdateVM{Spec: &grown, Overcommit: overcommit})
			return err
		}
	}
	s.wantRefused("an edit", fleet.Invalid, "2 fields", edit(false))
	if err := edit(true)(); err != nil {
		t.Error(err)
	}
}
