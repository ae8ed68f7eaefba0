package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

// projectFixture is an identityFixture with projects red and blue, and online hosts h1 and h2. Both hosts have the
// shared pool "nfs", with a published image and ISO, and the network "default". h1 also has the local pool "local". Pools
// and the network are published to all projects. The hosts have no agents; tests write the hosts' reports to the database.
type projectFixture struct {
	*identityFixture
	red, blue      fleet.ProjectID
	h1, h2         fleet.HostID
	nfs, local     fleet.PoolID
	member, viewer fleet.Actor // of project red
	blueMember     fleet.Actor // a member of project blue, without a role in project red
	lastReportSeq  int64       // number of the last agent report
}

func newProjectFixture(t *testing.T) *projectFixture {
	t.Helper()
	s := &projectFixture{identityFixture: newIdentityFixture(t)}
	testkit.KeepOnline(t, s.pool)
	s.red, s.blue = s.createProject("red"), s.createProject("blue")
	s.h1, s.h2 = s.addHostWithMemory("h1", 16384), s.addHostWithMemory("h2", 8192)
	s.nfs = s.addPool("nfs", `{"kind":"nfs","path":"/mnt/nfs","server":"nas","export":"/vm","shared":true}`, s.h1, s.h2)
	s.local = s.addPool("local", `{"kind":"dir","path":"/srv/vm","shared":false}`, s.h1)
	network := fleet.NewID[fleet.NetworkID]()
	s.execSQL(`INSERT INTO networks (id, name, kind) VALUES ($1, 'default', 'libvirt')`, network)
	s.execSQL(`INSERT INTO network_grants (network_id) VALUES ($1)`, network)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', $1, id, '{"active":true,"bridge":"virbr0"}' FROM hosts`, network)
	s.member, s.viewer, s.blueMember = s.addProjectMember("mia", s.red, fleet.RoleMember), s.addProjectMember("vic", s.red, fleet.RoleViewer), s.addProjectMember("sam", s.blue, fleet.RoleMember)
	return s
}

// agentSession starts a session of the host's agent.
func (s *projectFixture) agentSession(id fleet.HostID) fleet.Actor {
	s.t.Helper()
	a := fleet.Actor{HostID: id, Name: "host " + string(id)}
	answer, err := s.Hello(s.t.Context(), a, wire.Hello{Instance: "one", Fingerprint: string(id)})
	if err != nil {
		s.t.Fatal(err)
	}
	a.Session, s.lastReportSeq = answer.Session, answer.SeqBase
	return a
}

func (s *projectFixture) createProject(name string) fleet.ProjectID {
	id := fleet.NewID[fleet.ProjectID]()
	s.execSQL(`INSERT INTO projects (id, name) VALUES ($1, $2)`, id, name)
	return id
}

func (s *projectFixture) addProjectMember(name string, project fleet.ProjectID, role fleet.Role) fleet.Actor {
	a := s.addUser(name, fleet.RoleNone)
	a.Projects, a.Session = map[fleet.ProjectID]fleet.Role{project: role}, "session of "+name
	return a
}

func (s *projectFixture) addHostWithMemory(name string, memoryMiB int64) fleet.HostID {
	id := fleet.NewID[fleet.HostID]()
	s.execSQL(`INSERT INTO hosts (id, name, status) VALUES ($1, $2, jsonb_build_object('connected', true, 'hypervisor', 'libvirt', 'inventory',
		jsonb_build_object('memoryBytes', $3::bigint << 20, 'migratesLive', true, 'firmwares', jsonb_build_array('bios', 'uefi'), 'cpu', jsonb_build_object('threads', 8))))`, id, name, memoryMiB)
	s.execSQL(`INSERT INTO host_sessions (host_id, seen_at) VALUES ($1, now())`, id)
	return id
}

const volumesJSON = `[{"name":"debian.qcow2","path":"/v/debian.qcow2","format":"qcow2","capacityBytes":2147483648},
	{"name":"cd.iso","path":"/v/cd.iso","format":"iso","capacityBytes":1000}]`

