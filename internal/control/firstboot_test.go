package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/wire"
)

const testPassword = "correct-horse-battery"

func hostnameFirstBoot(name string) *control.FirstBootInput {
	return &control.FirstBootInput{Kind: fleet.CloudInit, CloudInit: &fleet.CloudInitForm{Hostname: name}}
}

// secretFirstBoot returns first-boot data with a secret in every field that can have one.
func secretFirstBoot() *control.FirstBootInput {
	return &control.FirstBootInput{Kind: fleet.CloudInit, CloudInit: &fleet.CloudInitForm{
		Users: []fleet.FirstUser{{Name: "anna", Password: testPassword, Sudo: true}}, Run: []string{"echo " + testPoolSecret},
	}}
}

func (w *authzFixture) vmWithFirstBoot() fleet.VMID {
	w.t.Helper()
	w.execSQL(enableFirstBootsSQL) // reports in other entries have overwritten the hosts' support
	vm, err := w.CreateVM(w.t.Context(), chief, control.CreateVM{ProjectID: w.red, Name: w.uniqueName("red"), HostID: w.h1, Spec: smallSpec, FirstBoot: hostnameFirstBoot("a")})
	if err != nil {
		w.t.Fatal(err)
	}
	return vm.ID
}

// vmWithoutFirstBoot returns a VM without first-boot data, on a host whose agent supports such data.
func (w *authzFixture) vmWithoutFirstBoot() fleet.VMID {
	w.t.Helper()
	w.execSQL(enableFirstBootsSQL)
	return w.vm()
}

func (w *authzFixture) customization() control.CustomizationInput {
	return control.CustomizationInput{ProjectID: w.red, Name: w.uniqueName("spec"), FirstBoot: fleet.FirstBoot{Kind: fleet.CloudInit, CloudInit: &fleet.CloudInitForm{Hostname: "{{vm.name}}"}}}
}

// publicCustomization adds a fleet-wide spec that is published to all projects.
func (w *authzFixture) publicCustomization() fleet.CustomizationID {
	in := w.customization()
	in.ProjectID, in.Public = "", true
	return w.addCustomization(in).ID
}

func (w *authzFixture) addCustomization(in control.CustomizationInput) fleet.Customization {
	w.t.Helper()
	out, err := w.CreateCustomization(w.t.Context(), chief, in)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// enableFirstBootsSQL is SQL that makes the hosts' agents support first-boot data. By default the agents of a fixture
// do not.
const enableFirstBootsSQL = `UPDATE hosts SET status = jsonb_set(jsonb_set(status, '{inventory,vmFields}', '["firstBoot"]'), '{inventory,firmwares}', '["bios"]')`

// newSealedFixture returns a projectFixture whose portal has a key for secrets.
func newSealedFixture(t *testing.T) *projectFixture {
	t.Helper()
	s := newProjectFixture(t)
	s.Control = control.New(s.pool, control.Options{Hub: notify.NewHub(), AgentURL: "https://portal.example:8444", Vault: auth.NewVault()})
	s.execSQL(enableFirstBootsSQL)
	return s
}

func (s *projectFixture) vmWithFirstBoot(name string, boot *control.FirstBootInput) fleet.VMView {
	s.t.Helper()
	vm, err := s.CreateVM(s.t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: name, HostID: s.h1, Spec: smallSpec, FirstBoot: boot})
	if err != nil {
		s.t.Fatal(err)
	}
	return vm
}

// firstBootFiles returns the first-boot files that the host gets for the VM, as texts.
func (s *projectFixture) firstBootFiles(host fleet.HostID, vm fleet.VMView) (map[string]string, error) {
	got, err := s.FirstBootForHost(s.t.Context(), fleet.Actor{HostID: host}, vm.ID, wire.FirstBootRequest{FirstBoot: vm.Spec.FirstBoot})
	out := map[string]string{}
	for name, text := range got.Files {
		out[name] = string(text)
	}
	return out, err
}

