package conformance

import (
	"slices"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// applyJobInProject returns the job for a VM of the project.
func (h *testHost) applyJobInProject(vm fleet.VM, project string) hypervisor.ApplyWork {
	return changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.Project = project })
}

func (h *testHost) wantDomainName(id fleet.VMID, want string) {
	h.t.Helper()
	r, ok := h.reportedVM(id)
	if !ok || r.Status.Domain != want || len(r.Status.Drift) != 0 {
		h.t.Errorf("the domain's name is reported as %q, want %q; the drift is %+v", r.Status.Domain, want, r.Status.Drift)
	}
}

func testVMsWithSameName(t *testing.T, h *testHost) {
	db := uniqueName("db")
	foreign := h.harness.DefineUnmanagedVM(t, db)
	first, second, third := h.newVM(), h.newVM(), h.newVM()
	first.Name, second.Name, third.Name = db, db, db
	h.requireNoError("apply the first", h.ApplyVM(h.ctx, h.applyJobInProject(first, "acme")))
	h.requireNoError("apply the second", h.ApplyVM(h.ctx, h.applyJobInProject(second, "umbrella")))
	h.requireNoError("apply the third", h.ApplyVM(h.ctx, h.applyJobInProject(third, "acme")))
	h.wantDomainName(first.ID, db+"_acme")
	h.wantDomainName(second.ID, db+"_umbrella")
	h.wantDomainName(third.ID, db+"_acme_"+string(third.ID[24:32]))
	if got := h.harness.PowerOf(t, foreign); got != fleet.Running {
		t.Errorf("the unmanaged domain has the power state %q, want it running", got)
	}
	// The domain keeps its name as long as the VM's name stays the same, even if a better candidate becomes free.
	h.requireNoError("delete the first", h.DeleteVM(h.ctx, first, nil, true))
	third.Generation, third.Spec.CPUs = 2, 2
	h.requireNoError("apply the third", h.ApplyVM(h.ctx, h.applyJobInProject(third, "acme")))
	h.wantDomainName(third.ID, db+"_acme_"+string(third.ID[24:32]))
	h.requireNoError("start", h.StartVM(h.ctx, third.ID))
	third.Generation, third.Name = 3, uniqueName("own")
	h.requireNoError("rename the third", h.ApplyVM(h.ctx, h.applyJobInProject(third, "acme")))
	h.requireNoError("stop", h.StopVM(h.ctx, third.ID))
	h.requireNoError("start again", h.StartVM(h.ctx, third.ID))
	h.wantDomainName(third.ID, "")
}

func testRenameToTakenName(t *testing.T, h *testHost) {
	first, second := h.definedVM(), h.definedVM()
	second.Generation, second.Name = 2, first.Name
	h.requireNoError("rename to the name of another VM", h.ApplyVM(h.ctx, h.applyJobInProject(second, "acme")))
	h.wantDomainName(second.ID, first.Name+"_acme")
	h.wantDomainName(first.ID, "")
}

// testNamesInvalidForQuantix gives a VM an image, a medium and a network with names that Quantix would refuse for new
// objects.
func testNamesInvalidForQuantix(t *testing.T, h *testHost) {
	p := h.newPool()
	img, iso, net := "golden image (v2) & ü.qcow2", "Windows Server 2022 (x64), 50% #1.iso", uniqueName("odd space & ü")
	h.harness.AddImage(t, p, Image{Name: img, Kind: Qcow2, SizeBytes: 4 << 20})
	h.harness.AddImage(t, p, Image{Name: iso, Kind: ISO, SizeBytes: 1 << 20})
	h.harness.DefineUnmanagedNetwork(t, net)
	d := newDisk(p)
	d.SizeBytes, d.Image = 0, &fleet.Volref{PoolID: p.ID, Volume: img}
	vm := h.newVM(d)
	vm.Spec.ISO = &fleet.Volref{PoolID: p.ID, Volume: iso}
	vm.Spec.NICs = []fleet.NIC{{Network: net, MAC: uniqueMAC()}}
	h.apply(vm)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	s := h.wantStatus(vm.ID, 1)
	if len(s.Disks) != 1 || s.Disks[0].SizeBytes != 4<<20 || len(s.NICs) != 1 || s.NICs[0].Source != "network "+net || len(s.Drift)+len(s.Faults)+len(s.NextBoot) > 0 {
		t.Errorf("the VM's status is %+v, want one disk of 4 MiB, one NIC, and no drift or fault", s)
	}
	h.waitUntil("the medium is in its drive", func() bool {
		v, ok := h.reportedVolume(p, iso)
		return ok && v.IsISO() && slices.Contains(v.InDrive, vm.ID)
	})
	h.requireNoError("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
	h.requireNoError("clone the image", h.CloneVolume(h.ctx, h.newVolumeJob(p, "copy.qcow2", fleet.VolumeParams{Source: img})))
	h.requireNoError("rename the image", h.RenameVolume(h.ctx, h.newVolumeJob(p, "golden.qcow2", fleet.VolumeParams{Source: img})))
	h.requireNoError("delete the medium", h.DeleteVolume(h.ctx, h.newVolumeJob(p, iso, fleet.VolumeParams{})))
	for name, want := range map[string]bool{img: false, iso: false, "copy.qcow2": true, "golden.qcow2": true} {
		if _, ok := h.reportedVolume(p, name); ok != want {
			t.Errorf("unexpected existence of the volume %s: %v", name, ok)
		}
	}
}
