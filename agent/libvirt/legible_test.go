//go:build linux && ordeal

package libvirt_test

import (
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestUnreadableDefinitionDoesNotHideReadableDefinitions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bad, good := f.newVM(), f.newVM()
	f.apply(bad)
	f.apply(good)
	id := string(fleet.NewID[fleet.NetworkID]())
	strange := defineUnmanagedVM(t, "strange-"+id)
	defineUnmanagedNetwork(t, "bad-"+id)
	defineUnmanagedNetwork(t, "good-"+id)

	proxy := newProxy(t)
	proxy.garbled.Store(&[]string{"<name>" + bad.Name + "</", "<name>strange-" + id + "</", "<name>bad-" + id + "</"})
	b := openBackendAt(t, proxy.socket)
	t.Cleanup(func() { b.Close() })
	s, err := b.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{f.pool}}})
	if err != nil || !s.Host.Connected {
		t.Fatalf("the host is offline: %v, %+v", err, s.Host)
	}
	vms := map[fleet.VMID]fleet.VMStatus{}
	for _, v := range s.VMs {
		vms[v.ID] = v.Status
	}
	for _, v := range s.Discovered {
		vms[v.ID] = v.Status
	}
	unread := func(st fleet.VMStatus) bool { return len(st.Faults) == 1 && st.Faults[0].Code == fleet.FaultUnread }
	if st := vms[bad.ID]; st.Power != fleet.Stopped || !unread(st) {
		t.Errorf("the VM that cannot be read is %+v", st)
	}
	if st := vms[strange]; st.Power != fleet.Running || !unread(st) {
		t.Errorf("the unmanaged VM that cannot be read is %+v", st)
	}
	if st := vms[good.ID]; st.CPUs != 1 || len(st.Faults) > 0 {
		t.Errorf("the other VM is %+v", st)
	}
	networks := map[string]wire.NetworkReport{}
	for _, n := range s.Networks {
		networks[n.Name] = n
	}
	if n := networks["bad-"+id]; !strings.Contains(n.Status.Error, "cannot read") {
		t.Errorf("the network that cannot be read is %+v", n)
	}
	if n := networks["good-"+id]; !n.Status.Active || n.Status.Error != "" {
		t.Errorf("the other network is %+v", n)
	}

	proxy.garbled.Store(nil)
	waitFor(t, "everything is readable again", func() bool {
		st, _, err := b.VM(t.Context(), bad.ID)
		return err == nil && st.CPUs == 1 && len(st.Faults) == 0
	})
}

func TestUnreadablePoolStaysActiveWithError(t *testing.T) {
	t.Parallel()
	proxy := newProxy(t)
	b := openBackendAt(t, proxy.socket)
	t.Cleanup(func() { b.Close() })
	f := newFixtureOn(t, b)
	if st := poolStatusOf(t, b, f.pool); st.State != fleet.PoolActive || st.Error != "" {
		t.Fatalf("the pool is %+v", st)
	}
	proxy.garbled.Store(&[]string{"<name>" + f.pool.Name + "</"})
	waitFor(t, "the active pool reports an error", func() bool {
		st := poolStatusOf(t, b, f.pool)
		return st.State == fleet.PoolActive && strings.Contains(st.Error, "is an earlier one")
	})
	proxy.garbled.Store(nil)
	waitFor(t, "the pool has no error", func() bool { return poolStatusOf(t, b, f.pool).Error == "" })
}
