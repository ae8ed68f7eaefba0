package agent_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantix/agent"
	"quantix/agent/diagnose"
	"quantix/agent/logtail"
	"quantix/agent/mock"
	"quantix/internal/config"
	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
	"quantix/internal/wire"
)

func hostCommandWork(kind fleet.JobKind, epoch int64, args fleet.JobArgs) wire.Work {
	return wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: kind, Subject: fleet.SubjectHost("01890000-0000-7000-8000-000000000001"), Epoch: epoch, Args: args}
}

// runCommand runs a job about the host and returns its result and its archive.
func (p *portal) runCommand(w wire.Work) (finish, hostcommand.Summary, []byte) {
	p.t.Helper()
	p.queueJob(w)
	f := p.waitResult(w.ID)
	p.mu.Lock()
	archive := p.artifacts[w.ID]
	p.mu.Unlock()
	if archive == nil {
		return f, hostcommand.Summary{}, nil
	}
	summary, err := hostcommand.CheckArchive(archive)
	if err != nil {
		p.t.Fatalf("the archive of %s: %v", w.Kind, err)
	}
	return f, summary, archive
}

// startAgentWith starts an agent with these options over the host.
func (p *portal) startAgentWith(dir string, host *mock.Host, o agent.Options) (stop func()) {
	p.t.Helper()
	id, err := agent.OpenIdentity(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	o.Identity, o.Hypervisor, o.Inventory, o.NICs, o.Load, o.Version = id, host, host.Inventory, host.NICs, host.Load, "1.0"
	if o.Client, err = id.Client(""); err != nil {
		p.t.Fatal(err)
	}
	a, err := agent.NewWithShortTimes(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.waitHello(id, func(ctx context.Context) {
		if err := a.Run(ctx); err != nil {
			p.t.Errorf("run: %v", err)
		}
		o.Client.Close()
	})
}

// TestArchivesHaveNoSecrets puts texts with CANARY everywhere where a secret can be, and looks for them in the archives.
func TestArchivesHaveNoSecrets(t *testing.T) {
	t.Setenv("QUANTIX_TEST_PASSWORD", "CANARY-environment")
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	dir := p.join()
	file := filepath.Join(t.TempDir(), "agent.yaml")
	yaml := "# password: CANARY-comment\nname: host-1\nlabels: {password: CANARY-label, rack: r4}\nmetricsToken: /etc/CANARY-token-file\nportal: https://portal.example:8444\n"
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.LoadAgent(nil, nil, file)
	if err != nil {
		t.Fatal(err)
	}
	tail := logtail.New(hostcommand.MaxLogLines, hostcommand.MaxLogBytes)
	log := slog.New(tail.Handler(slog.DiscardHandler))
	const poolSecret = "CANARY-chap \"secret\"+/="
	p.update(func() { p.secret = poolSecret })
	site := siteWith(t, "leaky", "#!/bin/sh\nenv; cat '"+filepath.Join(dir, "host.key")+"'; echo 'token: CANARY-site'; echo '"+p.token+"'\n")
	p.startAgentWith(dir, host, agent.Options{
		Log: log, LogTail: tail, Site: site, ShowSettings: cfg.Show,
		Diagnostics: append(diagnose.MachineItems(), diagnose.Item{Name: "url", Title: "A URL", Read: diagnose.Text(func(context.Context) (string, error) {
			return "https://anna:CANARY-url@example.org/", fmt.Errorf("login failed: password=CANARY-reason")
		})}),
	})

	// The agent gets a pool's secret and a guest's password, and the log repeats them.
	pool := &fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: "san", Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolISCSI, Portal: "san.example", Target: "iqn.2026-01.org.example:vms", User: "host-1"}}
	apply := wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: fleet.PoolApply, Subject: fleet.SubjectPool(pool.ID), Epoch: 1, Generation: 1, Pool: pool}
	p.queueJob(apply)
	p.waitResult(apply.ID)
	vm := newVM("web")
	start := wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: fleet.VMStart, Subject: fleet.SubjectVM(vm.ID), Epoch: 1, Generation: 1, VM: vm}
	p.queueJob(start)
	p.waitResult(start.ID)
	p.update(func() { p.secret = "CANARY-guest-password" })
	password := wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: fleet.VMPassword, Subject: fleet.SubjectVM(vm.ID), Epoch: 2, VM: vm, Args: fleet.JobArgs{Guest: &fleet.GuestParams{User: "root"}}}
	p.queueJob(password)
	if f := p.waitResult(password.ID); f.Outcome != wire.Done {
		t.Fatalf("the password was not set: %+v", f)
	}
	log.Error("libvirt failed", "error", "cannot log in with "+poolSecret, "url", "iscsi://u:CANARY-log@san/", "password", "CANARY-attribute")
	log.Error("unexpected answer CANARY-guest-password", "key", "-----BEGIN PRIVATE KEY-----\nCANARYKEY\n-----END PRIVATE KEY-----\n", "token", "qx_CANARYabcdefgh")
	log.Info("a line that stays")

	key, err := os.ReadFile(filepath.Join(dir, "host.key"))
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{"CANARY", "qxj_"}
	for line := range strings.Lines(string(key)) {
		if !strings.HasPrefix(line, "-----") {
			secrets = append(secrets, strings.TrimSpace(line))
		}
	}
	for i, w := range []wire.Work{hostCommandWork(fleet.HostDiagnose, 1, fleet.JobArgs{Diagnose: []string{"leaky"}}), hostCommandWork(fleet.HostAgentLog, 2, fleet.JobArgs{})} {
		f, summary, archive := p.runCommand(w)
		if f.Outcome != wire.Done || archive == nil {
			t.Fatalf("%s ended %+v", w.Kind, f)
		}
		var all strings.Builder
		fmt.Fprintf(&all, "%+v", summary)
		for _, item := range summary.Items {
			text, err := hostcommand.ItemText(archive, item.Name)
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(text)
		}
		found := all.String()
		for _, secret := range secrets {
			if at := strings.Index(found, secret); at >= 0 {
				t.Errorf("%s: the archive has a secret: …%s…", w.Kind, found[max(0, at-100):min(len(found), at+100)])
			}
		}
		for _, kept := range [][]string{{"a line that stays", "rack", "Version:", "web", "site-leaky", "LC_ALL=C"}, {"a line that stays"}}[i] {
			if !strings.Contains(found, kept) {
				t.Errorf("%s: the archive lacks %q", w.Kind, kept)
			}
		}
	}
}

