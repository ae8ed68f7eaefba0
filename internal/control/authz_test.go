package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/release"
	"quantix/internal/schedules"
)

// useCase describes one method in the table of use cases. permittedActors lists the actors by their names in
// authzFixture.actors; an actor marked "?" is not tested. args makes new arguments for each call: objects of project
// red, or objects that belong to mia.
type useCase struct {
	permittedActors string
	args            func(w *authzFixture) []any
	// badArgs returns arguments with bad credentials, for use cases that authenticate their caller.
	badArgs func(w *authzFixture) []any
}

// Lists of permitted actors. They specify the permissions independently of package policy.
const (
	everybody      = "nobody newcomer roleless blueMember viewer member watcher operator admin agent alien system"
	signedInActors = "newcomer roleless blueMember viewer member watcher operator admin system" // actors with an account
	// Actors with a role in at least one project. They also see objects that belong to no project, such as networks.
	actorsWithAnyRole     = "blueMember viewer member watcher operator admin system"
	actorsUsingAnyProject = "blueMember member operator admin system"
	actorsSeeingRed       = "viewer member watcher operator admin system"
	actorsUsingRed        = "member operator admin system"
	actorsSeeingInfra     = "watcher operator admin system"
	actorsChangingInfra   = "operator admin system"
	actorsManagingUsers   = "admin system"
	onlyMia               = "member"
	onlyPortal            = "system"
	allAgents             = "agent alien system?" // the portal never acts as a host
	onlyOwnAgent          = "agent system?"
)

// mergeCases joins several tables of use cases.
func mergeCases(parts ...map[string]useCase) map[string]useCase {
	all := map[string]useCase{}
	for _, part := range parts {
		for key, entry := range part {
			if _, twice := all[key]; twice {
				panic(key + " has two lines in the table of use cases")
			}
			all[key] = entry
		}
	}
	return all
}

// without removes names from a list.
func without(list string, names ...string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(list), func(n string) bool { return slices.Contains(names, n) }), " ")
}

// authzFixture is a projectFixture with an actor of every kind. viewer and member belong to project red; blueMember
// belongs only to project blue and has no role in project red.
type authzFixture struct {
	*projectFixture
	actors         map[string]fleet.Actor
	lastNumber     int
	releaseKey     string // ID of the key that signed the release 2.0.0
	firstReportSeq int64  // start of the report numbers of both agents' sessions, which start together
}