// addPool adds a pool that is published to all projects.
func (s *projectFixture) addPool(name, spec string, hosts ...fleet.HostID) fleet.PoolID {
	id := fleet.NewID[fleet.PoolID]()
	s.execSQL(`INSERT INTO pools (id, name, spec) VALUES ($1, $2, $3)`, id, name, spec)
	s.execSQL(`INSERT INTO pool_grants (pool_id, granted_by) VALUES ($1, 'chief')`, id)
	for _, h := range hosts {
		s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at)
			VALUES ('pool', $1, $2, 'assign', jsonb_build_object('state', 'active', 'capacityBytes', 1000::bigint << 30, 'usedBytes', 100::bigint << 30, 'availableBytes', 900::bigint << 30, 'volumes', $3::jsonb), 1, now())`, id, h, volumesJSON)
	}
	for volume, format := range map[string]string{"debian.qcow2": "qcow2", "cd.iso": "iso"} {
		s.publishImage(id, hosts, volume, format, map[string]int64{"qcow2": 2147483648, "iso": 1000}[format])
	}
	return id
}

// publishedName returns the name of an image made by publishImage. In the name, '+' replaces the letters of the pool's
// id, so that a search for letters does not match the id.
func publishedName(volume string, pool fleet.PoolID) string {
	return volume + " of " + strings.Map(func(r rune) rune {
		if r >= 'a' {
			return '+'
		}
		return r
	}, string(pool))
}

// publishImage makes a volume of the pool an image published to every project, with a copy on each host.
func (s *projectFixture) publishImage(pool fleet.PoolID, hosts []fleet.HostID, volume, format string, capacity int64) (fleet.ImageID, fleet.ImageVersionID) {
	s.t.Helper()
	image, version := fleet.NewID[fleet.ImageID](), fleet.NewID[fleet.ImageVersionID]()
	s.execSQL(`INSERT INTO images (id, name, created_by) VALUES ($1, $2, 'chief')`, image, publishedName(volume, pool))
	s.execSQL(`INSERT INTO image_versions (id, image_id, number, format, capacity_bytes, created_by) VALUES ($1, $2, 1, $3, $4, 'chief')`, version, image, format, capacity)
	s.execSQL(`INSERT INTO image_copies (version_id, pool_id, host_id, volume, added_by)
		SELECT DISTINCT $1::text, p.id, CASE WHEN NOT (p.spec->>'shared')::boolean THEN h END, $3::text, 'chief' FROM pools p, unnest($4::text[]) h WHERE p.id = $2`, version, pool, volume, hosts)
	s.execSQL(`INSERT INTO image_grants (image_id, granted_by) VALUES ($1, 'chief')`, image)
	return image, version
}

func (s *projectFixture) countRows(table string) int {
	var n int
	if err := s.pool.QueryRow(s.t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// stateSummary returns a summary of everything that a refused request must not change.
func (s *projectFixture) stateSummary() string {
	return fmt.Sprint(s.countRows("vms"), s.countRows("jobs"), s.countRows("audit"), s.countRows("pools"), s.countRows("assignments WHERE asked = 'assign'"), s.countRows("idempotency"),
		s.countRows("hosts"), s.countRows("console_tickets"), s.countRows("vms WHERE generation > 1"))
}

// wantRefused calls the request do, checks the code and the text of its error, and checks that it wrote nothing. name
// describes the request in failures.
func (s *projectFixture) wantRefused(name string, code fleet.ErrorCode, says string, do func() error) {
	s.t.Helper()
	before := s.stateSummary()
	err := do()
	if fleet.CodeOf(err) != code || !strings.Contains(fmt.Sprint(err), says) {
		s.t.Errorf("%s: %q %v, want %q with the text %q", name, fleet.CodeOf(err), err, code, says)
	}
	if after := s.stateSummary(); after != before {
		s.t.Errorf("%s wrote something: %s before, %s after", name, before, after)
	}
}

// createVM creates a VM in project red on h1 and writes the host's report that the VM has the given power state.
func (s *projectFixture) createVM(name string, power fleet.Power) fleet.VMView {
	s.t.Helper()
	v, err := s.CreateVM(s.t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: smallSpec, Start: power == fleet.Running})
	if err != nil {
		s.t.Fatal(err)
	}
	s.execSQL(`DELETE FROM tasks WHERE subject = $1 AND kind = 'vm.start'`, fleet.SubjectVM(v.ID))
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(v.ID))
	s.reportPower(v.ID, power)
	return s.getVM(v.ID)
}

// reportPower writes the host's report that the VM has the given power state at its newest generation.
func (s *projectFixture) reportPower(id fleet.VMID, power fleet.Power) {
	s.t.Helper()
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = jsonb_build_object('power', $2::text, 'cpus', 1, 'memoryMiB', 256) WHERE id = $1`, id, power)
}

func (s *projectFixture) getVM(id fleet.VMID) fleet.VMView {
	s.t.Helper()
	v, err := s.GetVM(s.t.Context(), chief, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// jobList lists a subject's tasks as "kind state", oldest first.
func (s *projectFixture) jobList(subject fleet.Subject) string {
	s.t.Helper()
	var all string
	err := s.pool.QueryRow(s.t.Context(), `SELECT COALESCE(string_agg(kind || ' ' || state, ', ' ORDER BY id), '') FROM tasks WHERE subject = $1`, subject).Scan(&all)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// editedSpec returns an update with the complete spec of v, changed by f.
func editedSpec(v fleet.VMView, f func(*fleet.VMSpec)) control.UpdateVM {
	f(&v.Spec)
	return control.UpdateVM{Spec: &v.Spec}
}

var smallSpec = fleet.VMSpec{CPUs: 1, MemoryMiB: 256}
