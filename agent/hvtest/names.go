package hvtest

import (
	"testing"

	"quantix/agent"
	"quantix/internal/fleet"
)

// inProject is the order of a VM of that project.
func (h *host) inProject(vm fleet.VM, project string) agent.Apply {
	return with(h.order(vm), func(in *agent.Apply) { in.Project = project })
}

func (h *host) wantDomain(id fleet.VMID, want string) {
	h.t.Helper()
	r, ok := h.report(id)
	if !ok || r.Status.Domain != want || len(r.Status.Drift) != 0 {
		h.t.Errorf("the domain is %q, want %q; drift %+v", r.Status.Domain, want, r.Status.Drift)
	}
}

func testOneName(t *testing.T, h *host) {
	db := name("db")
	foreign := h.h.Foreign(t, db)
	first, second, third := h.vm(), h.vm(), h.vm()
	first.Name, second.Name, third.Name = db, db, db
	h.must("apply the first", h.ApplyVM(h.ctx, h.inProject(first, "acme")))
	h.must("apply the second", h.ApplyVM(h.ctx, h.inProject(second, "umbrella")))
	h.must("apply the third", h.ApplyVM(h.ctx, h.inProject(third, "acme")))
	h.wantDomain(first.ID, db+"_acme")
	h.wantDomain(second.ID, db+"_umbrella")
	h.wantDomain(third.ID, db+"_acme_"+string(third.ID[24:32]))
	if got := h.h.Power(t, foreign); got != fleet.Running {
		t.Errorf("the foreign domain is %q now", got)
	}
	// The name stays while the VM's does, though a better one becomes free.
	h.must("delete the first", h.DeleteVM(h.ctx, first, nil, true))
	third.Generation, third.Spec.CPUs = 2, 2
	h.must("apply the third", h.ApplyVM(h.ctx, h.inProject(third, "acme")))
	h.wantDomain(third.ID, db+"_acme_"+string(third.ID[24:32]))
	h.must("start", h.StartVM(h.ctx, third.ID))
	third.Generation, third.Name = 3, name("own")
	h.must("rename the third", h.ApplyVM(h.ctx, h.inProject(third, "acme")))
	h.must("stop", h.StopVM(h.ctx, third.ID))
	h.must("start again", h.StartVM(h.ctx, third.ID))
	h.wantDomain(third.ID, "")
}

func testRenameTaken(t *testing.T, h *host) {
	first, second := h.made(), h.made()
	second.Generation, second.Name = 2, first.Name
	h.must("rename to a name that is taken", h.ApplyVM(h.ctx, h.inProject(second, "acme")))
	h.wantDomain(second.ID, first.Name+"_acme")
	h.wantDomain(first.ID, "")
}
