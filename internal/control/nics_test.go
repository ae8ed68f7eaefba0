package control_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"quantix/db"
	"quantix/internal/control"
	"quantix/internal/fleet"
)

// A virtual function is given to only one NIC, also with concurrent requests. Without a free function the request is
// refused. A deleted VM or removed NIC frees its function.
func TestVirtualFunctionsAreReservedOnce(t *testing.T) {
	s := newProjectFixture(t)
	fast := s.defineNetwork("fast", fleet.NetworkSpec{Mode: fleet.NetworkSRIOV, Device: "eth4"}, s.h1, s.h2)
	also := s.defineNetwork("also", fleet.NetworkSpec{Mode: fleet.NetworkSRIOV, Device: "eth4", VLAN: 7}, s.h1)
	s.setNetworkStatus(fast.ID, s.h1, `{"active":true,"nics":{"total":3,"used":0}}`)
	s.setNetworkStatus(also.ID, s.h1, `{"active":true,"nics":{"total":3,"used":0}}`)
	create := func(name string, host fleet.HostID, on ...fleet.NetworkView) (fleet.VMView, error) {
		spec := fleet.VMSpec{CPUs: 1, MemoryMiB: 128}
		for _, n := range on {
			spec.NICs = append(spec.NICs, fleet.NIC{NetworkID: n.ID})
		}
		return s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: name, HostID: host, Spec: spec})
	}
	first, err := create("first", s.h1, fast, also)
	if err != nil {
		t.Fatal(err)
	}
	// Of several concurrent requests for the last virtual function, only one succeeds.
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if err := db.New(tx).LockNICs(t.Context(), "eth4"); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	var ended atomic.Int32
	errs := make([]error, 4)
	for i := range errs {
		wait.Go(func() {
			_, errs[i] = create(fmt.Sprintf("rival-%d", i), s.h1, fast)
			ended.Add(1)
		})
	}
	for waits := 0; waits == 0; {
		err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		if ended.Load() > 0 {
			t.Fatal("the second VM does not wait for the allocation of the first")
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait.Wait()
	got := 0
	for _, err := range errs {
		switch {
		case err == nil:
			got++
		case !strings.Contains(err.Error(), "No free virtual function of eth4 on") || !strings.Contains(err.Error(), "3 of 3 are used by first and rival-"):
			t.Errorf("a rival is refused with %v", err)
		}
	}
	if got != 1 {
		t.Errorf("%d of 4 VMs got the last virtual function", got)
	}
	s.wantRefused("on another network of the device", fleet.Invalid, "No free virtual function of eth4", func() error { _, err := create("late", s.h1, also); return err })
	// Placement chooses a host with a free virtual function. If no host has a free virtual function, the create is
	// refused.
	s.wantRefused("nowhere", fleet.Invalid, "No free virtual function of eth4", func() error { _, err := create("anywhere", "", fast); return err })
	s.setNetworkStatus(fast.ID, s.h2, `{"active":true,"nics":{"total":1,"used":0}}`)
	if v, err := create("anywhere", "", fast); err != nil || v.HostID != s.h2 {
		t.Errorf("placed on %s, %v", v.HostID, err)
	}
	// An edit is checked too. The function of a NIC that moves to another network of the same device counts as free.
	edit := func(v fleet.VMView, nics ...fleet.NIC) (fleet.VMView, error) {
		spec := s.getVM(v.ID).Spec
		spec.NICs = nics
		now, _, err := s.UpdateVM(t.Context(), chief, v.ID, control.UpdateVM{Spec: &spec})
		return now, err
	}
	other, err := create("other", s.h1)
	if err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a new NIC", fleet.Invalid, "No free virtual function of eth4", func() error { _, err := edit(other, fleet.NIC{NetworkID: fast.ID}); return err })
	had := first.Spec.NICs
	moved := had[0]
	moved.NetworkID, moved.Network = also.ID, "also"
	if _, err := edit(first, moved, had[1]); err != nil {
		t.Errorf("a NIC from one network of the device to another: %v", err)
	}
	if _, err := edit(first, had[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := edit(other, fleet.NIC{NetworkID: fast.ID}); err != nil {
		t.Errorf("a freed function cannot be used: %v", err)
	}
	// Functions that the host reports as used by other software are not free. For members the error does not name VMs of
	// other projects.
	s.setNetworkStatus(fast.ID, s.h2, `{"active":true,"nics":{"total":2,"used":2}}`)
	s.wantRefused("functions used by other software", fleet.Invalid, "2 of 2 are used by anywhere and machines that Quantix did not create", func() error { _, err := create("late", s.h2, fast); return err })
	s.execSQL(`INSERT INTO network_grants (network_id, project_id) VALUES ($1, $2)`, fast.ID, s.red)
	_, err = s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "mine", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, NICs: []fleet.NIC{{NetworkID: fast.ID}}}})
	if err == nil || !strings.Contains(err.Error(), "no free virtual function in network fast") || strings.Contains(err.Error(), "first") || strings.Contains(err.Error(), "eth4") {
		t.Errorf("a member hears %v", err)
	}
}

// A host's report of virtual functions affects only that host, and only if the network is assigned to it.
func TestReportedVirtualFunctionsAffectOnlyTheirHost(t *testing.T) {
	s := newProjectFixture(t)
	fast := s.defineNetwork("fast", fleet.NetworkSpec{Mode: fleet.NetworkSRIOV, Device: "eth4"}, s.h1)
	s.setNetworkStatus(fast.ID, s.h1, `{"active":true,"nics":{"total":1,"used":0}}`)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', $1, $2, '{"active":true,"nics":{"total":9007199254740992,"used":9007199254740992}}')`, fast.ID, s.h2)
	create := func(name string) (fleet.VMView, error) {
		return s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: name, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, NICs: []fleet.NIC{{NetworkID: fast.ID}}}})
	}
	if v, err := create("one"); err != nil || v.HostID != s.h1 {
		t.Errorf("the report of a host without the assignment counts: %s %v", v.HostID, err)
	}
	s.execSQL(`UPDATE assignments SET asked = 'assign' WHERE network_id = $1 AND host_id = $2`, fast.ID, s.h2)
	s.wantRefused("full", fleet.Invalid, "No free virtual function of eth4", func() error { _, err := create("two"); return err })
}
