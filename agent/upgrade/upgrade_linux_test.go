package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/release"
)

// host is a directory with a program and an agent's data directory.
type host struct {
	t       *testing.T
	in      *Installer
	key     release.PrivateKey
	content string // of the offered program
	sig     []byte // of the offered program
	opened  int    // downloads of the program
}

// script is a program that prints its version, and runs body as an agent.
func script(version, body string) string {
	return "#!/bin/sh\nif [ \"$1\" = version ]; then echo 'quantix " + version + " (go, linux/amd64)'; exit; fi\n" + body + "\n"
}

const reportsWell = `echo '{"reported":true,"connected":true}' >&3`

func newHost(t *testing.T) *host {
	t.Helper()
	dir := t.TempDir()
	key, _, err := release.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, key: key, in: &Installer{
		Keys: []release.PublicKey{key.Public()}, Dir: filepath.Join(dir, "data"), Binary: filepath.Join(dir, "bin", "quantix"),
		Args: []string{"agent", "--name", "h1"}, Running: "1.0.0",
	}}
	for _, d := range []string{"data", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.write(h.in.Binary, script("1.0.0", "exit 7"))
	h.offer("2.0.0", script("2.0.0", reportsWell))
	return h
}

func (h *host) write(path, content string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil { //nolint:gosec // a program
		h.t.Fatal(err)
	}
}

func (h *host) offer(version, content string) {
	h.t.Helper()
	m, err := release.Sign(h.key, strings.NewReader(content), version, Platform())
	if err == nil {
		h.sig, err = m.Encode()
	}
	if h.content = content; err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) Manifest(context.Context, string, release.Platform) ([]byte, error) { return h.sig, nil }

func (h *host) Open(context.Context, string, release.Platform) (io.ReadCloser, error) {
	h.opened++
	return io.NopCloser(strings.NewReader(h.content)), nil
}

func (h *host) prepare(o Order) (*Prepared, error) {
	if o.Version == "" {
		o.Version = "2.0.0"
	}
	o.Job = "job-1"
	return h.in.Prepare(h.t.Context(), o, h, func(int, string) {})
}

// commit prepares the offered release and records its trial.
func (h *host) commit() {
	h.t.Helper()
	p, err := h.prepare(Order{})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := p.Commit(true); err != nil {
		h.t.Fatal(err)
	}
}

// runs checks the version of the program in place.
func (h *host) runs(version string) {
	h.t.Helper()
	out, err := exec.Command(h.in.Binary, "version").Output() //nolint:gosec // the test's program
	if err != nil || !strings.Contains(string(out), " "+version+" ") {
		h.t.Errorf("the program is %q, not version %s: %v", out, version, err)
	}
}

// noCandidate checks that no downloaded file is left.
func (h *host) noCandidate() {
	h.t.Helper()
	if _, err := os.Lstat(candidateOf(h.in.Binary)); !errors.Is(err, os.ErrNotExist) {
		h.t.Errorf("a downloaded program is left behind: %v", err)
	}
}

func TestRefusedReleaseLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*host)
		order    Order
		want     string
		download bool
	}{
		"no key": {change: func(h *host) { h.in.Keys = nil }, want: "set upgradeKeys"},
		"another key": {change: func(h *host) {
			key, _, _ := release.NewKey()
			h.in.Keys = []release.PublicKey{key.Public()}
		}, want: "does not trust"},
		"unreadable signature": {change: func(h *host) { h.sig = []byte("{") }, want: "cannot be verified"},
		"changed signature":    {change: func(h *host) { h.sig = bytes.Replace(h.sig, []byte(`"2.0.0"`), []byte(`"3.0.0"`), 1) }, want: "was changed"},
		"an older release under a newer name": {
			change: func(h *host) { h.offer("0.9.0", script("0.9.0", "")) }, want: "offers version 0.9.0",
		},
		"another platform": {change: func(h *host) {
			m, _ := release.Sign(h.key, strings.NewReader(h.content), "2.0.0", release.Platform{OS: "plan9", Arch: "mips"})
			h.sig, _ = m.Encode()
		}, want: "plan9-mips"},
		"a downgrade":           {change: func(h *host) { h.offer("0.9.0", script("0.9.0", "")) }, order: Order{Version: "0.9.0"}, want: "is older"},
		"the running version":   {change: func(h *host) { h.in.Running = "2.0.0" }, want: "already"},
		"a changed program":     {change: func(h *host) { h.content = strings.Replace(h.content, "echo", "ECHO", 1) }, want: "another program", download: true},
		"a cut program":         {change: func(h *host) { h.content = h.content[:10] }, want: "another program", download: true},
		"a longer program":      {change: func(h *host) { h.content += "x" }, want: "another program", download: true},
		"another version in it": {change: func(h *host) { h.offer("2.0.0", script("2.0.1", "")) }, want: "instead of version 2.0.0", download: true},
		"not a program":         {change: func(h *host) { h.offer("2.0.0", "garbage") }, want: "does not run on this host", download: true},
		"a program that fails":  {change: func(h *host) { h.offer("2.0.0", "#!/bin/sh\necho 'lacks libc' >&2; exit 3\n") }, want: "lacks libc", download: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			c.change(h)
			_, err := h.prepare(c.order)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q: %v", c.want, err)
			}
			if (h.opened > 0) != c.download {
				t.Errorf("the program was downloaded %d times", h.opened)
			}
			h.noCandidate()
			h.runs("1.0.0")
			if _, ok, _ := readRecord(h.in.Dir); ok {
				t.Error("a refused upgrade is recorded")
			}
		})
	}
}

func TestDowngradeInstalledIfAllowed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.offer("0.9.0", script("0.9.0", reportsWell))
	if _, err := h.prepare(Order{Version: "0.9.0", AllowDowngrade: true}); err != nil {
		t.Error(err)
	}
}

// The file must not be executable while its content is not verified.
func TestProgramNotExecutableBeforeVerification(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	var during os.FileMode
	source := readerFunc(func(p []byte) (int, error) {
		info, err := os.Stat(candidateOf(h.in.Binary))
		if err != nil {
			t.Error(err)
			return 0, io.EOF
		}
		during = info.Mode()
		return 0, io.EOF
	})
	m, err := release.ParseManifest(h.sig)
	if err != nil {
		t.Fatal(err)
	}
	if err := download(candidateOf(h.in.Binary), source, m); err == nil {
		t.Error("an empty program was accepted")
	}
	if during.Perm() != 0o600 {
		t.Errorf("the program has the mode %s during its download", during)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// The test needs root, because it mounts a small file system.
func TestFullDiskRefusesUpgradeAndLeavesAgentUnchanged(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	small := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a tmpfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(small, 0); err != nil {
			t.Error(err)
		}
	})
	h.in.Binary = filepath.Join(small, "quantix")
	h.write(h.in.Binary, script("1.0.0", ""))
	if _, err := h.prepare(Order{}); err == nil || !strings.Contains(err.Error(), "Free some space") || h.opened != 0 {
		t.Errorf("the download began although it does not fit: %v", err)
	}
	// Another process fills the disk after the check.
	m, err := release.ParseManifest(h.sig)
	if err != nil {
		t.Fatal(err)
	}
	m.SizeBytes = 1 << 20
	err = download(candidateOf(h.in.Binary), strings.NewReader(strings.Repeat("x", 1<<20)), m)
	if err == nil || !strings.Contains(err.Error(), small+" is full") {
		t.Errorf("a full disk: %v", err)
	}
	h.runs("1.0.0")
}

