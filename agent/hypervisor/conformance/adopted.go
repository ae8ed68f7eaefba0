package conformance

import (
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// discoveredNetwork returns the host's report on a network that Quantix does not manage.
func (h *testHost) discoveredNetwork(name string) (wire.NetworkReport, bool) {
	h.t.Helper()
	return find(h.hostState().Networks, func(r wire.NetworkReport) bool { return r.Kind == fleet.NetworkLibvirt && r.Name == name })
}

// testAdoptedNetwork adopts a network of the host, which must be unchanged while it is assigned and after its release.
func testAdoptedNetwork(t *testing.T, h *testHost) {
	n := h.newNetwork(fleet.NetworkIsolated)
	h.harness.DefineUnmanagedNetwork(t, n.Name)
	var found *fleet.HostNetworkDefinition
	h.waitUntil("the network is discovered", func() bool {
		r, ok := h.discoveredNetwork(n.Name)
		found = r.Status.Definition
		return ok && r.Status.Active && found != nil
	})
	if found.Spec == nil || found.Spec.Mode != fleet.NetworkIsolated || found.Spec.Adopted || found.Refusal != "" || len(found.Kept) > 0 {
		t.Fatalf("the discovered definition is %+v", found)
	}
	definition := h.harness.NetworkDefinition(t, n.Name)
	requireUnchanged := func(when string) {
		t.Helper()
		if now := h.harness.NetworkDefinition(t, n.Name); now != definition {
			t.Errorf("%s, the network has the definition\n%s\nwant\n%s", when, now, definition)
		}
	}
	other := n
	other.Spec = new(*n.Spec)
	other.Spec.Adopted = true
	h.requireRefusal("adopt with another spec", h.ApplyNetwork(h.ctx, other), "addresses and DHCP")

	n.Spec = new(*found.Spec)
	n.Spec.Adopted = true
	for range 2 {
		h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
		if st := h.waitNetwork(n, true, ""); len(st.Drift) != 0 || st.Definition == nil {
			t.Errorf("the adopted network's status is %+v, want no drift", st)
		}
	}
	requireUnchanged("while it is assigned")
	h.requireRefusal("reapply", h.ReapplyNetwork(h.ctx, n), "existed on the host before Quantix")
	h.harness.StopNetwork(t, n.Name)
	h.waitNetwork(n, false, "")
	h.requireNoError("apply a stopped network", h.ApplyNetwork(h.ctx, n))
	h.waitNetwork(n, true, "")
	vm := h.newVMOnNetwork(n)
	n.Generation++
	for range 2 {
		h.requireNoError("release while a VM is connected", h.ReleaseNetwork(h.ctx, n))
	}
	requireUnchanged("after the release")
	h.waitUntil("the network runs and is discovered again", func() bool {
		r, ok := h.discoveredNetwork(n.Name)
		return ok && r.ID != n.ID && r.Status.Active && r.Status.Definition != nil
	})
	h.requireNoError("delete", h.DeleteVM(h.ctx, vm, nil, false))

	missing := n
	missing.Name = uniqueName("missing")
	h.requireRefusal("adopt a missing network", h.ApplyNetwork(h.ctx, missing), "has no network named")
	h.waitUntil("the missing network is reported", func() bool {
		st, _ := h.networkStatus(missing)
		return st.Error == hypervisor.NetworkMissingText
	})
}