func newAuthzFixture(t *testing.T) *authzFixture {
	t.Helper()
	w := &authzFixture{projectFixture: newProjectFixture(t)}
	// Give the hosts enough capacity for the VMs of all entries.
	w.execSQL(`UPDATE hosts SET status = jsonb_set(jsonb_set(status, '{inventory,cpu,threads}', '256'), '{inventory,memoryBytes}', '1099511627776')`)
	w.Control = control.New(w.pool, control.Options{Hub: notify.NewHub(), AgentURL: "https://portal.example:8444", Vault: auth.NewVault(), AgentReleases: w.writeRelease()})
	w.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,memoryBytes}', '8796093022208')`)
	w.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'found-1', '{"power":"running"}')`, w.h1, discoveredVMID)
	newcomer := w.addUser("nina", fleet.RoleAdmin)
	newcomer.MustChangePassword = true
	w.actors = map[string]fleet.Actor{
		"nobody": anonymous, "newcomer": newcomer, "roleless": w.addUser("ron", fleet.RoleNone),
		"blueMember": w.blueMember, "viewer": w.viewer, "member": w.member, "watcher": w.addUser("wes", fleet.RoleViewer),
		"operator": w.addUser("olga", fleet.RoleOperator), "admin": chief,
		"agent": {HostID: w.h1, Name: "host h1"}, "alien": {HostID: w.h2, Name: "host h2"}, "system": fleet.SystemActor,
	}
	for name, a := range w.actors {
		if a.UserID != "" {
			a.Session = "session of " + name
			w.actors[name] = a
		}
	}
	return w
}

// writeRelease writes the release 2.0.0 of the agent to a new directory, and returns the directory.
func (w *authzFixture) writeRelease() string {
	dir := w.t.TempDir()
	key, _, err := release.NewKey()
	if err != nil {
		w.t.Fatal(err)
	}
	w.releaseKey = key.Public().ID()
	writeRelease(w.t, dir, key, "2.0.0")
	return dir
}

const discoveredVMID fleet.VMID = "0190f0f0-0000-7000-8000-0000000000f0"

// TestEveryUseCaseChecksItsPermission calls every exported method of control as every actor, with existing objects. It
// fails if a method has no entry, if an unlisted actor is permitted, or if a refused call changed something. It also
// fails if a result shows objects of project red to blueMember, who has no role in that project.
func TestEveryUseCaseChecksItsPermission(t *testing.T) {
	w := newAuthzFixture(t)
	v := reflect.ValueOf(w.Control)
	methods := map[string]bool{}
	for i := range v.NumMethod() {
		name := v.Type().Method(i).Name
		methods[name] = true
		entries := 0
		for key, entry := range useCases { // a method for several resource types has one entry per type
			if method, _, _ := strings.Cut(key, "/"); method != name {
				continue
			}
			entries++
			// Renew the hosts' reports, because the earlier entries may have taken longer than fleet.Freshness.
			w.execSQL(`UPDATE host_sessions SET seen_at = now(), last_look = NULL, blind_since = NULL`)
			w.checkCase(key, v.Method(i), entry)
		}
		if entries == 0 {
			t.Errorf("%s has no entry in the table of use cases: add its permitted actors and arguments", name)
		}
	}
	for key := range useCases {
		if name, _, _ := strings.Cut(key, "/"); !methods[name] {
			t.Errorf("%s has an entry in the table but is no method of Control", name)
		}
	}
}

// TestControlShadowsNoEmbeddedMethod checks that Control has each exported method of its embedded types. Go hides
// embedded methods of equal names, so the table of use cases would not test them.
func TestControlShadowsNoEmbeddedMethod(t *testing.T) {
	t.Parallel()
	facade, embedded := reflect.TypeFor[*control.Control](), 0
	for _, field := range reflect.VisibleFields(facade.Elem()) {
		if !field.Anonymous || len(field.Index) > 1 {
			continue
		}
		embedded++
		for method := range field.Type.Methods() {
			name := method.Name
			shown, ok := facade.MethodByName(name)
			if !ok {
				t.Errorf("two embedded types have the method %s, one of them is %s", name, field.Name)
				continue
			}
			if file, _ := runtime.FuncForPC(shown.Func.Pointer()).FileLine(shown.Func.Pointer()); file != "<autogenerated>" {
				t.Errorf("the method %s of %s is hidden by the one in %s", name, field.Name, file)
			}
		}
	}
	if embedded == 0 {
		t.Error("Control embeds no types")
	}
}

// checkCase calls the method as every actor. It first calls the method as each refused actor, all with the same
// objects, and checks that nothing changed. It then calls the method as each permitted actor, with new objects for
// each.
func (w *authzFixture) checkCase(name string, method reflect.Value, entry useCase) {
	w.t.Helper()
	may := strings.Fields(entry.permittedActors)
	args := entry.args(w)
	before := w.summarizeChanges()
	for who := range w.actors {
		if slices.Contains(may, who) || slices.Contains(may, who+"?") {
			continue
		}
		out, err := w.callUseCase(name, method, who, args)
		switch {
		case who == "alien" && fleet.CodeOf(err) == fleet.Conflict: // another host's job does not exist for the agent
		case !isRefusal(err):
			w.t.Errorf("%s permits %s: %v", name, who, err)
		case w.summarizeChanges() != before:
			w.t.Errorf("%s refuses %s after a change", name, who)
			before = w.summarizeChanges()
		case slices.ContainsFunc(out, func(x any) bool { return x != nil && !reflect.ValueOf(x).IsZero() && !isEmptyResult(x) }):
			w.t.Errorf("%s refuses %s with an answer: %+v", name, who, out)
		}
	}
	for who := range w.actors {
		if !slices.Contains(may, who) {
			continue
		}
		if entry.badArgs != nil {
			if _, err := w.callUseCase(name, method, who, entry.badArgs(w)); !isRefusal(err) {
				w.t.Errorf("%s permits %s with bad credentials: %v", name, who, err)
			}
		}
		out, err := w.callUseCase(name, method, who, entry.args(w))
		if err != nil {
			w.t.Errorf("%s refuses %s: %v", name, who, err)
		}
		if who == "blueMember" {
			w.checkHidesOtherProject(name, out)
		}
	}
}

// checkHidesOtherProject checks that the result for blueMember, a user of another project, names no object of project
// red and no domain of a host.
func (w *authzFixture) checkHidesOtherProject(name string, out []any) {
	w.t.Helper()
	text, err := json.Marshal(out)
	if err != nil {
		w.t.Errorf("%s: %v", name, err)
	}
	for _, secret := range []string{string(w.red), `"red`, "found-1", string(discoveredVMID)} {
		if strings.Contains(string(text), secret) {
			w.t.Errorf("%s reveals %q to a member of another project: %s", name, secret, text)
		}
	}
}

