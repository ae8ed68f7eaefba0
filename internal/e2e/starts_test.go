//go:build linux && ordeal

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
	"quantix/internal/pglocal"
)

// killPostmaster kills the postmaster of a portal's private PostgreSQL.
func killPostmaster(t *testing.T, dir string) {
	t.Helper()
	pid, err := strconv.Atoi(postmasterPID(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// pageAndAPIStatus returns the HTTP statuses of a page and of the API.
func (p *portal) pageAndAPIStatus(t *testing.T) (page, api int) {
	t.Helper()
	res, err := p.browser.Get(p.url + "/vms")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	got, err := p.api().send(t.Context(), http.MethodGet, "/api/v1/projects", nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, got.status
}

// TestPrivatePostgresRestartedAfterCrash kills the private PostgreSQL of a running portal. Until the portal has
// restarted it, pages and API may only answer that the database is unavailable.
func TestPrivatePostgresRestartedAfterCrash(t *testing.T) {
	t.Parallel()
	p := newPortal(t, uniqueName("back"))
	requestJSON[fleet.Project](t, p.api(), http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "lasting"})
	data := filepath.Join(p.dir, "postgres", "pgdata")
	back := func(before string) {
		t.Helper()
		eventually(t, stepLimit, "the database's return", func() (bool, string) {
			page, api := p.pageAndAPIStatus(t)
			for _, status := range []int{page, api} {
				if status != http.StatusOK && status != http.StatusServiceUnavailable {
					t.Fatalf("the page answered %d and the API %d, want 503 until it is 200", page, api)
				}
			}
			// Backends of the dead server still answer for a moment, so the test also waits for a new process ID.
			text, _ := os.ReadFile(filepath.Join(data, "postmaster.pid"))
			anew := len(text) > 0 && !strings.HasPrefix(string(text), before+"\n")
			return anew && page == http.StatusOK && api == http.StatusOK, fmt.Sprintf("the page answers %d, the API %d", page, api)
		})
		p.api().projectByName(t, "lasting")
	}

	before := postmasterPID(t, p.dir)
	killPostmaster(t, p.dir)
	back(before)

	// PostgreSQL cannot restart while its files are renamed, so that the test can check responses during the failure.
	before = postmasterPID(t, p.dir)
	pid, err := strconv.Atoi(before)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(data, data+".away"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, stepLimit, "the database's absence", func() (bool, string) {
		page, api := p.pageAndAPIStatus(t)
		return page == http.StatusServiceUnavailable && api == http.StatusServiceUnavailable, fmt.Sprintf("the page answers %d, the API %d", page, api)
	})
	if err := os.Rename(data+".away", data); err != nil {
		t.Fatal(err)
	}
	back(before)
	if !strings.Contains(lastLinesOfFile(p.log, 10_000), "the private PostgreSQL has died") {
		t.Error("the log does not mention it")
	}
}

// runFailingStart runs the program, which must fail with one sentence, and returns the sentence.
func runFailingStart(t *testing.T, args ...string) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), endLimit)
	defer cancel()
	cmd := cleanCommand(ctx, path, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("%v ended with %v, want exit status 1; standard error: %s", args, err, errOut.String())
	}
	text := strings.TrimSuffix(errOut.String(), "\n")
	if out.Len() > 0 || !strings.HasPrefix(text, "quantix: ") || strings.Contains(text, "\n") {
		t.Errorf("%v printed %q, and not one sentence on standard error:\n%s", args, out.String(), text)
	}
	return text
}

// TestDataDirectoryRefusesSecondPortal starts a second portal on the data directory of a running portal. It must fail
// with the first portal's process ID, and must not disturb the first portal. Commands that only read may use the
// directory.
func TestDataDirectoryRefusesSecondPortal(t *testing.T) {
	t.Parallel()
	p := newPortal(t, uniqueName("owned"))
	a := p.api()
	before := postmasterPID(t, p.dir)
	for _, args := range [][]string{
		{"portal", "--listen", freeAddress(t), "--agent-listen", freeAddress(t), "--log-level", "error"},
		{"portal", "--listen", "127.0.0.1:0", "--agent-listen", "127.0.0.1:0", "--log-level", "error"},
	} {
		message := runFailingStart(t, append(args, "--data-dir", p.dir)...)
		if want := fmt.Sprintf("process %d", p.cmd.Process.Pid); !strings.Contains(message, want) || !strings.Contains(message, p.dir) {
			t.Errorf("the refusal names neither %s nor %s: %s", want, p.dir, message)
		}
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	users, err := commandOutput(t.Context(), path, "user", "list", "--data-dir", p.dir, "--log-level", "error")
	if err != nil || !strings.Contains(users, "admin") {
		t.Errorf("the users cannot be listed beside the portal: %v: %s", err, users)
	}
	// The running portal's address must override this command's default settings.
	token, err := commandOutput(t.Context(), path, "host", "token", "--data-dir", p.dir, "--log-level", "error")
	if err != nil || !strings.Contains(token, "--portal "+p.agentURL+" ") {
		t.Errorf("the join command does not name %s: %v: %s", p.agentURL, err, token)
	}
	if after := postmasterPID(t, p.dir); after != before {
		t.Errorf("PostgreSQL is process %s now, was %s", after, before)
	}
	requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "undisturbed"})
}

