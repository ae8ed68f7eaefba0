package control_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// addUnmanagedVM adds a domain with a NIC on h2 that Quantix did not create.
func (s *projectFixture) addUnmanagedVM(name, mac string) {
	s.t.Helper()
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, $3, jsonb_build_object('power', 'running', 'nics', jsonb_build_array(jsonb_build_object('mac', $4::text, 'source', 'network default'))))`,
		s.h2, fleet.NewID[fleet.VMID](), name, mac)
}

// A MAC address belongs to one VM. It is free again after the VM's NIC is removed or the VM is deleted.
func TestMACIsUnique(t *testing.T) {
	s := newProjectFixture(t)
	one, two := s.createVM("one", fleet.Stopped), s.createVM("two", fleet.Stopped)
	set := func(id fleet.VMID, macs ...string) error {
		nics := make([]string, len(macs))
		for i, m := range macs {
			nics[i] = `{"networkId": "x", "mac": "` + m + `"}`
		}
		_, err := s.pool.Exec(t.Context(), `UPDATE vms SET spec = jsonb_set(spec, '{nics}', $2::jsonb) WHERE id = $1`, id, "["+strings.Join(nics, ",")+"]")
		return err
	}
	if err := set(one.ID, "52:54:00:00:00:01", "52:54:00:00:00:02"); err != nil {
		t.Fatal(err)
	}
	if err := set(two.ID, "52:54:00:00:00:03", "52:54:00:00:00:02"); err == nil || !strings.Contains(err.Error(), "mac_taken") {
		t.Fatalf("an address of another VM: %v", err)
	}
	if err := set(one.ID, "52:54:00:00:00:01"); err != nil {
		t.Fatal(err)
	}
	if err := set(two.ID, "52:54:00:00:00:02"); err != nil {
		t.Errorf("an address that was given up: %v", err)
	}
	s.execSQL(`DELETE FROM vms WHERE id = $1`, one.ID)
	if err := set(two.ID, "52:54:00:00:00:02", "52:54:00:00:00:01"); err != nil {
		t.Errorf("an address of a VM that is gone: %v", err)
	}
}

// Of concurrent requests for one address, one succeeds and the others get an error.
func TestOnlyOneOfConcurrentRequestsGetsMAC(t *testing.T) {
	s := newProjectFixture(t)
	var wait sync.WaitGroup
	got := make([]error, 4)
	for i := range got {
		wait.Go(func() {
			_, got[i] = s.CreateVM(context.WithoutCancel(t.Context()), chief, control.CreateVM{
				ProjectID: s.red, HostID: s.h1, Name: fmt.Sprintf("race-%d", i),
				Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, NICs: []fleet.NIC{{Network: "default", MAC: "52:54:00:aa:00:01"}}},
			})
		})
	}
	wait.Wait()
	made := 0
	for _, err := range got {
		if err == nil {
			made++
		} else if code := fleet.CodeOf(err); code != fleet.Invalid && code != fleet.Conflict {
			t.Errorf("a refusal is %v", err)
		}
	}
	if made != 1 {
		t.Errorf("%d VMs have the address, want 1: %v", made, got)
	}
}

// With a prefix that has few addresses, concurrent requests get different addresses as long as some are free.
func TestConcurrentRequestsGetDifferentMACsOfSmallRange(t *testing.T) {
	s := newProjectFixture(t)
	s.Control = control.New(s.pool, control.Options{MACPrefix: "52:54:00:ab:cd"})
	for i := range 248 {
		s.addUnmanagedVM(fmt.Sprintf("foreign-%d", i), fmt.Sprintf("52:54:00:ab:cd:%02x", i))
	}
	var wait sync.WaitGroup
	got := make([]error, 8)
	for i := range got {
		wait.Go(func() {
			_, got[i] = s.CreateVM(context.WithoutCancel(t.Context()), chief, control.CreateVM{
				ProjectID: s.red, HostID: s.h1, Name: fmt.Sprintf("all-%d", i), Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, NICs: []fleet.NIC{{Network: "default"}}},
			})
		})
	}
	wait.Wait()
	for _, err := range got {
		if err != nil {
			t.Errorf("there are eight: %v", err)
		}
	}
}

// New NICs get addresses that no VM uses, including unmanaged VMs. A named address in use is refused, and the error
// names the VM.
func TestNewNICsGetFreeMACs(t *testing.T) {
	s := newProjectFixture(t)
	s.Control = control.New(s.pool, control.Options{MACPrefix: "52:54:00:ab:cd"})
	for i := range 253 {
		s.addUnmanagedVM(fmt.Sprintf("foreign-%d", i), fmt.Sprintf("52:54:00:ab:cd:%02x", i))
	}
	create := func(name string, nics ...fleet.NIC) (fleet.VMView, error) {
		return s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, NICs: nics}})
	}
	v, err := create("web", fleet.NIC{Network: "default"}, fleet.NIC{Network: "default"})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{v.Spec.NICs[0].MAC, v.Spec.NICs[1].MAC}
	slices.Sort(got)
	if free := []string{"52:54:00:ab:cd:fd", "52:54:00:ab:cd:fe", "52:54:00:ab:cd:ff"}; !slices.Contains(free, got[0]) || !slices.Contains(free, got[1]) || got[0] == got[1] {
		t.Errorf("the NICs got %v, want two of %v", got, free)
	}
	if _, err := create("db", fleet.NIC{Network: "default"}); err != nil {
		t.Errorf("the last address: %v", err)
	}
	s.wantRefused("an empty pool", fleet.Conflict, "No MAC address that begins with 52:54:00:ab:cd is free", func() error {
		_, err := create("late", fleet.NIC{Network: "default"})
		return err
	})
	s.wantRefused("an unmanaged machine's", fleet.Invalid, "foreign-7 on h2, which Quantix did not create, has this address", func() error {
		_, err := create("twin", fleet.NIC{Network: "default", MAC: "52:54:00:ab:cd:07"})
		return err
	})
}
