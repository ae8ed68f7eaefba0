package control_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/control/flavors"
	"quantix/internal/control/identity"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/vmedit"
)

// flavor adds a flavor that is published to the projects; an empty project means all.
func (s *projectFixture) flavor(name string, cpus, memoryMiB int, diskBytes int64, projects ...fleet.ProjectID) flavor.ID {
	s.t.Helper()
	v, err := s.CreateFlavor(s.t.Context(), chief, flavor.Definition{Name: name, CPUs: cpus, MemoryMiB: memoryMiB, DiskBytes: diskBytes})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range projects {
		if err := s.GrantFlavor(s.t.Context(), chief, v.ID, p); err != nil {
			s.t.Fatal(err)
		}
	}
	return v.ID
}

// setVMRules sets the rules of project red, which has the shared pool and the network "default" as defaults.
func (s *projectFixture) setVMRules(r fleet.VMRules) {
	s.t.Helper()
	network := queryWithArgs[string](s, `SELECT id FROM networks WHERE name = 'default'`)
	in := identity.ProjectInput{Name: "red", DefaultPoolID: s.nfs, DefaultNetworkID: fleet.NetworkID(network), VMRules: &r}
	if _, err := s.UpdateProject(s.t.Context(), chief, s.red, in); err != nil {
		s.t.Fatal(err)
	}
}

// wantRefusedAt checks that do is refused at the field, with the text, and writes nothing.
func (s *projectFixture) wantRefusedAt(name, field, text string, do func() error) {
	s.t.Helper()
	s.wantRefused(name, fleet.Invalid, "", func() error {
		err := do()
		if refused, ok := errors.AsType[*fleet.Error](err); !ok || !slices.ContainsFunc(refused.Fields, func(f fleet.FieldError) bool {
			return f.Field == field && strings.Contains(f.Message, text)
		}) {
			s.t.Errorf("%s: %+v, want an error at %s with the text %q", name, err, field, text)
		}
		return err
	})
}