// First-boot data is sent only to the VM's own host and is stored nowhere in plain text.
func TestFirstBootReadableOnlyByVMsHost(t *testing.T) {
	s := newSealedFixture(t)
	ctx := t.Context()
	vm := s.vmWithFirstBoot("web-07", secretFirstBoot())
	if vm.Spec.FirstBoot != (fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 1}) || strings.Contains(fmt.Sprintf("%+v", vm), testPoolSecret) {
		t.Errorf("the VM gets as %+v", vm)
	}
	files, err := s.firstBootFiles(s.h1, vm)
	if err != nil || !strings.Contains(files["user-data"], testPoolSecret) || !strings.Contains(files["meta-data"], string(vm.ID)+"-1") || !strings.Contains(files["meta-data"], "web-07") {
		t.Errorf("the VM's host gets %v, %v", files, err)
	}
	if strings.Contains(files["user-data"], testPassword) || !strings.Contains(files["user-data"], "$6$") {
		t.Errorf("the password is not hashed:\n%s", files["user-data"])
	}
	if got, err := s.firstBootFiles(s.h2, vm); fleet.CodeOf(err) != fleet.NotFound || len(got) > 0 {
		t.Errorf("another host gets %v, %v", got, err)
	}
	for _, text := range []string{testPoolSecret, testPassword} {
		if at := s.tablesContaining(text); at != "" {
			t.Errorf("%s is in %s", text, at)
		}
	}
	if audits := s.auditActions("vm."); strings.Contains(audits, testPoolSecret) {
		t.Errorf("the audit says %s", audits)
	}

	view, err := s.FirstBoot(ctx, s.member, vm.ID)
	if err != nil || view.Content.CloudInit.Users[0].PasswordHash != fleet.UnchangedPassword || view.SetBy != s.member.Name {
		t.Errorf("a person who may change the VM sees %+v, %v", view, err)
	}
	if _, err := s.FirstBoot(ctx, s.viewer, vm.ID); fleet.CodeOf(err) != fleet.Forbidden {
		t.Errorf("a viewer reads the first-boot data: %v", err)
	}
	if _, err := s.FirstBoot(ctx, s.blueMember, vm.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("the error reveals the first-boot data to a user of another project: %v", err)
	}

	other := control.New(s.pool, control.Options{Hub: notify.NewHub(), Vault: auth.NewVault()})
	if _, err := other.FirstBoot(ctx, s.member, vm.ID); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "another key") {
		t.Errorf("a portal with another key: %v", err)
	}
	keyless := control.New(s.pool, control.Options{Hub: notify.NewHub()})
	if _, _, err := keyless.SetFirstBoot(ctx, s.member, vm.ID, *secretFirstBoot()); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "secretsKey") {
		t.Errorf("a portal without a key: %v", err)
	}
	second := s.vmWithFirstBoot("web-08", hostnameFirstBoot("b"))
	s.execSQL(`UPDATE first_boots SET sealed = (SELECT sealed FROM first_boots WHERE vm_id = $1) WHERE vm_id = $2`, vm.ID, second.ID)
	if got, err := s.firstBootFiles(s.h1, second); err == nil {
		t.Errorf("another VM's row opens as %v", got)
	}
}

func TestByteOrderMarkStrippedFromUserData(t *testing.T) {
	s := newSealedFixture(t)
	const text = "\ufeff#cloud-config\nhostname: web\n"
	vm := s.vmWithFirstBoot("web-07", &control.FirstBootInput{Kind: fleet.CloudConfig, UserData: text})
	files, err := s.firstBootFiles(s.h1, vm)
	if err != nil || !strings.HasPrefix(files["user-data"], "#cloud-config") {
		t.Errorf("the host gets %q, %v", files["user-data"], err)
	}
	in := control.CustomizationInput{ProjectID: s.red, Name: "windows-editor", FirstBoot: fleet.FirstBoot{Kind: fleet.CloudConfig, UserData: text}}
	if _, err := s.CreateCustomization(t.Context(), s.member, in); err != nil {
		t.Error(err)
	}
}

// Setting first-boot data again gives it a new number, so that the guest runs it again. Passwords that the input leaves
// out stay the same. A host with a job from before the change gets no data.
func TestRepeatedFirstBootChangesInstanceID(t *testing.T) {
	s := newSealedFixture(t)
	ctx := t.Context()
	vm := s.vmWithFirstBoot("web", secretFirstBoot())
	before, err := s.firstBootFiles(s.h1, vm)
	if err != nil {
		t.Fatal(err)
	}
	again, task, err := s.SetFirstBoot(ctx, s.member, vm.ID, control.FirstBootInput{Again: true})
	if err != nil || task == "" || again.Spec.FirstBoot.Number != 2 || again.Generation != vm.Generation+1 {
		t.Fatalf("given again: %+v, %q, %v", again.Spec.FirstBoot, task, err)
	}
	after, err := s.firstBootFiles(s.h1, again)
	if err != nil || after["user-data"] != before["user-data"] || !strings.Contains(after["meta-data"], "-2\n") {
		t.Errorf("it gets %v, %v", after, err)
	}
	if _, err := s.firstBootFiles(s.h1, vm); fleet.CodeOf(err) != fleet.NotFound && fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("a job from before the change gets the new data: %v", err)
	}

	view, err := s.FirstBoot(ctx, s.member, vm.ID)
	if err != nil {
		t.Fatal(err)
	}
	view.Content.CloudInit.Users = append(view.Content.CloudInit.Users, fleet.FirstUser{Name: "ben", PasswordHash: fleet.UnchangedPassword})
	_, _, err = s.SetFirstBoot(ctx, s.member, vm.ID, control.FirstBootInput{Kind: fleet.CloudInit, CloudInit: view.Content.CloudInit})
	wantField(t, err, "firstBoot.cloudInit.users[1].passwordHash")
	view.Content.CloudInit.Users = view.Content.CloudInit.Users[:1]
	third, _, err := s.SetFirstBoot(ctx, s.member, vm.ID, control.FirstBootInput{Kind: fleet.CloudInit, CloudInit: view.Content.CloudInit, IfGeneration: again.Generation})
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := s.firstBootFiles(s.h1, third); err != nil || kept["user-data"] != before["user-data"] {
		t.Errorf("the password changed: %v\n%s\n%s", err, before["user-data"], kept["user-data"])
	}
	if _, _, err := s.SetFirstBoot(ctx, s.member, vm.ID, control.FirstBootInput{Again: true, IfGeneration: 1}); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("an edit with a stale generation: %v", err)
	}

	gone, _, err := s.SetFirstBoot(ctx, s.member, vm.ID, control.FirstBootInput{})
	if err != nil || gone.Spec.FirstBoot.Kind != "" || s.countRows("first_boots") != 0 {
		t.Errorf("after removal: %+v, %v", gone.Spec.FirstBoot, err)
	}
	if _, err := s.FirstBoot(ctx, s.member, vm.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("reading removed data: %v", err)
	}
	if _, task, err := s.SetFirstBoot(ctx, s.member, vm.ID, control.FirstBootInput{}); err == nil && task != "" {
		t.Error("removing missing data queues a job")
	}
}