// TestFailedStartsExplainReason starts portals that cannot start. Each must print the reason.
func TestFailedStartsExplainReason(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	busy := taken.Addr().String()
	files := filepath.Join(root, uniqueName("files"))
	if err := os.Mkdir(files, 0o755); err != nil {
		t.Fatal(err)
	}
	text, file := filepath.Join(files, "notes.txt"), filepath.Join(files, "file")
	writeFile(t, text, "no certificate")
	writeFile(t, file, "no directory")
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"a port in use":             {[]string{"--listen", busy}, []string{"cannot listen on " + busy, "address already in use", "--listen"}},
		"the agents' port in use":   {[]string{"--agent-listen", busy}, []string{"cannot listen on " + busy, "address already in use", "--agent-listen"}},
		"an address of another":     {[]string{"--listen", "192.0.2.1:80"}, []string{"cannot listen on 192.0.2.1:80", "--listen"}},
		"a newer schema":            {[]string{"--database-url", newerSchemaURL(t)}, []string{"newer release"}},
		"a certificate without PEM": {[]string{"--tls-cert", text, "--tls-key", text}, []string{text, "PEM"}},
		"a missing certificate":     {[]string{"--tls-cert", text + ".pem", "--tls-key", text}, []string{text + ".pem", "no such file"}},
		"a file as data directory":  {[]string{"--data-dir", file}, []string{file, "not a directory"}},
		"not a network":             {[]string{"--trusted-proxies", "everybody"}, []string{"everybody"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(root, uniqueName("failed"))
			args := append([]string{"portal", "--listen", "127.0.0.1:0", "--agent-listen", "127.0.0.1:0", "--data-dir", dir, "--log-level", "error"}, c.args...)
			message := runFailingStart(t, args...)
			for _, want := range c.want {
				if !strings.Contains(message, want) {
					t.Errorf("the refusal lacks %q: %s", want, message)
				}
			}
			if strings.Contains(message, "secret") {
				t.Errorf("the refusal holds the password: %s", message)
			}
			if left := processesUsing(dir + "/"); len(left) > 0 {
				t.Errorf("left behind: %s", strings.Join(left, "\n"))
			}
		})
	}
}

// newerSchemaURL returns the URL of a database with the schema of a later release.
func newerSchemaURL(t *testing.T) string {
	t.Helper()
	pg, err := pglocal.Start(t.Context(), pglocal.Options{Dir: filepath.Join(root, uniqueName("newer")), Unsafe: true, DieWithParent: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `CREATE TABLE goose_db_version AS SELECT 999999 AS version_id`); err != nil {
		t.Fatal(err)
	}
	return pg.URL()
}

// TestDemoRestartKeepsVMs starts a demo twice on one data directory. Its VMs must still exist.
func TestDemoRestartKeepsVMs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root, uniqueName("again"))
	first, firstAddress := restartPlayground(t, "demo", dir)
	var vms []fleet.VMView
	eventually(t, stepLimit, "the start of the VMs", func() (bool, string) {
		vms = listFirstPage[fleet.VMView](t, first.api(), "/api/v1/vms?limit=500")
		phases := map[fleet.Phase]int{}
		for _, vm := range vms {
			phases[vm.Phase]++
		}
		return phases["running"] == 32 && phases[fleet.PhaseStarting] == 0, fmt.Sprint(phases)
	})
	if err := first.signal(syscall.SIGTERM); err != nil {
		t.Fatalf("the demo ended with %v:\n%s", err, lastLinesOfFile(first.log, 20))
	}
	second, secondAddress := restartPlayground(t, "demo", dir)
	if firstAddress != secondAddress {
		t.Errorf("agents reach the portal at %s now, and at %s before", secondAddress, firstAddress)
	}
	if second.Password == first.Password || pathAfterSignIn(t, second) != "/account/password" {
		t.Errorf("the first one-time password is unused, but the second start printed %q", second.Password)
	}
	a := second.api()
	eventually(t, stepLimit, "the return of the VMs", func() (bool, string) {
		var differences []string
		now := map[fleet.VMID]fleet.VMView{}
		for _, vm := range listFirstPage[fleet.VMView](t, a, "/api/v1/vms?limit=500") {
			now[vm.ID] = vm
		}
		for _, vm := range vms {
			if got := now[vm.ID].Phase; got != vm.Phase {
				differences = append(differences, fmt.Sprintf("%s is %s, was %s", vm.Name, got, vm.Phase))
			}
		}
		return len(differences) == 0, strings.Join(differences, ", ")
	})
	if err := second.signal(syscall.SIGTERM); err != nil {
		t.Errorf("the demo ended with %v:\n%s", err, lastLinesOfFile(second.log, 20))
	}
}