func TestSuccessfulTrialPutsNewProgramInPlace(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.offer("2.0.0", script("2.0.0", `echo "$@" > "$(dirname "$0")/args"; `+reportsWell))
	h.commit()
	h.runs("1.0.0")
	next, err := superviseTrial(t.Context(), h.in.Dir, io.Discard, time.Minute)
	if err != nil || next.Error != "" {
		t.Fatalf("%+v %v", next, err)
	}
	h.runs("2.0.0")
	h.noCandidate()
	if args, _ := os.ReadFile(filepath.Join(filepath.Dir(h.in.Binary), "args")); string(args) != "agent trial --name h1\n" {
		t.Errorf("the trial ran with %q", args)
	}
	if out, err := exec.Command(h.in.Binary+previousSuffix, "version").Output(); err != nil || !strings.Contains(string(out), "1.0.0") { //nolint:gosec // the test's program
		t.Errorf("the previous program is not kept: %s %v", out, err)
	}
	b, restored := begin(h.in.Dir, io.Discard)
	if restored != nil || !b.OnProbation() || b.Job() != "job-1" || b.Failure() != "" {
		t.Fatalf("the new agent begins as %+v, %+v", b, restored)
	}
	written := false
	if err := b.End(func() error { written = true; return nil }); err != nil || !written || b.OnProbation() {
		t.Errorf("the upgrade has not ended: %v", err)
	}
	if b, _ := begin(h.in.Dir, io.Discard); b != nil {
		t.Errorf("the next start finds the upgrade again: %+v", b)
	}
}

func TestFailedTrialReturnsToOldProgram(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, want string }{
		"it crashes":                       {"echo 'panic: boom' >&2; exit 2", "ended before it reported to the portal: exit status 2. It wrote: panic: boom"},
		"it is killed":                     {"kill -9 $$", "signal: killed"},
		"it ends without a report":         {"exit 0", "ended without a report"},
		"it hangs":                         {"echo waiting >&2; sleep 600", "did not report to the portal within 2s. It wrote: waiting"},
		"it hangs with a child":            {"sleep 600 & sleep 600", "did not report to the portal"},
		"it lies in garbage":               {"echo yes >&3; exit 0", "ended without a report"},
		"it fails after its report":        {reportsWell + "; exit 4", "did not end its trial: exit status 4"},
		"it does not end":                  {reportsWell + "; sleep 600", "did not end its trial"},
		"it does not reach the hypervisor": {`echo '{"reported":true,"error":"no libvirt"}' >&3`, "does not reach the hypervisor: no libvirt"},
		"it writes without end":            {"yes flood >&2", "did not report to the portal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.offer("2.0.0", script("2.0.0", c.body))
			h.commit()
			next, err := superviseTrial(t.Context(), h.in.Dir, io.Discard, 2*time.Second)
			if err != nil || !strings.Contains(next.Error, c.want) || len(next.Error) > 2*maxReasonBytes {
				t.Errorf("want %q: %+v %v", c.want, next.Error, err)
			}
			if next.Binary != h.in.Binary || fmt.Sprint(next.Args) != "[agent --name h1]" {
				t.Errorf("the next process is %s %v", next.Binary, next.Args)
			}
			h.runs("1.0.0")
			h.noCandidate()
			b, restored := begin(h.in.Dir, io.Discard)
			if restored != nil || b.OnProbation() || b.Failure() != next.Error {
				t.Errorf("the old agent begins as %+v, %+v", b, restored)
			}
		})
	}
}

func TestChangedCandidateIsNotRun(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.commit()
	h.write(candidateOf(h.in.Binary), script("2.0.0", reportsWell+"; touch "+h.in.Dir+"/ran"))
	if next, err := superviseTrial(t.Context(), h.in.Dir, io.Discard, time.Minute); err != nil || !strings.Contains(next.Error, "was changed or removed") {
		t.Errorf("%+v %v", next, err)
	}
	if _, err := os.Stat(h.in.Dir + "/ran"); err == nil {
		t.Error("the changed program ran")
	}
	h.runs("1.0.0")
}