// Invalid input is refused at its field, and nothing is written.
func TestInvalidFirstBootRefused(t *testing.T) {
	s := newSealedFixture(t)
	ctx := t.Context()
	blue, err := s.CreateCustomization(ctx, chief, control.CustomizationInput{ProjectID: s.blue, Name: "theirs", FirstBoot: hostnameContent("a")})
	if err != nil {
		t.Fatal(err)
	}
	vm := s.vmWithFirstBoot("there", hostnameFirstBoot("a"))
	for what, c := range map[string]struct {
		boot  control.FirstBootInput
		field string
	}{
		"no YAML":                    {control.FirstBootInput{Kind: fleet.CloudConfig, UserData: "#cloud-config\na: [\n"}, "firstBoot.userData"},
		"more NICs than there are":   {control.FirstBootInput{Kind: fleet.CloudInit, CloudInit: &fleet.CloudInitForm{Network: make([]fleet.FirstBootNIC, 4)}}, "firstBoot.cloudInit.network"},
		"a variable without a value": {*hostnameFirstBoot("{{var.x}}"), "firstBoot.cloudInit.hostname"},
		"a value that does not fit":  {control.FirstBootInput{Kind: fleet.CloudInit, CloudInit: &fleet.CloudInitForm{Hostname: "{{var.x}}"}, Variables: map[string]string{"x": "a b"}}, "firstBoot.cloudInit.hostname"},
		"a variable of two lines":    {control.FirstBootInput{Kind: fleet.CloudInit, CloudInit: &fleet.CloudInitForm{}, Variables: map[string]string{"x": "a\nb"}}, "firstBoot.variables"},
		"another project's spec":     {control.FirstBootInput{CustomizationID: blue.ID}, "firstBoot.customizationId"},
		"a spec that is not there":   {control.FirstBootInput{CustomizationID: fleet.NewID[fleet.CustomizationID]()}, "firstBoot.customizationId"},
		"a spec by a path":           {control.FirstBootInput{CustomizationID: "../x"}, "firstBoot.customizationId"},
		"a spec and a first boot":    {control.FirstBootInput{CustomizationID: blue.ID, Kind: fleet.CloudInit, CloudInit: &fleet.CloudInitForm{}}, "firstBoot.customizationId"},
		"no kind":                    {control.FirstBootInput{}, "firstBoot.kind"},
	} {
		boot := c.boot
		_, err := s.CreateVM(ctx, s.member, control.CreateVM{ProjectID: s.red, Name: "web", HostID: s.h1, Spec: smallSpec, FirstBoot: &boot})
		if wantField(t, err, c.field); t.Failed() {
			t.Fatal(what)
		}
		if boot.Kind == "" && boot.CustomizationID == "" {
			continue
		}
		if _, _, err := s.SetFirstBoot(ctx, s.member, vm.ID, boot); err == nil {
			t.Errorf("%s: accepted for an existing VM", what)
		}
	}
	if n := s.countRows(`vms WHERE name = 'web'`); n != 0 {
		t.Errorf("%d VMs were made", n)
	}
	if n := s.countRows(`first_boots WHERE number = 1`); n != 1 {
		t.Errorf("%d first boots are the first", n)
	}

	spec := smallSpec
	spec.FirstBoot = fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 7}
	_, err = s.CreateVM(ctx, s.member, control.CreateVM{ProjectID: s.red, Name: "web", HostID: s.h1, Spec: spec})
	wantField(t, err, "spec.firstBoot")
	spec = vm.Spec
	spec.FirstBoot.Number = 9
	_, _, err = s.UpdateVM(ctx, s.member, vm.ID, control.UpdateVM{Spec: &spec})
	wantField(t, err, "spec.firstBoot")
	spec.FirstBoot = fleet.VMFirstBoot{}
	if got, _, err := s.UpdateVM(ctx, s.member, vm.ID, control.UpdateVM{Spec: &spec}); err != nil || got.Spec.FirstBoot.Kind != "" {
		t.Errorf("an edit that removes the first-boot data: %v", err)
	}
	if n := s.countRows(`first_boots`); n != 0 {
		t.Errorf("%d rows of removed first-boot data remain", n)
	}
}