func isEmptyResult(x any) bool {
	v := reflect.ValueOf(x)
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

func isRefusal(err error) bool {
	switch fleet.CodeOf(err) {
	case fleet.Unauthorized, fleet.Forbidden, fleet.NotFound:
		return true
	}
	return false
}

// summarizeChanges returns a summary of everything that a use case can change: audit lines, queued jobs and reported
// state.
func (w *authzFixture) summarizeChanges() string {
	return fmt.Sprint(w.countRows("audit"), w.countRows("jobs"), w.countRows("tasks"), w.countRows("jobs WHERE state = 'running'"), w.countRows("vms WHERE generation > 1"), w.countRows("host_sessions WHERE session IS NOT NULL"))
}

// callUseCase calls the method as the named actor and returns its results without the error.
func (w *authzFixture) callUseCase(name string, method reflect.Value, who string, args []any) (out []any, err error) {
	w.t.Helper()
	kind := method.Type()
	if kind.NumIn() < 2 || kind.In(1) != reflect.TypeFor[fleet.Actor]() {
		w.t.Fatalf("%s does not take the actor second", name)
	}
	if kind.NumIn() != 2+len(args) {
		w.t.Fatalf("%s takes %d arguments after the actor, its entry has %d", name, kind.NumIn()-2, len(args))
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	in := []reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(w.actors[who])}
	for i, arg := range args {
		v := reflect.ValueOf(arg)
		if !v.Type().AssignableTo(kind.In(i + 2)) {
			w.t.Fatalf("%s takes a %s as argument %d, its entry has a %s", name, kind.In(i+2), i+1, v.Type())
		}
		in = append(in, v)
	}
	answers := method.Call(in)
	last := len(answers) - 1
	for _, a := range answers[:last] {
		out = append(out, a.Interface())
	}
	err, _ = reflect.TypeAssert[error](answers[last])
	return out, err
}

// The functions below make the arguments of the use cases.

func (w *authzFixture) uniqueName(prefix string) string {
	w.lastNumber++
	return fmt.Sprintf("%s-%d", prefix, w.lastNumber)
}

// redSecurityGroup returns a new security group of project red.
func (w *authzFixture) redSecurityGroup() fleet.SecurityGroupID {
	id := fleet.NewID[fleet.SecurityGroupID]()
	w.execSQL(`INSERT INTO security_groups (id, project_id, name, spec) VALUES ($1, $2, $3, '{"rules":[]}')`, id, w.red, w.uniqueName("group"))
	return id
}

// vmWithNIC returns a VM with a NIC.
func (w *authzFixture) vmWithNIC() fleet.VMID {
	id := w.vm()
	w.lastNumber++
	w.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('mac', $2::text))) WHERE id = $1`, id, fmt.Sprintf("52:54:00:00:%02x:%02x", w.lastNumber/256%256, w.lastNumber%256))
	return id
}

// plan returns the id of a plan that the member requested.
func (w *authzFixture) plan() fleet.PlanID {
	w.t.Helper()
	plan, err := w.PlanVM(w.t.Context(), w.actors["member"], w.vm(), control.UpdateVM{Labels: map[string]string{"a": "b"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.execSQL(`UPDATE vm_plans SET asked_at = now() - interval '1 minute' WHERE id = $1`, plan.ID) // no longer pending
	return plan.ID
}

func (w *authzFixture) vm() fleet.VMID {
	id := fleet.NewID[fleet.VMID]()
	w.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec, observed_generation, status)
		VALUES ($1, $2, $3, $4, '{"power":"running","cpus":1,"memoryMiB":128,"firmware":"bios","disks":[],"nics":[]}', 1, '{"power":"running","cpus":1,"memoryMiB":128}')`,
		id, w.red, w.h1, w.uniqueName("red"))
	return id
}