func flavorNames(all []flavor.Flavor) string {
	var names []string
	for _, f := range all {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

func TestFlavorsVisibleToProjectsTheyArePublishedTo(t *testing.T) {
	s := newProjectFixture(t)
	secret := s.flavor("secret", 1, 256, 0)
	red := s.flavor("red-only", 2, 512, 0, s.red)
	s.flavor("common", 4, 1024, 0, "")
	for _, c := range []struct {
		actor fleet.Actor
		want  string
	}{
		{s.member, "red-only common"}, {s.viewer, "red-only common"}, {s.blueMember, "common"}, {chief, "secret red-only common"},
	} {
		all, err := s.ListFlavors(t.Context(), c.actor)
		if err != nil || flavorNames(all) != c.want {
			t.Errorf("%s lists %q %v, want %q", c.actor.Name, flavorNames(all), err, c.want)
		}
		hits, err := s.Search(t.Context(), c.actor, "red-onl", 8)
		if err != nil || len(hits) > 0 != strings.Contains(c.want, "red-only") {
			t.Errorf("%s finds %v %v", c.actor.Name, hits, err)
		}
	}
	for _, hidden := range []struct {
		actor fleet.Actor
		id    flavor.ID
	}{{s.blueMember, red}, {s.member, secret}, {chief, "none"}, {chief, flavor.ID(s.red)}} {
		_, err := s.GetFlavor(t.Context(), hidden.actor, hidden.id)
		wantCode(t, err, fleet.NotFound)
	}
	v, err := s.GetFlavor(t.Context(), s.member, red)
	if err != nil || len(v.Grants) != 1 || v.Grants[0].ProjectName != "red" || v.Grants[0].By != "" {
		t.Errorf("%+v %v", v, err)
	}
	if err := s.RevokeFlavor(t.Context(), chief, red, s.red); err != nil {
		t.Fatal(err)
	}
	_, err = s.GetFlavor(t.Context(), s.member, red)
	wantCode(t, err, fleet.NotFound)
	s.wantRefused("published to an unknown project", fleet.NotFound, "project", func() error { return s.GrantFlavor(t.Context(), chief, red, "none") })
}

func TestGrantOfFlavorShowsNoOtherProjects(t *testing.T) {
	s := newProjectFixture(t)
	id := s.flavor("both", 1, 256, 0, s.red, s.blue)
	v, err := s.GetFlavor(t.Context(), s.member, id)
	if err != nil || len(v.Grants) != 1 || v.Grants[0].ProjectID != s.red {
		t.Errorf("a member of red sees %+v %v", v.Grants, err)
	}
}

func TestFlavorsAreChangedByAdministrators(t *testing.T) {
	s := newProjectFixture(t)
	id := s.flavor("small", 1, 256, 0)
	v, err := s.UpdateFlavor(t.Context(), chief, id, flavors.FlavorChange{Definition: flavor.Definition{Name: "tiny", CPUs: 2, MemoryMiB: 256}, IfGeneration: 1})
	if err != nil || v.Name != "tiny" || v.CPUs != 2 || v.Generation != 2 {
		t.Errorf("%+v %v", v, err)
	}
	_, err = s.UpdateFlavor(t.Context(), chief, id, flavors.FlavorChange{Definition: v.Definition, IfGeneration: 1})
	wantCode(t, err, fleet.Conflict)
	_, err = s.CreateFlavor(t.Context(), chief, flavor.Definition{Name: "tiny", CPUs: 2, MemoryMiB: 256})
	wantCode(t, err, fleet.Conflict)
	if err := s.DeleteFlavor(t.Context(), chief, id); err != nil {
		t.Fatal(err)
	}
	if got := s.auditActions("flavor."); got != "create small, edit tiny, delete tiny" {
		t.Errorf("audited: %s", got)
	}
}

func TestFlavorSetsSizeOfNewVM(t *testing.T) {
	s := newProjectFixture(t)
	id := s.flavor("small", 2, 512, 5<<30, s.red)
	in := control.CreateVM{ProjectID: s.red, Name: "web", FlavorID: id, Spec: fleet.VMSpec{CPUs: 7, MemoryMiB: 7000, Disks: []fleet.Disk{{PoolID: s.nfs, SizeBytes: 1 << 30}, {PoolID: s.nfs, SizeBytes: 2 << 30}}}}
	vm, err := s.CreateVM(t.Context(), s.member, in)
	if err != nil || vm.Spec.CPUs != 2 || vm.Spec.MemoryMiB != 512 || vm.Spec.Disks[0].SizeBytes != 5<<30 || vm.Spec.Disks[1].SizeBytes != 2<<30 {
		t.Fatalf("%+v %v", vm.Spec, err)
	}
	preview, err := s.PreviewVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "web-2", FlavorID: id})
	if err != nil || preview.Spec.CPUs != 2 {
		t.Errorf("preview: %+v %v", preview.Spec, err)
	}
	if _, err := s.UpdateFlavor(t.Context(), chief, id, flavors.FlavorChange{Definition: flavor.Definition{Name: "small", CPUs: 4, MemoryMiB: 512}}); err != nil {
		t.Fatal(err)
	}
	if v := s.getVM(vm.ID); v.Spec.CPUs != 2 {
		t.Errorf("the VM follows its flavor: %d vCPUs", v.Spec.CPUs)
	}
	secret := s.flavor("secret", 1, 256, 0, s.blue)
	for _, hidden := range []flavor.ID{secret, "none"} {
		s.wantRefusedAt("a flavor of another project", "flavorId", "There is no such flavor", func() error {
			_, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "web-3", FlavorID: hidden})
			return err
		})
	}
	if _, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "web-4", FlavorID: secret}); err != nil {
		t.Errorf("an administrator: %v", err)
	}
}