// A customization spec is used by VMs of its project, or of all projects if it is fleet-wide and published to all. Each VM gets its own values.
// Later changes of the spec do not affect existing VMs.
func TestCustomizationSpecServesManyVMs(t *testing.T) {
	s := newSealedFixture(t)
	ctx := t.Context()
	in := control.CustomizationInput{Name: "web", Public: true, FirstBoot: fleet.FirstBoot{Kind: fleet.CloudConfig, UserData: "#cloud-config\nhostname: \"{{vm.name}}\"\nruncmd: [\"echo {{var.color}} {{vm.index}} " + testPoolSecret + "\"]\n"}}
	if _, err := s.CreateCustomization(ctx, s.member, in); fleet.CodeOf(err) != fleet.Forbidden {
		t.Errorf("a member creates a fleet-wide spec: %v", err)
	}
	spec, err := s.CreateCustomization(ctx, chief, in)
	if err != nil || !slices.Equal(spec.Variables, []string{"color"}) || spec.FirstBoot == nil {
		t.Fatalf("made: %+v, %v", spec, err)
	}
	if _, err := s.CreateCustomization(ctx, chief, in); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("made twice: %v", err)
	}
	if at := s.tablesContaining(testPoolSecret); at != "" {
		t.Errorf("the spec's content is in %s", at)
	}
	seen, err := s.GetCustomization(ctx, s.member, spec.ID)
	if err != nil || seen.FirstBoot != nil || seen.Name != "web" {
		t.Errorf("a viewer of the spec sees %+v, %v", seen, err)
	}
	vm := s.vmWithFirstBoot("web-07", &control.FirstBootInput{CustomizationID: spec.ID, Variables: map[string]string{"color": "red: [x]"}})
	files, err := s.firstBootFiles(s.h1, vm)
	if err != nil || !strings.Contains(files["user-data"], `"echo red: [x] 7 `+testPoolSecret) || !strings.Contains(files["user-data"], `"web-07"`) {
		t.Errorf("the guest gets %s, %v", files["user-data"], err)
	}

	in.FirstBoot, in.IfGeneration = hostnameContent("other"), spec.Generation
	if changed, err := s.UpdateCustomization(ctx, chief, spec.ID, in); err != nil || changed.Generation != 2 || changed.Kind != fleet.CloudInit {
		t.Errorf("changed: %+v, %v", changed, err)
	}
	if _, err := s.UpdateCustomization(ctx, chief, spec.ID, in); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("a change with a stale generation: %v", err)
	}
	if now, err := s.firstBootFiles(s.h1, vm); err != nil || now["user-data"] != files["user-data"] {
		t.Errorf("the VM created from the spec gets %s, %v", now["user-data"], err)
	}
	own := s.red
	red, err := s.CreateCustomization(ctx, s.member, control.CustomizationInput{ProjectID: own, Name: "web", FirstBoot: hostnameContent("a")})
	if err != nil {
		t.Fatal(err)
	}
	for who, want := range map[*fleet.Actor]int{&s.member: 2, &s.blueMember: 1} {
		if all, err := s.ListCustomizations(ctx, *who); err != nil || len(all) != want {
			t.Errorf("%s sees %d, want %d: %v", who.Name, len(all), want, err)
		}
	}
	if err := s.DeleteCustomization(ctx, s.blueMember, red.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("a user of another project reads the spec: %v", err)
	}
	if err := s.DeleteCustomization(ctx, s.viewer, red.ID); fleet.CodeOf(err) != fleet.Forbidden {
		t.Errorf("a viewer deletes the spec: %v", err)
	}
	if err := s.DeleteCustomization(ctx, s.member, red.ID); err != nil {
		t.Error(err)
	}
}

func hostnameContent(hostname string) fleet.FirstBoot {
	return fleet.FirstBoot{Kind: fleet.CloudInit, CloudInit: &fleet.CloudInitForm{Hostname: hostname}}
}