// siteWith returns a directory of diagnostics with one executable.
func siteWith(t *testing.T, name, text string) diagnose.Site {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("diagnostics of the site must be owned by root")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // an executable
		t.Fatal(err)
	}
	return diagnose.Site{Dir: dir}
}

func TestDiagnosticsListEveryItemAndReportSiteNames(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	p.startAgentWith(p.join(), host, agent.Options{
		Site:        siteWith(t, "raid", "#!/bin/sh\necho healthy\n"),
		Diagnostics: []diagnose.Item{{Name: "broken", Title: "Broken", Read: diagnose.Text(func(context.Context) (string, error) { return "", os.ErrPermission })}},
	})
	f, summary, archive := p.runCommand(hostCommandWork(fleet.HostDiagnose, 1, fleet.JobArgs{Diagnose: []string{"raid", "missing", "../raid"}}))
	if f.Outcome != wire.Done {
		t.Fatalf("the job ended %+v", f)
	}
	status := map[string]hostcommand.ItemStatus{}
	for _, i := range summary.Items {
		status[i.Name] = i.Status
	}
	for name, want := range map[string]hostcommand.ItemStatus{
		"agent": hostcommand.ItemOK, "settings": hostcommand.ItemSkipped, "jobs": hostcommand.ItemOK, "agent-log": hostcommand.ItemOK, "hypervisor": hostcommand.ItemOK,
		"domains": hostcommand.ItemOK, "pools": hostcommand.ItemOK, "networks": hostcommand.ItemOK, "broken": hostcommand.ItemFailed,
		"site-raid": hostcommand.ItemOK, "site-missing": hostcommand.ItemFailed,
	} {
		if status[name] != want {
			t.Errorf("the item %s is %q, want %q", name, status[name], want)
		}
	}
	if text, _ := hostcommand.ItemText(archive, "site-raid"); text != "healthy\n" || len(summary.Items) != 11 {
		t.Errorf("the text is %q; %d items", text, len(summary.Items))
	}
	p.waitUntil("a report of the commands and names", func() bool {
		return slices.ContainsFunc(p.reports, func(r wire.Report) bool {
			return r.State != nil && r.State.Host.Settings != nil && slices.Equal(r.State.Host.Settings.Diagnostics, []string{"raid"}) &&
				slices.Equal(r.State.Host.Settings.Commands, []fleet.JobKind{fleet.HostDiagnose, fleet.HostAgentLog})
		})
	})
}