func TestFlavorsOnlyHoldsOnEveryPathToVM(t *testing.T) {
	s := newLibraryFixture(t)
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, s.member.UserID)
	source := s.stoppedVM("source")
	made := s.newTemplate("Web", source)
	small := s.flavor("small", 2, 512, 0, s.red)
	s.flavor("hidden", 1, 256, 0, s.blue)
	s.setVMRules(fleet.VMRules{FlavorsOnly: true})
	ctx := t.Context()
	with := func(name string, id flavor.ID, change func(*control.CreateVM)) control.CreateVM {
		in := control.CreateVM{ProjectID: s.red, Name: name, FlavorID: id}
		change(&in)
		return in
	}
	paths := map[string]func(*control.CreateVM){
		"spec":     func(in *control.CreateVM) { in.Spec = smallSpec },
		"template": func(in *control.CreateVM) { in.From = &control.VMSource{TemplateID: made.ID} },
		"clone":    func(in *control.CreateVM) { in.From = &control.VMSource{VMID: source.ID} },
	}
	for name, change := range paths {
		s.wantRefusedAt(name, "spec.cpus", "small (2 vCPUs, 512 MiB)", func() error { _, err := s.CreateVM(ctx, s.member, with("x-"+name, "", change)); return err })
		s.wantRefusedAt(name+", preview", "spec.cpus", "small", func() error { _, err := s.PreviewVM(ctx, s.member, with("x-"+name, "", change)); return err })
		s.wantRefusedAt(name+", plan", "spec.cpus", "small", func() error { _, err := s.PlanNewVM(ctx, s.member, with("x-"+name, "", change)); return err })
		s.wantRefusedAt(name+", bulk", "spec.cpus", "small", func() error {
			_, err := s.CreateVMs(ctx, s.member, control.CreateVMs{CreateVM: with(name+"-{n}", "", change), BulkNames: vmedit.BulkNames{Count: 2}})
			return err
		})
		vm, err := s.CreateVM(ctx, s.member, with("x-"+name, small, change))
		if err != nil || vm.Spec.CPUs != 2 || vm.Spec.MemoryMiB != 512 {
			t.Errorf("%s with a flavor: %+v %v", name, vm.Spec, err)
		}
	}
	task, err := s.CreateVMs(ctx, s.member, control.CreateVMs{CreateVM: with("many-{n}", small, paths["template"]), BulkNames: vmedit.BulkNames{Count: 3}})
	if err != nil {
		t.Fatal(err)
	}
	// The flavor at the time of the request counts.
	if _, err := s.UpdateFlavor(ctx, chief, small, flavors.FlavorChange{Definition: flavor.Definition{Name: "small", CPUs: 2, MemoryMiB: 512, Description: "changed"}}); err != nil {
		t.Fatal(err)
	}
	s.beginTasks()
	if n := s.countRows(`vms WHERE name LIKE 'many-%' AND spec->>'cpus' = '2'`); n != 3 {
		t.Errorf("%d VMs of the bulk task: %s", n, s.childStates(task.ID))
	}
	if _, err := s.CreateVM(ctx, chief, with("by-chief", "", paths["spec"])); err != nil {
		t.Errorf("an administrator: %v", err)
	}
}

func TestFlavorsOnlyHoldsOnEdits(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, s.member.UserID)
	vm := s.createVM("web", fleet.Running)
	s.flavor("small", 2, 512, 5<<30, s.red)
	s.setVMRules(fleet.VMRules{FlavorsOnly: true})
	edit := func(a fleet.Actor, cpus, memory int) error {
		_, _, err := s.UpdateVM(t.Context(), a, vm.ID, editedSpec(s.getVM(vm.ID), func(x *fleet.VMSpec) { x.CPUs, x.MemoryMiB = cpus, memory }))
		return err
	}
	s.wantRefusedAt("more vCPUs", "spec.memoryMiB", "small", func() error { return edit(s.member, 2, 256) })
	s.wantRefusedAt("more memory", "spec.cpus", "small", func() error { return edit(s.member, 1, 512) })
	bulk := vmedit.BulkEdit{Fields: map[string]json.RawMessage{"cpus": json.RawMessage(`3`)}}
	preview, err := s.PreviewEdit(t.Context(), s.member, []fleet.VMID{vm.ID}, bulk)
	if err != nil || len(preview.Refused) != 1 || !strings.Contains(preview.Refused[0].Why, "small (2 vCPUs") {
		t.Errorf("preview of a bulk edit: %+v %v", preview, err)
	}
	task, err := s.EditVMs(t.Context(), s.member, []fleet.VMID{vm.ID}, bulk)
	if err != nil {
		t.Fatal(err)
	}
	s.beginTasks()
	if states := s.childStates(task.ID); !strings.Contains(states, "failed") || s.getVM(vm.ID).Spec.CPUs != 1 {
		t.Errorf("bulk edit: %s", states)
	}
	// A VM that has no flavor's size can be edited otherwise, and get the size of a flavor.
	description := "still editable"
	if _, _, err := s.UpdateVM(t.Context(), s.member, vm.ID, control.UpdateVM{Description: &description}); err != nil {
		t.Errorf("edit of another field: %v", err)
	}
	if err := edit(s.member, 2, 512); err != nil {
		t.Errorf("the size of a flavor: %v", err)
	}
	if err := edit(chief, 3, 256); err != nil {
		t.Errorf("an administrator: %v", err)
	}
}