// vmWithPartlyMissingDisk returns a VM that is off. Its host reports one of its disks as missing, and drift in the
// number of vCPUs.
func (w *authzFixture) vmWithPartlyMissingDisk() (fleet.VMID, fleet.Volref) {
	id, disk := w.vm(), fleet.Volref{PoolID: w.nfs, Volume: w.uniqueName("lost") + ".qcow2"}
	w.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('power', 'stopped', 'disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', $3::text, 'sizeBytes', 1048576))),
		status = status || jsonb_build_object('power', 'stopped',
			'faults', jsonb_build_array(jsonb_build_object('code', 'disk', 'text', 'Disk 1 is not there.', 'disk', jsonb_build_object('poolId', $2::text, 'volume', $3::text))),
			'drift', '[{"field":"cpus","applied":"1 vCPU","actual":"2 vCPUs","take":2}]'::jsonb) WHERE id = $1`, id, string(disk.PoolID), disk.Volume)
	return id, disk
}

// vmWithDisk returns a VM of project red on h1 with an existing disk.
func (w *authzFixture) vmWithDisk() (fleet.VMID, fleet.Volref) {
	id, disk := w.vm(), fleet.Volref{PoolID: w.nfs, Volume: w.uniqueName("whole") + ".qcow2"}
	w.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', $3::text, 'sizeBytes', 1048576))) WHERE id = $1`,
		id, string(disk.PoolID), disk.Volume)
	return id, disk
}

// vmWithSchedule returns a VM of project red on h1 with a snapshot schedule.
func (w *authzFixture) vmWithSchedule() (fleet.VMID, schedules.ScheduleID) {
	w.t.Helper()
	id, _ := w.vmWithDisk()
	schedule, err := w.AddSnapshotSchedule(w.t.Context(), fleet.SystemActor, id, hourlySchedule)
	if err != nil {
		w.t.Fatal(err)
	}
	return id, schedule
}

// vmWithSnapshots returns a VM of project red on h1 with a snapshot and an overlay that can be merged.
func (w *authzFixture) vmWithSnapshots() (fleet.VMID, fleet.SnapshotID) {
	id, _ := w.vmWithDisk()
	snapshot := fleet.NewID[fleet.SnapshotID]()
	w.execSQL(`UPDATE vms SET status = status || jsonb_build_object('snapshots', jsonb_build_object('merges', 1, 'snapshots', jsonb_build_array(jsonb_build_object('id', $2::text, 'name', 'old')))) WHERE id = $1`,
		id, string(snapshot))
	return id, snapshot
}
