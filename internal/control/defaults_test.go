package control_test

import (
	"errors"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/identity"
	"quantix/internal/fleet"
	"quantix/internal/vmedit"
)

// networkOnBothHosts adds a network that both hosts report as active with the given forward mode.
func (s *projectFixture) networkOnBothHosts(kind fleet.NetworkKind, name, forward string) fleet.NetworkID {
	s.t.Helper()
	id := s.addNetwork(kind, name, `{"active":true,"forward":"`+forward+`"}`)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', network_id, $2, status FROM assignments WHERE network_id = $1`, id, s.h2)
	return id
}

// newDefaultsFixture returns a fixture where only the pool nfs and the network default are published to project red. Neither
// is the first or the largest.
func newDefaultsFixture(t *testing.T) *projectFixture {
	t.Helper()
	s := newProjectFixture(t)
	s.networkOnBothHosts(fleet.NetworkLibvirt, "a-isolated", "")
	s.setPoolSizes(s.addPool("a-large", `{"kind":"dir","path":"/srv/large","shared":false}`, s.h1, s.h2), 100<<10, 0, 0)
	s.execSQL(`UPDATE pool_grants SET project_id = CASE pool_id WHEN $1 THEN $2 ELSE $3 END`, s.nfs, s.red, s.blue)
	s.execSQL(`DELETE FROM network_grants USING networks n WHERE n.id = network_id AND n.name = 'a-isolated'`)
	return s
}

// requestWithoutPoolAndNetwork returns a request for a VM with one disk and one NIC, without a pool or network.
func (s *projectFixture) requestWithoutPoolAndNetwork(name string) control.CreateVM {
	in := control.CreateVM{ProjectID: s.red, Name: name, Spec: smallSpec}
	in.Spec.Disks, in.Spec.NICs = []fleet.Disk{{SizeBytes: 1 << 20}}, []fleet.NIC{{}}
	return in
}

