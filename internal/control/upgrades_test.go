package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/upgrades"
	"quantix/internal/fleet"
	"quantix/internal/release"
	"quantix/internal/wire"
)

// upgradeFixture has hosts that run version 1.0.0, and a portal that offers version 2.0.0.
type upgradeFixture struct {
	*hostFixture
	dir    string
	key    release.PrivateKey
	ann    fleet.Actor
	hosts  map[string]*upgradeHost // by name
	inTime int
}

type upgradeHost struct {
	fleet.Actor
	seq int64
}

func newUpgradeFixture(t *testing.T, hosts int) *upgradeFixture {
	s := &upgradeFixture{hostFixture: newHostFixture(t), dir: t.TempDir(), hosts: map[string]*upgradeHost{}}
	s.Control = control.New(s.pool, control.Options{Hub: s.hub, AgentReleases: s.dir})
	s.execSQL(`INSERT INTO users (id, name, role, password_hash) VALUES ('ann', 'ann', 'admin', '')`)
	s.ann = fleet.Actor{UserID: "ann", Name: "ann", Role: fleet.RoleAdmin, Address: "192.0.2.9"}
	var err error
	if s.key, _, err = release.NewKey(); err != nil {
		t.Fatal(err)
	}
	s.offer("2.0.0")
	for i := range hosts {
		name := fmt.Sprintf("host-%d", i+1)
		h := &upgradeHost{Actor: s.addHost(name)}
		s.hosts[name] = h
		s.hello(h)
		s.report(name, "1.0.0")
	}
	return s
}

func (s *upgradeFixture) offer(version string) { writeRelease(s.t, s.dir, s.key, version) }