// The service manager stops the host's agent during the trial.
func TestStoppedSupervisorEndsTrial(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	started := filepath.Join(h.in.Dir, "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	h.offer("2.0.0", script("2.0.0", "echo $$ > "+started+"; exec sleep 600"))
	h.commit()
	ctx, cancel := context.WithCancel(t.Context())
	pid := 0
	go func() {
		text, _ := os.ReadFile(started)
		fmt.Sscan(string(text), &pid)
		cancel()
	}()
	if _, err := superviseTrial(ctx, h.in.Dir, io.Discard, time.Minute); err != nil {
		t.Fatal(err)
	}
	if pid == 0 || syscall.Kill(pid, 0) == nil {
		t.Errorf("the trial with pid %d still runs", pid)
	}
	b, _ := begin(h.in.Dir, io.Discard)
	if !strings.Contains(b.Failure(), "interrupted") {
		t.Errorf("the next start: %+v", b)
	}
	h.noCandidate()
	h.runs("1.0.0")
}

// A power loss between any two steps leaves a program that starts, and the next start knows the outcome.
func TestPowerLossBetweenSteps(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.commit()
	h.noRecordedFailure(t, "after the download", "interrupted", "1.0.0")

	h = newHost(t)
	h.commit()
	rec, _, _ := readRecord(h.in.Dir)
	rec.Phase = probation
	if err := rec.write(h.in.Dir); err != nil {
		t.Fatal(err)
	}
	h.noRecordedFailure(t, "before the replacement", "interrupted", "1.0.0")

	h = newHost(t)
	h.commit()
	if _, err := superviseTrial(t.Context(), h.in.Dir, io.Discard, time.Minute); err != nil {
		t.Fatal(err)
	}
	rec, _, _ = readRecord(h.in.Dir)
	rec.Phase, rec.Error = restored, "The new agent did not report."
	if err := rec.write(h.in.Dir); err != nil {
		t.Fatal(err)
	}
	if _, next := begin(h.in.Dir, io.Discard); next == nil { // the restoration is finished
		t.Error("the failed program keeps running")
	}
	h.noRecordedFailure(t, "before the restoration", "did not report", "1.0.0")
}

func (h *host) noRecordedFailure(t *testing.T, when, want, version string) {
	t.Helper()
	b, next := begin(h.in.Dir, io.Discard)
	if next != nil || !strings.Contains(b.Failure(), want) {
		t.Errorf("%s: %+v, %+v", when, b, next)
	}
	h.runs(version)
	h.noCandidate()
}

func TestPreviousProgramRestoredAfterStartsWithoutReport(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.commit()
	if _, err := superviseTrial(t.Context(), h.in.Dir, io.Discard, time.Minute); err != nil {
		t.Fatal(err)
	}
	for range maxStarts {
		if b, next := begin(h.in.Dir, io.Discard); next != nil || !b.OnProbation() {
			t.Fatalf("%+v, %+v", b, next)
		}
	}
	_, next := begin(h.in.Dir, io.Discard)
	if next == nil {
		t.Fatal("the new program is started again")
	}
	h.runs("1.0.0")
	if b, _ := begin(h.in.Dir, io.Discard); !strings.Contains(b.Failure(), "was started 3 times") {
		t.Errorf("the restored agent begins as %+v", b)
	}
}

func TestPreviousProgramRestoredWithoutReportInTime(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.commit()
	if _, err := superviseTrial(t.Context(), h.in.Dir, io.Discard, time.Minute); err != nil {
		t.Fatal(err)
	}
	b, _ := begin(h.in.Dir, io.Discard)
	if next := b.restoreAtLimit(t.Context(), time.Millisecond, io.Discard); next == nil || next.Binary != h.in.Binary {
		t.Errorf("the previous program is not started: %+v", next)
	}
	h.runs("1.0.0")
	if err := b.End(func() error { t.Error("a late report ends the upgrade"); return nil }); err != nil {
		t.Error(err)
	}
	if b, _ := begin(h.in.Dir, io.Discard); !strings.Contains(b.Failure(), "did not report to the portal within") {
		t.Errorf("the restored agent begins as %+v", b)
	}
}

func TestUnreadableRecordDoesNotStopAgent(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.write(filepath.Join(h.in.Dir, RecordFile), "{")
	var log bytes.Buffer
	if b, next := begin(h.in.Dir, &log); b != nil || next != nil || !strings.Contains(log.String(), "record") {
		t.Errorf("%+v %+v %s", b, next, log.String())
	}
}