// pathAfterSignIn returns the path of the page after a sign-in with the printed password.
func pathAfterSignIn(t *testing.T, s *playground) string {
	t.Helper()
	client := &http.Client{Timeout: 15 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.PostForm(s.URL+"/sign-in", url.Values{"name": {s.User}, "password": {s.Password}})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	to, _, _ := strings.Cut(res.Header.Get("Location"), "?")
	return to
}

// TestLabRestartKeepsHostsAndVM starts a lab twice on one data directory. Its hosts and its VM must exist again and
// work.
func TestLabRestartKeepsHostsAndVM(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root, uniqueName("l"))
	first, firstAddress := restartPlayground(t, "lab", dir)
	if err := first.signal(syscall.SIGTERM); err != nil {
		t.Fatalf("the lab ended with %v:\n%s", err, lastLinesOfFile(first.log, 20))
	}
	if log := lastLinesOfFile(first.log, 20); strings.Contains(log, "started again") {
		t.Errorf("the stopped lab restarted an agent: %s", log)
	}
	second, secondAddress := restartPlayground(t, "lab", dir)
	if firstAddress != secondAddress {
		t.Errorf("agents reach the portal at %s now, and at %s before", secondAddress, firstAddress)
	}
	a := second.api()
	vms := listFirstPage[fleet.VMView](t, a, "/api/v1/vms")
	if len(vms) != 1 {
		t.Fatalf("%d VMs, want the one of before", len(vms))
	}
	a.waitPhase(t, stepLimit, vms[0].ID, fleet.PhaseStopped) // the host was off in the meantime
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vms[0].ID)+"/actions", map[string]any{"action": "start"})
	a.waitPhase(t, guestLimit, vms[0].ID, fleet.PhaseRunning)
	if err := second.signal(syscall.SIGTERM); err != nil {
		t.Errorf("the lab ended with %v:\n%s", err, lastLinesOfFile(second.log, 20))
	}
}

// restartPlayground starts a demo or lab on a data directory. It also returns the portal's URL that the first host has
// stored.
func restartPlayground(t *testing.T, name, dir string) (*playground, string) {
	t.Helper()
	p, err := startPlayground(filepath.Base(dir), nil, name, "--json", "--listen", "127.0.0.1:0", "--data-dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.signal(syscall.SIGTERM)
		if t.Failed() {
			showLogs(t, p.log)
		}
	})
	identity := map[string]string{"demo": "host-1/identity.json", "lab": "h1/agent/identity.json"}[name]
	text, err := os.ReadFile(filepath.Join(dir, identity))
	if err != nil {
		t.Fatal(err)
	}
	var joined struct{ Portal string }
	if err := json.Unmarshal(text, &joined); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(joined.Portal)
	if err != nil {
		t.Fatal(err)
	}
	if len(listenerAddresses(t, u.Port())) == 0 {
		t.Errorf("no listener at the address where the agents of %s joined, %s", name, joined.Portal)
	}
	return p, joined.Portal
}

// listenerAddresses returns the addresses of local listeners on the port.
func listenerAddresses(t *testing.T, port string) []string {
	t.Helper()
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil
	}
	defer c.Close()
	return []string{c.RemoteAddr().String()}
}