func TestPortalWithoutArchivesIsNamed(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	p.update(func() { p.noArtifacts = 404 })
	w := hostCommandWork(fleet.HostAgentLog, 1, fleet.JobArgs{})
	if f, _, _ := p.runCommand(w); f.Outcome != wire.Failed || !strings.Contains(f.Error, "upgrade the portal") {
		t.Errorf("the job ended %+v", f)
	}
}

// TestRestartIsDoneOnlyOnceNextAgentHasConnected checks that the agent that restarts does not report the job's end.
func TestRestartIsDoneOnlyOnceNextAgentHasConnected(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	dir, requested := p.join(), make(chan struct{}, 4)
	start := func() (stop func()) {
		return p.startAgentWith(dir, host, agent.Options{Restart: func() { requested <- struct{}{} }})
	}
	stop := start()
	w := hostCommandWork(fleet.HostAgentRestart, 1, fleet.JobArgs{})
	p.queueJob(w)
	<-requested
	stop()
	p.mu.Lock()
	early := slices.ContainsFunc(p.finishes, func(f finish) bool { return f.ID == w.ID })
	p.mu.Unlock()
	if early {
		t.Error("the agent reported the restart as done before it restarted")
	}
	start()
	if f := p.waitResult(w.ID); f.Outcome != wire.Done {
		t.Errorf("the job ended %+v", f)
	}
	// The portal gives the job out again: the agent does not restart a second time.
	p.waitIdle()
	p.update(func() { p.finishes = nil })
	w.Epoch++
	p.queueJob(w)
	if f := p.waitResult(w.ID); f.Outcome != wire.Done || len(requested) != 0 {
		t.Errorf("the repeated job ended %+v, and the agent restarted %d times more", f, len(requested))
	}
}

func TestRestartRefusedWhileJobsRunUnlessForced(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), mock.New(mock.Options{Name: "host-1"})
	requested := make(chan struct{}, 4)
	p.startAgentWith(p.join(), host, agent.Options{Restart: func() { requested <- struct{}{} }})
	vm := newVM("web-" + mock.HangOnStart)
	hanging := wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: fleet.VMStart, Subject: fleet.SubjectVM(vm.ID), Epoch: 1, Generation: 1, VM: vm}
	p.queueJob(hanging)
	p.waitUntil("the running job", func() bool {
		return slices.ContainsFunc(p.reports, func(r wire.Report) bool { return len(r.Leases) > 0 })
	})
	if f, _, _ := p.runCommand(hostCommandWork(fleet.HostAgentRestart, 1, fleet.JobArgs{})); f.Outcome != wire.Failed || !strings.Contains(f.Error, "vm.start") {
		t.Errorf("the job ended %+v", f)
	}
	p.queueJob(hostCommandWork(fleet.HostAgentRestart, 2, fleet.JobArgs{Force: true}))
	<-requested
}

func TestRestartRefusedByAgentInsideAnotherProgram(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	if f, _, _ := p.runCommand(hostCommandWork(fleet.HostAgentRestart, 1, fleet.JobArgs{})); f.Outcome != wire.Failed || !strings.Contains(f.Error, "another program") {
		t.Errorf("the job ended %+v", f)
	}
}