func TestNewVMWithoutPoolAndNetworkGetsDefaults(t *testing.T) {
	s := newDefaultsFixture(t)
	made := func(in control.CreateVM) (pool fleet.PoolID, network string) {
		t.Helper()
		vm, err := s.CreateVM(t.Context(), s.member, in)
		if err != nil {
			t.Fatal(err)
		}
		spec := s.getVM(vm.ID).Spec
		return spec.Disks[0].PoolID, spec.NICs[0].Network + spec.NICs[0].Bridge
	}
	if pool, network := made(s.requestWithoutPoolAndNetwork("plain")); pool != s.nfs || network != "default" {
		t.Errorf("pool %s, network %s; want nfs and default, the only published ones", pool, network)
	}
	plan, err := s.PlanNewVM(t.Context(), chief, s.requestWithoutPoolAndNetwork("planned"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.GrantPool(t.Context(), chief, s.local, s.red); err != nil {
		t.Fatal(err)
	}
	vm, err := s.ExecutePlan(t.Context(), chief, plan.ID)
	if err != nil {
		t.Fatal(err)
	}
	if pool := s.getVM(vm).Spec.Disks[0].PoolID; pool != s.nfs {
		t.Errorf("pool %s, want nfs, which the plan was made with", pool)
	}
	// Of two published pools, only one is on h2.
	onH2 := s.requestWithoutPoolAndNetwork("elsewhere")
	onH2.HostID = s.h2
	if pool, _ := made(onH2); pool != s.nfs {
		t.Errorf("pool %s on h2, want nfs", pool)
	}
	s.wantRefused("one of two pools", fleet.Invalid, "Choose the pool", func() error {
		_, err := s.CreateVM(t.Context(), s.member, s.requestWithoutPoolAndNetwork("either"))
		return err
	})
	if err := s.RevokePool(t.Context(), chief, s.local, s.red); err != nil {
		t.Fatal(err)
	}

	series := control.CreateVMs{CreateVM: s.requestWithoutPoolAndNetwork("many-{n}"), BulkNames: vmedit.BulkNames{Count: 2}}
	if _, err := s.CreateVMs(t.Context(), s.member, series); err != nil {
		t.Errorf("of several: %v", err)
	}
	p, err := s.PreviewVM(t.Context(), s.member, s.requestWithoutPoolAndNetwork("seen"))
	if err != nil || p.Spec.Disks[0].PoolID != s.nfs || p.Spec.NICs[0].Network != "default" {
		t.Errorf("the preview has %+v, %v", p.Spec, err)
	}
}

func TestNewVMUsesProjectDefaults(t *testing.T) {
	s := newDefaultsFixture(t)
	lan := s.networkOnBothHosts(fleet.NetworkBridge, "lan", "")
	set := identity.ProjectInput{Name: "red", DefaultPoolID: s.local, DefaultNetworkID: lan}
	update := func(a fleet.Actor, in identity.ProjectInput) func() error {
		return func() error { _, err := s.UpdateProject(t.Context(), a, s.red, in); return err }
	}
	s.wantRefused("a default pool and network that are not published to the project", fleet.Invalid, "2 fields", update(chief, set))
	s.wantRefused("a pool that does not exist", fleet.Invalid, "no such pool", update(chief, identity.ProjectInput{Name: "red", DefaultPoolID: "none"}))
	s.wantRefused("a member's", fleet.Forbidden, "", update(s.member, identity.ProjectInput{Name: "red"}))
	luns := s.addPool("luns", `{"kind":"iscsi","server":"nas","target":"iqn.2026-01.example:x","shared":true}`, s.h1)
	s.wantRefused("a pool of LUNs", fleet.Invalid, "Quantix cannot make disks in", update(chief, identity.ProjectInput{Name: "red", DefaultPoolID: luns}))
	if err := errors.Join(s.GrantNetwork(t.Context(), chief, lan, s.red), s.GrantPool(t.Context(), chief, s.local, s.red)); err != nil {
		t.Fatal(err)
	}
	if err := update(chief, set)(); err != nil {
		t.Fatal(err)
	}
	project, err := s.GetProject(t.Context(), s.member, s.red)
	if err != nil || project.DefaultPoolID != s.local || project.DefaultNetworkID != lan {
		t.Fatalf("%+v %v", project, err)
	}
	vm, err := s.CreateVM(t.Context(), s.member, s.requestWithoutPoolAndNetwork("one"))
	if err != nil {
		t.Fatal(err)
	}
	if spec := s.getVM(vm.ID).Spec; spec.Disks[0].PoolID != s.local || spec.NICs[0].Bridge != "lan" {
		t.Errorf("%+v %+v", spec.Disks, spec.NICs)
	}
	d, err := s.VMDefaults(t.Context(), s.member, s.red, "", "")
	if err != nil || d.Pool.Why != "default of the project" || d.Network.Why != "default of the project" {
		t.Errorf("%+v %v", d, err)
	}

	// A network is no longer the project's default after its grant was revoked, and the project can still be renamed. A
	// deleted pool or network is no longer a default either.
	if err := s.RevokeNetwork(t.Context(), chief, lan, s.red); err != nil {
		t.Fatal(err)
	}
	if d, err := s.VMDefaults(t.Context(), s.member, s.red, "", ""); err != nil || d.Network.Name != "default" || d.Network.Why != "only network" {
		t.Errorf("%+v %v", d, err)
	}
	if err := s.RevokePool(t.Context(), chief, s.local, s.red); err != nil {
		t.Fatal(err)
	}
	if d, err := s.VMDefaults(t.Context(), s.member, s.red, "", ""); err != nil || d.Pool.ID != s.nfs || d.Pool.Why != "only pool" {
		t.Errorf("after the withdrawal of the default pool: %+v %v", d, err)
	}
	set.Description = "again"
	if err := update(chief, set)(); err != nil {
		t.Errorf("with an unchanged default: %v", err)
	}
	s.execSQL(`UPDATE projects SET default_pool_id = $1 WHERE id = $2`, luns, s.red)
	s.execSQL(`DELETE FROM assignments WHERE pool_id = $1`, luns)
	s.execSQL(`DELETE FROM pools WHERE id = $1`, luns)
	if project, err := s.GetProject(t.Context(), chief, s.red); err != nil || project.DefaultPoolID != "" {
		t.Errorf("%+v %v", project, err)
	}
	if _, err := s.VMDefaults(t.Context(), s.blueMember, s.red, "", ""); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("a user of another project gets %v", err)
	}
}

func TestNewVMRefusedWithoutDefault(t *testing.T) {
	s := newProjectFixture(t)
	s.networkOnBothHosts(fleet.NetworkLibvirt, "a-isolated", "")
	for _, a := range []fleet.Actor{s.member, chief} {
		s.wantRefused("one of two pools and networks", fleet.Invalid, "", func() error {
			_, err := s.CreateVM(t.Context(), a, s.requestWithoutPoolAndNetwork("web"))
			if err = withFieldErrors(err); err != nil && (!strings.Contains(err.Error(), "spec.disks[0].poolId: Choose the pool") || !strings.Contains(err.Error(), "spec.nics[0].network: Choose a network.")) {
				t.Errorf("%s: %v", a.Name, err)
			}
			return err
		})
	}
	s.execSQL(`UPDATE assignments SET status = '{"state":"failed"}' WHERE pool_id IS NOT NULL`)
	in := s.requestWithoutPoolAndNetwork("web")
	in.Spec.NICs = nil
	s.wantRefused("no pool", fleet.Invalid, "Choose the pool", func() error { _, err := s.CreateVM(t.Context(), chief, in); return err })
}