func TestLockedValuesOfProject(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, s.member.UserID)
	group := s.addSecurityGroup(chief, s.red, "base")
	other := s.addSecurityGroup(chief, s.red, "other")
	rules := fleet.VMRules{Firmware: fleet.UEFI, ExpiryDays: 30, ExpiryStops: true, SecurityGroups: []fleet.SecurityGroupID{group.ID}, NamePattern: "red-*"}
	s.setVMRules(rules)
	ctx := t.Context()
	otherNet := s.networkOnBothHosts(fleet.NetworkLibvirt, "wan", "nat")
	s.execSQL(`INSERT INTO network_grants (network_id, project_id) VALUES ($1, NULL) ON CONFLICT DO NOTHING`, otherNet)
	disk, nic := []fleet.Disk{{SizeBytes: 1 << 20}}, []fleet.NIC{{}}
	request := func(name string, change func(*control.CreateVM)) control.CreateVM {
		in := control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: slices.Clone(disk), NICs: slices.Clone(nic)}}
		change(&in)
		return in
	}
	none := func(*control.CreateVM) {}
	vm, err := s.CreateVM(ctx, s.member, request("red-1", none))
	if err != nil {
		t.Fatal(err)
	}
	p := vm.Protection
	if vm.Spec.Firmware != fleet.UEFI || vm.Spec.Disks[0].PoolID != s.nfs || vm.Spec.NICs[0].Network != "default" || !slices.Equal(vm.Spec.NICs[0].SecurityGroups, rules.SecurityGroups) {
		t.Errorf("%+v", vm.Spec)
	}
	if p.ExpiresAt == nil || !p.ExpiryStops || time.Until(*p.ExpiresAt).Round(24*time.Hour) != 30*24*time.Hour {
		t.Errorf("%+v", p)
	}
	never := 0
	choices := map[string]struct {
		field, text string
		change      func(*control.CreateVM)
	}{
		flavor.KeyPool:           {"spec.disks[0].poolId", "nfs", func(in *control.CreateVM) { in.Spec.Disks[0].PoolID = s.local }},
		flavor.KeyNetwork:        {"spec.nics[0].network", "default", func(in *control.CreateVM) { in.Spec.NICs[0].NetworkID = otherNet }},
		flavor.KeyFirmware:       {"spec.firmware", "UEFI", func(in *control.CreateVM) { in.Spec.Firmware = fleet.BIOS }},
		flavor.KeyExpiry:         {"expiryDays", "30 days", func(in *control.CreateVM) { in.ExpiryDays = &never }},
		flavor.KeySecurityGroups: {"spec.nics[0].securityGroups", "base", func(in *control.CreateVM) { in.Spec.NICs[0].SecurityGroups = []fleet.SecurityGroupID{other.ID} }},
	}
	for key, c := range choices { // defaults bind nobody
		if _, err := s.CreateVM(ctx, s.member, request("red-free-"+strings.ToLower(key), c.change)); err != nil {
			t.Errorf("%s, not locked: %v", key, err)
		}
	}
	for key := range choices {
		rules.Locked = append(rules.Locked, key)
	}
	s.setVMRules(rules)
	for key, c := range choices {
		s.wantRefusedAt(key, c.field, c.text, func() error { _, err := s.CreateVM(ctx, s.member, request("red-2", c.change)); return err })
		if _, err := s.CreateVM(ctx, chief, request("by-chief-"+strings.ToLower(key), c.change)); err != nil {
			t.Errorf("%s, by an administrator: %v", key, err)
		}
	}
	if _, err := s.CreateVM(ctx, s.member, request("red-3", none)); err != nil {
		t.Errorf("without choices: %v", err)
	}
	s.wantRefusedAt("name", "name", "red-*", func() error { _, err := s.CreateVM(ctx, s.member, request("blue-1", none)); return err })
	s.wantRefusedAt("names", "name", "red-*", func() error {
		_, err := s.CreateVMs(ctx, s.member, control.CreateVMs{CreateVM: control.CreateVM{ProjectID: s.red, Name: "web-{n}", Spec: smallSpec}, BulkNames: vmedit.BulkNames{Count: 2}})
		return err
	})

	// Edits of the VM.
	s.reportPower(vm.ID, fleet.Stopped)
	now := s.getVM(vm.ID)
	edits := map[string]struct {
		field  string
		change func(*fleet.VMSpec)
	}{
		"new disk":        {"spec.disks[1].poolId", func(x *fleet.VMSpec) { x.Disks = append(x.Disks, fleet.Disk{PoolID: s.local, SizeBytes: 1 << 20}) }},
		"other network":   {"spec.nics[0].network", func(x *fleet.VMSpec) { x.NICs[0] = x.NICs[0].WithNetwork(otherNet, fleet.NetworkLibvirt, "wan") }},
		"without a group": {"spec.nics[0].securityGroups", func(x *fleet.VMSpec) { x.NICs[0].SecurityGroups = nil }},
	}
	for name, e := range edits {
		s.wantRefusedAt(name, e.field, "The project sets this", func() error {
			in := now
			in.Spec.Disks, in.Spec.NICs = slices.Clone(now.Spec.Disks), slices.Clone(now.Spec.NICs)
			_, _, err := s.UpdateVM(ctx, s.member, vm.ID, editedSpec(in, e.change))
			return err
		})
	}
	rename := "web"
	s.wantRefusedAt("rename", "name", "red-*", func() error {
		_, _, err := s.UpdateVM(ctx, s.member, vm.ID, control.UpdateVM{Name: &rename})
		return err
	})
	s.wantRefusedAt("expiry", "expiresAt", "Ask an administrator", func() error { _, err := s.SetVMProtection(ctx, s.member, vm.ID, control.ProtectVM{}); return err })
	if _, err := s.SetVMProtection(ctx, s.member, vm.ID, control.ProtectVM{Protected: true, ExpiresAt: p.ExpiresAt, ExpiryStops: true}); err != nil {
		t.Errorf("protection with the same expiry: %v", err)
	}
	if _, err := s.SetVMProtection(ctx, chief, vm.ID, control.ProtectVM{}); err != nil {
		t.Errorf("expiry, by an administrator: %v", err)
	}
}