// writeRelease writes a signed release for linux-amd64, with the content "program <version>".
func writeRelease(t *testing.T, dir string, key release.PrivateKey, version string) {
	t.Helper()
	on := release.Platform{OS: "linux", Arch: "amd64"}
	m, err := release.Sign(key, strings.NewReader("program "+version), version, on)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, release.FileName(version, on))
	if err := errors.Join(os.WriteFile(name, []byte("program "+version), 0o600), os.WriteFile(name+release.SignatureSuffix, sig, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func (s *upgradeFixture) hello(h *upgradeHost) {
	s.t.Helper()
	s.inTime++
	answer, err := s.Hello(s.t.Context(), h.Actor, wire.Hello{Instance: strconv.Itoa(s.inTime), Fingerprint: "here"})
	if err != nil {
		s.t.Fatal(err)
	}
	h.Session, h.seq = answer.Session, answer.SeqBase
}

// report reports the host's version.
func (s *upgradeFixture) report(name, version string) {
	s.t.Helper()
	h := s.hosts[name]
	h.seq++
	_, err := s.Report(s.t.Context(), h.Actor, wire.Report{Seq: h.seq, Digest: strconv.FormatInt(h.seq, 10), StateAgeMs: 1, State: &wire.State{Host: fleet.HostStatus{
		Connected: true, AgentVersion: version, Platform: "linux-amd64", Settings: &fleet.AgentSettings{UpgradeKeys: []string{s.key.Public().ID()}},
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *upgradeFixture) id(name string) fleet.HostID { return s.hosts[name].HostID }

// claim returns the host's jobs.
func (s *upgradeFixture) claim(name string) []wire.Work {
	s.t.Helper()
	claim, err := s.Claim(s.t.Context(), s.hosts[name].Actor, wire.ClaimRequest{Max: 8}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return claim.Jobs
}

// upgrade upgrades the host as its agent does: a trial reports first, then the new agent claims the job again.
func (s *upgradeFixture) upgrade(name, version string, out wire.Finish) {
	s.t.Helper()
	jobs := s.claim(name)
	if len(jobs) != 1 || jobs[0].Kind != fleet.HostAgentUpgrade || jobs[0].Args.Upgrade == nil || jobs[0].Args.Upgrade.Version != "2.0.0" {
		s.t.Fatalf("%s got %+v", name, jobs)
	}
	h := s.hosts[name]
	s.hello(h)
	s.report(name, version)
	jobs = s.claim(name)
	if len(jobs) != 1 {
		s.t.Fatalf("%s got %d jobs after its hello", name, len(jobs))
	}
	h.seq++
	out.Seq, out.Epoch = h.seq, jobs[0].Epoch
	if _, _, err := s.Finish(s.t.Context(), h.Actor, jobs[0].ID, out); err != nil {
		s.t.Fatal(err)
	}
}

func (s *upgradeFixture) passes() {
	s.t.Helper()
	for range 2 { // a pass lets hosts begin, and the next one begins them
		if err := errors.Join(s.AdvanceUpgrades(s.t.Context(), fleet.SystemActor), s.BeginTasks(s.t.Context(), fleet.SystemActor)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// soak lets the time pass for which canaries must stay online.
func (s *upgradeFixture) soak() {
	s.execSQL(`UPDATE tasks SET ended_at = ended_at - interval '2 minutes' WHERE kind = 'host.agent.upgrade' AND ended_at IS NOT NULL`)
}

func (s *upgradeFixture) order(canary string, others ...string) fleet.Task {
	s.t.Helper()
	in := upgrades.Order{AgentUpgrade: fleet.AgentUpgrade{Version: "2.0.0"}, Canaries: []fleet.HostID{s.id(canary)}}
	for _, name := range others {
		in.Hosts = append(in.Hosts, s.id(name))
	}
	task, err := s.UpgradeAgents(s.t.Context(), s.ann, in)
	if err != nil {
		s.t.Fatal(err)
	}
	return task
}

// states returns the state of each host's subtask, with its error.
func (s *upgradeFixture) states(task fleet.TaskID) map[string]string {
	s.t.Helper()
	text := queryValue[[]byte](s.hostFixture, `SELECT jsonb_object_agg(subject_name, state || CASE WHEN held THEN ' held' ELSE '' END || CASE WHEN error <> '' THEN ': ' || error ELSE '' END) FROM tasks WHERE parent_id = $1`, task)
	var out map[string]string
	if err := json.Unmarshal(text, &out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

func TestCanaryUpgradesFirstThenBatchesOfFive(t *testing.T) {
	s := newUpgradeFixture(t, 8)
	task := s.order("host-3", "host-1", "host-2", "host-4", "host-5", "host-6", "host-7", "host-8")
	if task.Title() != "Upgrade agent" || task.SubjectName != "8 hosts" || task.Steps == nil || task.Steps.Queued != 8 {
		t.Fatalf("the task is %+v", task)
	}
	s.passes()
	if n := len(s.claim("host-1")); n != 0 {
		t.Errorf("a host that is no canary got %d jobs", n)
	}
	s.upgrade("host-3", "2.0.0", wire.Finish{Outcome: wire.Done})
	s.passes()
	if got := s.states(task.ID); got["host-3"] != "done" || got["host-1"] != "queued held" {
		t.Errorf("before the canary has stayed online: %v", got)
	}
	s.soak()
	s.passes()
	got := s.states(task.ID)
	for i, name := range []string{"host-1", "host-2", "host-4", "host-5", "host-6", "host-7", "host-8"} {
		if want := map[bool]string{true: "queued", false: "queued held"}[i < 5]; got[name] != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
	for _, name := range []string{"host-1", "host-2", "host-4", "host-5"} {
		s.upgrade(name, "2.0.0", wire.Finish{Outcome: wire.Done})
	}
	s.passes()
	if got := s.states(task.ID); got["host-7"] != "queued held" {
		t.Errorf("a batch began before the last one ended: %v", got)
	}
	s.upgrade("host-6", "2.0.0", wire.Finish{Outcome: wire.Done})
	s.passes()
	for _, name := range []string{"host-7", "host-8"} {
		s.upgrade(name, "2.0.0", wire.Finish{Outcome: wire.Done})
	}
	if got, err := s.GetTask(t.Context(), s.ann, task.ID); err != nil || got.State != fleet.JobDone {
		t.Errorf("the task is %+v, %v", got, err)
	}
}

func TestFailureOfCanaryStopsOthers(t *testing.T) {
	for name, c := range map[string]struct {
		after func(*upgradeFixture)
		want  string
	}{
		"the upgrade fails": {func(s *upgradeFixture) {
			s.upgrade("host-1", "1.0.0", wire.Finish{Outcome: wire.Failed, Error: "The new agent did not report."})
		}, "Not started: the upgrade of host-1 failed."},
		"the agent lies": {func(s *upgradeFixture) {
			s.upgrade("host-1", "1.0.0", wire.Finish{Outcome: wire.Done})
		}, "Not started: the upgrade of host-1 failed."},
		"it goes offline": {func(s *upgradeFixture) {
			s.upgrade("host-1", "2.0.0", wire.Finish{Outcome: wire.Done})
			s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '2 minutes' WHERE host_id = $1`, s.id("host-1"))
		}, "Not started: host-1 went offline after its upgrade."},
		"it returns to the old version later": {func(s *upgradeFixture) {
			s.upgrade("host-1", "2.0.0", wire.Finish{Outcome: wire.Done})
			s.report("host-1", "1.0.0")
		}, "Not started: host-1 reports version 1.0.0 after its upgrade."},
		"it never returns": {func(s *upgradeFixture) {
			s.claim("host-1")
			s.execSQL(`UPDATE jobs SET started_at = now() - interval '31 minutes' WHERE kind = 'host.agent.upgrade'`)
		}, "Not started: the outcome of the upgrade of host-1 is unknown."},
		"it does not get the job": {func(s *upgradeFixture) {
			s.execSQL(`UPDATE jobs SET created_at = now() - interval '11 minutes' WHERE kind = 'host.agent.upgrade'`)
		}, "Not started: the upgrade of host-1 failed."},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUpgradeFixture(t, 3)
			task := s.order("host-1", "host-2", "host-3")
			s.passes()
			c.after(s)
			s.soak()
			s.passes()
			got := s.states(task.ID)
			for _, name := range []string{"host-2", "host-3"} {
				if got[name] != "cancelled: "+c.want {
					t.Errorf("%s is %q, want %q", name, got[name], c.want)
				}
				if n := len(s.claim(name)); n != 0 {
					t.Errorf("%s got %d jobs", name, n)
				}
			}
			if now, err := s.GetTask(t.Context(), s.ann, task.ID); err != nil || !now.State.IsFinal() || now.State == fleet.JobDone {
				t.Errorf("the task is %+v, %v", now, err)
			}
		})
	}
}

// A portal that restarts in the middle of an upgrade continues it.
func TestUpgradeContinuesOnAnotherPortal(t *testing.T) {
	s := newUpgradeFixture(t, 2)
	task := s.order("host-1", "host-2")
	s.passes()
	s.upgrade("host-1", "2.0.0", wire.Finish{Outcome: wire.Done})
	s.soak()
	s.Control = control.New(s.pool, control.Options{Hub: s.hub, AgentReleases: s.dir})
	s.passes()
	s.upgrade("host-2", "2.0.0", wire.Finish{Outcome: wire.Done})
	if got := s.states(task.ID); got["host-2"] != "done" {
		t.Errorf("the hosts are %v", got)
	}
}

func TestCancelledUpgradeStopsHostsThatHaveNotBegun(t *testing.T) {
	s := newUpgradeFixture(t, 3)
	task := s.order("host-1", "host-2", "host-3")
	s.passes()
	// While the new agent is tried, the job is queued again, and the host must finish it.
	s.claim("host-1")
	s.hello(s.hosts["host-1"])
	if _, err := s.CancelTask(t.Context(), s.ann, task.ID); err != nil {
		t.Fatal(err)
	}
	got := s.states(task.ID)
	if got["host-1"] != "queued" || got["host-2"] != "cancelled: Cancelled by ann." || got["host-3"] != "cancelled: Cancelled by ann." {
		t.Errorf("the hosts are %v", got)
	}
	child := queryValue[fleet.TaskID](s.hostFixture, `SELECT id FROM tasks WHERE parent_id = $1 AND subject_name = 'host-1'`, task.ID)
	_, err := s.CancelTask(t.Context(), s.ann, child)
	wantCode(t, err, fleet.Conflict)
	s.report("host-1", "2.0.0")
	s.upgrade("host-1", "2.0.0", wire.Finish{Outcome: wire.Done})
	if got := s.states(task.ID); got["host-1"] != "done" {
		t.Errorf("the hosts are %v", got)
	}
}

func TestUpgradeRefusedBeforehand(t *testing.T) {
	s := newUpgradeFixture(t, 2)
	request := func(version string) error {
		_, err := s.RequestAgentUpgrade(t.Context(), s.ann, s.id("host-1"), fleet.AgentUpgrade{Version: version})
		return err
	}
	refused := func(want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	refused("no release of version 3.0.0", request("3.0.0"))
	refused("Choose the version.", request("../2.0.0"))
	s.offer("0.9.0")
	refused("is older than the running version 1.0.0", request("0.9.0"))
	s.execSQL(`UPDATE hosts SET status = status || '{"settings":{"upgradeKeys":["0000000000000000"]}}' WHERE id = $1`, s.id("host-1"))
	refused("does not trust", request("2.0.0"))
	s.execSQL(`UPDATE hosts SET status = status || '{"settings":{}}' WHERE id = $1`, s.id("host-1"))
	refused("agent.yaml of host-1 does not allow it: set upgradeKeys.", request("2.0.0"))
	s.report("host-1", "2.0.0")
	refused("runs version 2.0.0 already", request("2.0.0"))
	s.report("host-1", "1.0.0")
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '2 minutes' WHERE host_id = $1`, s.id("host-1"))
	refused("The host is not online.", request("2.0.0"))
	order := func(canaries, hosts []fleet.HostID, soak int) error {
		_, err := s.UpgradeAgents(t.Context(), s.ann, upgrades.Order{AgentUpgrade: fleet.AgentUpgrade{Version: "2.0.0"}, Canaries: canaries, Hosts: hosts, SoakSeconds: soak})
		return err
	}
	one, two := []fleet.HostID{s.id("host-1")}, []fleet.HostID{s.id("host-2")}
	refused("host-1: The host is not online.", order(one, two, 0))
	refused("at least one host", order(nil, two, 0))
	refused("Name each host once.", order(two, two, 0))
	refused("10 seconds to 24 hours", order(two, nil, 1))
	s.report("host-1", "1.0.0")
	if err := request("2.0.0"); err != nil {
		t.Fatal(err)
	}
	refused("has an upgrade of its agent in progress already", request("2.0.0"))
	if n := queryValue[int](s.hostFixture, `SELECT count(*) FROM jobs WHERE kind = 'host.agent.upgrade'`); n != 1 {
		t.Errorf("%d jobs are queued, want 1", n)
	}
}

func TestReleaseSentOnlyToHostThatInstallsIt(t *testing.T) {
	s := newUpgradeFixture(t, 2)
	read := func(name, version, platform string) (string, error) {
		f, size, err := s.OpenRelease(t.Context(), s.hosts[name].Actor, version, platform)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		if int64(len(text)) != size {
			t.Errorf("%d bytes instead of %d", len(text), size)
		}
		return string(text), err
	}
	_, err := read("host-1", "2.0.0", "linux-amd64")
	wantCode(t, err, fleet.NotFound)
	if _, err := s.RequestAgentUpgrade(t.Context(), s.ann, s.id("host-1"), fleet.AgentUpgrade{Version: "2.0.0"}); err != nil {
		t.Fatal(err)
	}
	_, err = read("host-1", "2.0.0", "linux-amd64")
	wantCode(t, err, fleet.NotFound) // the host has not begun
	s.claim("host-1")
	if text, err := read("host-1", "2.0.0", "linux-amd64"); err != nil || text != "program 2.0.0" {
		t.Errorf("%q %v", text, err)
	}
	if m, err := s.ReleaseManifest(t.Context(), s.hosts["host-1"].Actor, "2.0.0", "linux-amd64"); err != nil || !strings.Contains(string(m.Manifest), s.key.Public().ID()) {
		t.Errorf("%s %v", m.Manifest, err)
	}
	for name, ask := range map[string][3]string{
		"another host": {"host-2", "2.0.0", "linux-amd64"}, "another version": {"host-1", "1.0.0", "linux-amd64"},
		"a path": {"host-1", "2.0.0", "../x"}, "no platform": {"host-1", "2.0.0", ""},
	} {
		if _, err := read(ask[0], ask[1], ask[2]); fleet.CodeOf(err) != fleet.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	program := filepath.Join(s.dir, "quantix-2.0.0-linux-amd64")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.Remove(program), os.Symlink(secret, program)); err != nil {
		t.Fatal(err)
	}
	if text, err := read("host-1", "2.0.0", "linux-amd64"); err == nil {
		t.Errorf("a link is followed: %q", text)
	}
}

func TestDamagedReleaseIsListedWithItsProblem(t *testing.T) {
	s := newUpgradeFixture(t, 0)
	s.offer("2.1.0")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("quantix-2.2.0-linux-amd64", "unsigned")
	write("quantix-2.3.0-linux-amd64", "program 2.1.0")
	sig, err := os.ReadFile(filepath.Join(s.dir, "quantix-2.1.0-linux-amd64.sig"))
	if err != nil {
		t.Fatal(err)
	}
	write("quantix-2.3.0-linux-amd64.sig", string(sig))
	write("quantix-2.4.0-linux-amd64", "other")
	write("quantix-2.4.0-linux-amd64.sig", "{")
	write("README", "not a release")
	offers, err := s.ListReleases(t.Context(), s.ann)
	if err != nil || len(offers) != 5 {
		t.Fatalf("%+v %v", offers, err)
	}
	for i, want := range []string{"cannot be offered", "is that of version 2.1.0", "no signature file", "", ""} {
		if o := offers[i]; (o.Problem == "") != (want == "") || !strings.Contains(o.Problem, want) {
			t.Errorf("%s: %q, want %q", o.Version, o.Problem, want)
		}
	}
	if got := strings.Join(release.Versions(offers), " "); got != "2.1.0 2.0.0" {
		t.Errorf("the versions are %s", got)
	}
}
