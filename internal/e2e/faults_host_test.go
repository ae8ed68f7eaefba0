//go:build linux && ordeal

package e2e

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/lab"
	"quantix/internal/pglocal"
)

// faultRig is a portal with its own PostgreSQL and one real libvirt host. The test may kill all of them.
type faultRig struct {
	extra, env   []string // additional arguments and environment of the agent
	agentProgram string   // the agent's program; empty: that of the portal

	t  *testing.T
	pg *pglocal.Server
	*portal
	host     *lab.Host
	name     string // name of the host
	cutProxy string // URL at which the agent reaches the portal
	dir      string // directory for the files of portal, PostgreSQL, host and agent
}

func newFaultRig(t *testing.T) *faultRig {
	r := newRigWithoutHost(t, "faulty", 20)
	r.joinHost()
	return r
}

// newRigWithoutHost returns a rig whose host has not joined. Different indexes give hosts different networks.
func newRigWithoutHost(t *testing.T, name string, index int) *faultRig {
	t.Helper()
	return newRigWithPortal(t, name, index, nil)
}

// newRigWithPortal works like newRigWithoutHost, with further environment variables and arguments of the portal.
func newRigWithPortal(t *testing.T, name string, index int, env []string, args ...string) *faultRig {
	t.Helper()
	r := &faultRig{t: t, name: name, dir: filepath.Join(root, uniqueName("rig"))}
	// PostgreSQL runs as another user, which must be able to enter the directory.
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.startPostgres()
	t.Cleanup(func() {
		r.signalPostgres(syscall.SIGCONT)
		ctx, cancel := context.WithTimeout(context.Background(), endLimit)
		defer cancel()
		if err := r.pg.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	r.portal = newPortalWithEnv(t, uniqueName("shaken"), env, append([]string{"--database-url", r.pg.URL()}, args...)...)
	r.cutProxy = r.agentURL
	r.startHost(name, index)
	return r
}

// startHost starts a real host in the rig's directory.
func (r *faultRig) startHost(name string, index int) {
	r.t.Helper()
	var err error
	r.host, err = lab.StartHost(r.t.Context(), lab.Options{Dir: filepath.Join(r.dir, "h"), Name: name, Index: index})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endLimit)
		defer cancel()
		if err := r.host.Stop(ctx); err != nil {
			r.t.Error(err)
		}
	})
}

func (r *faultRig) startPostgres() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), endLimit)
	defer cancel()
	var err error
	r.pg, err = pglocal.Start(ctx, pglocal.Options{Dir: filepath.Join(r.dir, "pg"), Unsafe: true, DieWithParent: true})
	if err != nil {
		r.t.Fatal(err)
	}
}

// joinHost joins the host with the agent's own join command, run on the host, and starts its agent.
func (r *faultRig) joinHost() {
	r.t.Helper()
	path, err := binary()
	if err != nil {
		r.t.Fatal(err)
	}
	token := requestJSON[fleet.JoinToken](r.t, r.api(), http.StatusCreated, http.MethodPost, "/api/v1/join-tokens", map[string]any{})
	join := r.host.Command(r.t.Context(), path, append([]string{"agent", "join", "--portal", r.cutProxy, "--token", token.Secret}, r.agentArgs()...)...)
	if out, err := join.CombinedOutput(); err != nil {
		r.t.Fatalf("join: %v: %s", err, out)
	}
	r.startAgent(cmp.Or(r.agentProgram, path))
	r.waitHost(stepLimit, fleet.HostOnline)
}

func (r *faultRig) agentArgs() []string {
	return append([]string{"--name", r.name, "--data-dir", filepath.Join(r.dir, "h", "agent")}, r.extra...)
}

// startAgent runs the host's agent. It can be called again after the agent was killed.
func (r *faultRig) startAgent(path string) {
	r.t.Helper()
	log := filepath.Join(r.dir, "agent.log")
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	agent := r.host.Command(ctx, path, append([]string{"agent"}, r.agentArgs()...)...)
	agent.Stdout, agent.Stderr = file, file
	if len(r.env) > 0 {
		agent.Env = append(os.Environ(), r.env...)
	}
	agent.Cancel = func() error { return agent.Process.Signal(syscall.SIGTERM) }
	if err := agent.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		stop()
		var exit *exec.ExitError
		if err := agent.Wait(); err != nil && !errors.As(err, &exit) && !errors.Is(err, context.Canceled) {
			r.t.Error(err)
		}
		file.Close()
		if r.t.Failed() {
			showLogs(r.t, log)
		}
	})
}

func (r *faultRig) waitHost(limit time.Duration, want fleet.HostPhase) {
	r.t.Helper()
	eventually(r.t, limit, "phase "+string(want)+" of the host", func() (bool, string) {
		got, err := r.api().send(r.t.Context(), http.MethodGet, "/api/v1/hosts?filter=name:"+r.name, nil)
		if err != nil {
			return false, err.Error()
		}
		return strings.Contains(string(got.body), `"phase":"`+string(want)+`"`), string(got.body)
	})
}