// A template or clone without a spec names no pool and network, so it gets the project's.
func TestLockedPoolReplacesThatOfSource(t *testing.T) {
	s := newLibraryFixture(t)
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, s.member.UserID)
	source := s.stoppedVM("source")
	s.setVMRules(fleet.VMRules{Locked: []string{flavor.KeyPool, flavor.KeyNetwork}})
	vm, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "copy", From: &control.VMSource{VMID: source.ID}})
	if err != nil || vm.Spec.Disks[0].PoolID != s.nfs {
		t.Errorf("%+v %v", vm.Spec, err)
	}
}

func TestInvalidRulesOfProjectRefused(t *testing.T) {
	s := newProjectFixture(t)
	foreign := s.addSecurityGroup(chief, s.blue, "foreign")
	set := func(r fleet.VMRules) func() error {
		return func() error {
			_, err := s.UpdateProject(t.Context(), chief, s.red, identity.ProjectInput{Name: "red", VMRules: &r})
			return err
		}
	}
	s.wantRefusedAt("group of another project", "vmRules.securityGroups", "Name security groups", set(fleet.VMRules{SecurityGroups: []fleet.SecurityGroupID{foreign.ID}}))
	s.wantRefusedAt("pool without default", "vmRules.locked[0]", "default pool", set(fleet.VMRules{Locked: []string{flavor.KeyPool}}))
	s.wantRefusedAt("pattern", "vmRules.namePattern", "hyphens", set(fleet.VMRules{NamePattern: "Web\u200b*"}))
	if err := set(fleet.VMRules{NamePattern: "web-*", ExpiryDays: 7})(); err != nil {
		t.Fatal(err)
	}
	// An input without rules keeps them.
	p, err := s.UpdateProject(t.Context(), chief, s.red, identity.ProjectInput{Name: "red", Description: "x"})
	if err != nil || p.VMRules.NamePattern != "web-*" {
		t.Errorf("%+v %v", p.VMRules, err)
	}
	list, err := s.ListProjects(t.Context(), s.member, fleet.Query{})
	if err != nil || len(list.Items) != 1 || list.Items[0].VMRules.ExpiryDays != 7 {
		t.Errorf("%+v %v", list, err)
	}
}
