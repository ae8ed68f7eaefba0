package conformance

import (
	"slices"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// applyJobInProject returns the job for a VM of the project.
func (h *host) applyJobInProject(vm fleet.VM, project string) hypervisor.Apply {
	return changedJob(h.applyJob(vm), func(in *hypervisor.Apply) { in.Project = project })
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
	first, second, third := h.newVM(), h.newVM(), h.newVM()
	first.Name, second.Name, third.Name = db, db, db
	h.must("apply the first", h.ApplyVM(h.ctx, h.applyJobInProject(first, "acme")))
	h.must("apply the second", h.ApplyVM(h.ctx, h.applyJobInProject(second, "umbrella")))
	h.must("apply the third", h.ApplyVM(h.ctx, h.applyJobInProject(third, "acme")))
	h.wantDomain(first.ID, db+"_acme")
	h.wantDomain(second.ID, db+"_umbrella")
	h.wantDomain(third.ID, db+"_acme_"+string(third.ID[24:32]))
	if got := h.h.Power(t, foreign); got != fleet.Running {
		t.Errorf("the unmanaged domain is %q now", got)
	}
	// The domain's name stays as long as the VM's name does, even if a better candidate becomes free.
	h.must("delete the first", h.DeleteVM(h.ctx, first, nil, true))
	third.Generation, third.Spec.CPUs = 2, 2
	h.must("apply the third", h.ApplyVM(h.ctx, h.applyJobInProject(third, "acme")))
	h.wantDomain(third.ID, db+"_acme_"+string(third.ID[24:32]))
	h.must("start", h.StartVM(h.ctx, third.ID))
	third.Generation, third.Name = 3, name("own")
	h.must("rename the third", h.ApplyVM(h.ctx, h.applyJobInProject(third, "acme")))
	h.must("stop", h.StopVM(h.ctx, third.ID))
	h.must("start again", h.StartVM(h.ctx, third.ID))
	h.wantDomain(third.ID, "")
}

func testRenameTaken(t *testing.T, h *host) {
	first, second := h.definedVM(), h.definedVM()
	second.Generation, second.Name = 2, first.Name
	h.must("rename to the name of another VM", h.ApplyVM(h.ctx, h.applyJobInProject(second, "acme")))
	h.wantDomain(second.ID, first.Name+"_acme")
	h.wantDomain(first.ID, "")
}

// testOddNames gives a VM an image, a medium and a network with names that Quantix would refuse for new objects.
func testOddNames(t *testing.T, h *host) {
	p := h.pool()
	img, iso, net := "golden image (v2) & ü.qcow2", "Windows Server 2022 (x64), 50% #1.iso", name("odd space & ü")
	h.h.AddImage(t, p, Image{Name: img, Kind: Qcow2, SizeBytes: 4 << 20})
	h.h.AddImage(t, p, Image{Name: iso, Kind: ISO, SizeBytes: 1 << 20})
	h.h.ForeignNetwork(t, net)
	d := disk(p)
	d.SizeBytes, d.Image = 0, &fleet.Volref{PoolID: p.ID, Volume: img}
	vm := h.newVM(d)
	vm.Spec.ISO = &fleet.Volref{PoolID: p.ID, Volume: iso}
	vm.Spec.NICs = []fleet.NIC{{Network: net, MAC: mac()}}
	h.apply(vm)
	h.must("start", h.StartVM(h.ctx, vm.ID))
	s := h.status(vm.ID, 1)
	if len(s.Disks) != 1 || s.Disks[0].SizeBytes != 4<<20 || len(s.NICs) != 1 || s.NICs[0].Source != "network "+net || len(s.Drift)+len(s.Faults)+len(s.NextBoot) > 0 {
		t.Errorf("the VM is %+v", s)
	}
	h.eventually("the medium is in its drive", func() bool {
		v, ok := h.volume(p, iso)
		return ok && v.IsISO() && slices.Contains(v.InDrive, vm.ID)
	})
	h.must("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
	h.must("clone the image", h.CloneVolume(h.ctx, h.volumeJob(p, "copy.qcow2", fleet.VolumeParams{Source: img})))
	h.must("rename the image", h.RenameVolume(h.ctx, h.volumeJob(p, "golden.qcow2", fleet.VolumeParams{Source: img})))
	h.must("delete the medium", h.DeleteVolume(h.ctx, h.volumeJob(p, iso, fleet.VolumeParams{})))
	for name, want := range map[string]bool{img: false, iso: false, "copy.qcow2": true, "golden.qcow2": true} {
		if _, ok := h.volume(p, name); ok != want {
			t.Errorf("%s exists: %v", name, ok)
		}
	}
}