// postgresProcesses returns the process IDs of the postmaster and its children.
func (r *faultRig) postgresProcesses() []int {
	return append([]int{r.pg.Pid()}, childrenOf(r.pg.Pid())...)
}

func childrenOf(parent int) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		_, rest, ok := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); ok && len(f) > 1 && f[1] == strconv.Itoa(parent) {
			if pid, err := strconv.Atoi(e.Name()); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func (r *faultRig) signalPostgres(s syscall.Signal) {
	for _, pid := range r.postgresProcesses() {
		_ = syscall.Kill(pid, s)
	}
}

// guestPID returns the process ID of the guest of the given name.
func guestPID(t *testing.T, name string) int {
	t.Helper()
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if strings.Contains(string(args), "guest="+name+",") {
			pid, err := strconv.Atoi(e.Name())
			if err == nil {
				return pid
			}
		}
	}
	t.Fatalf("no guest named %s runs", name)
	return 0
}

// TestFaultsLeaveGuestRunning injects faults one after another. A running VM must survive each of them.
func TestFaultsLeaveGuestRunning(t *testing.T) { //nolint:tparallel // sequential faults on one VM
	t.Parallel()
	r := newFaultRig(t)
	a := r.api()
	name := uniqueName("survivor")
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "faults"})
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": project.ID, "start": true, "spec": map[string]any{"cpus": 1, "memoryMiB": 128},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	pid := guestPID(t, name)
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if now := guestPID(t, name); now != pid {
			t.Errorf("the guest is process %d now, was %d: it was restarted", now, pid)
		}
	})

	t.Run("libvirtd dies", func(t *testing.T) { r.checkLibvirtdDeath(t) })
	t.Run("PostgreSQL hangs", func(t *testing.T) { r.checkPostgresHang(t, vm) })
	t.Run("PostgreSQL dies", func(t *testing.T) { r.checkPostgresDeath(t, vm) })
}

func (r *faultRig) checkLibvirtdDeath(t *testing.T) {
	r.t = t
	if err := r.host.KillLibvirtd(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.waitHost(15*time.Second, fleet.HostDegraded)
	if err := r.host.StartLibvirtd(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.waitHost(10*time.Second, fleet.HostOnline)
}

// checkPostgresHang freezes PostgreSQL: connections stay open, but the server does not answer.
func (r *faultRig) checkPostgresHang(t *testing.T, vm fleet.VMView) {
	r.t = t
	r.signalPostgres(syscall.SIGSTOP)
	r.checkUnavailable(t)
	if _, err := r.host.Virsh(t.Context(), "suspend", vm.Name); err != nil {
		t.Error(err)
	}
	r.signalPostgres(syscall.SIGCONT)
	r.waitHost(stepLimit, fleet.HostOnline)
	r.api().waitPhase(t, stepLimit, vm.ID, fleet.PhasePaused)
}

func (r *faultRig) checkPostgresDeath(t *testing.T, vm fleet.VMView) {
	r.t = t
	for _, pid := range slices.Backward(r.postgresProcesses()) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err := r.pg.Stop(t.Context()); err != nil { // a killed server would be restarted
		t.Fatal(err)
	}
	r.checkUnavailable(t)
	if _, err := r.host.Virsh(t.Context(), "resume", vm.Name); err != nil {
		t.Error(err)
	}
	r.startPostgres()
	r.waitHost(stepLimit, fleet.HostOnline)
	r.api().waitPhase(t, stepLimit, vm.ID, fleet.PhaseRunning)
}

// pageLimit is the portal's own time limit for a page. A page that hangs takes much longer.
const pageLimit = 5 * time.Second

// checkUnavailable fails the test unless pages and the API soon report that the database is unavailable, while the
// liveness check still succeeds.
func (r *faultRig) checkUnavailable(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/vms", "/", "/sign-in", "/api/v1/vms"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(path, "/api") {
			req.Header.Set("Authorization", "Bearer "+r.token)
		}
		sent := time.Now()
		res, err := r.browser.Do(req)
		took := time.Since(sent)
		if err != nil {
			t.Errorf("%s without PostgreSQL: %v", path, err)
			continue
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if took > 3*pageLimit {
			t.Errorf("%s answered after %s; a page has 5 s", path, took.Round(time.Millisecond))
		}
		if path == "/sign-in" && res.StatusCode == http.StatusOK {
			continue // the sign-in form itself needs no database
		}
		if res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s answered %s, want 503: %.300s", path, res.Status, text)
		}
		if !strings.Contains(strings.ToLower(string(text)), "database") {
			t.Errorf("%s does not mention the database: %.600s", path, text)
		}
	}
	// /readyz may still report the result of the portal's previous database check.
	eventually(t, pageLimit, "/readyz answers 503", func() (bool, string) {
		res, err := httpClient.Get(r.url + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		res.Body.Close()
		return res.StatusCode == http.StatusServiceUnavailable, res.Status
	})
	res, err := httpClient.Get(r.url + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("/healthz answered %s while only PostgreSQL was unavailable", res.Status)
	}
}
