//go:build linux

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// portal is a portal that belongs to one test. The test may kill it.
type portal struct {
	*program
	t             *testing.T
	dir           string
	args, env     []string
	url, agentURL string
	password      string // password of the user who signs in
	as            string // the user who signs in; empty: admin
	browser       *http.Client
	via           http.RoundTripper // nil: the default transport
	token         string
}

// newPortal starts "quantix portal" with its own data directory and further arguments, and waits for the one-time
// password.
func newPortal(t *testing.T, name string, args ...string) *portal {
	t.Helper()
	return newPortalWithEnv(t, name, nil, args...)
}

// newPortalWithEnv works like newPortal, with further environment variables: "NAME=value".
func newPortalWithEnv(t *testing.T, name string, env []string, args ...string) *portal {
	t.Helper()
	listen, agents := freeAddress(t), freeAddress(t)
	dir := filepath.Join(root, name)
	p := &portal{
		t: t, dir: dir, env: env, url: "http://" + listen, agentURL: "https://" + agents,
		args: append([]string{"portal", "--listen", listen, "--agent-listen", agents, "--data-dir", dir}, args...),
	}
	t.Cleanup(func() {
		p.stopPortal()
		if t.Failed() {
			showLogs(t, p.log)
		}
	})
	printed := p.start(name)
	eventually(t, stepLimit, "a one-time password", func() (bool, string) {
		out := printed.String()
		_, text, ok := strings.Cut(out, "one-time password ")
		if ok = ok && strings.Contains(text, "\n"); ok {
			p.password = strings.Fields(text)[0]
		}
		return ok, "the portal printed " + out
	})
	return p
}

// start runs the portal, waits until it is ready, and returns its output. It can be called again after kill.
func (p *portal) start(name string) *lockedBuffer {
	p.t.Helper()
	var err error
	if p.program, err = launch(name, p.env, p.args...); err != nil {
		p.t.Fatal(err)
	}
	printed := &lockedBuffer{}
	go func() {
		_, _ = io.Copy(printed, p.out)
		p.reap()
	}()
	eventually(p.t, readyLimit, "the portal's start", func() (bool, string) {
		select {
		case <-p.gone:
			p.t.Fatalf("the portal ended: %v:\n%s", p.err, lastLinesOfFile(p.log, 20))
		default:
		}
		res, err := (&http.Client{Transport: p.via, Timeout: httpClient.Timeout}).Get(p.url + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK, res.Status
	})
	return printed
}

// kill ends the portal with SIGKILL, like a crash.
func (p *portal) kill() {
	p.t.Helper()
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// stopPortal stops the portal and its private PostgreSQL, if any.
func (p *portal) stopPortal() {
	if p.program == nil {
		return
	}
	if err := p.signal(syscall.SIGTERM); err != nil {
		p.t.Errorf("the portal ended badly: %v:\n%s", err, lastLinesOfFile(p.log, 20))
	}
	if left := processesUsing(p.dir + "/"); len(left) > 0 {
		p.t.Errorf("left behind by the portal: %s", strings.Join(left, "\n"))
	}
}

// signIn signs in over plain HTTP, like a browser without scripts, and changes the one-time password.
func (p *portal) signIn() {
	p.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.browser = &http.Client{Jar: jar, Timeout: 15 * time.Second, Transport: p.via}
	if page := p.postForm("/sign-in", url.Values{"name": {cmp.Or(p.as, "admin")}, "password": {p.password}}); !strings.Contains(page, "Change your password") {
		p.t.Fatalf("the first sign-in does not ask for a new password: %.300s", page)
	}
	p.postForm("/account/password", url.Values{"old": {p.password}, "new": {newPassword}, "again": {newPassword}})
	p.password = newPassword
}

// postForm sends a form, follows the redirect and returns the page. On status 503, which a busy machine may cause, it
// retries.
func (p *portal) postForm(path string, form url.Values) (page string) {
	p.t.Helper()
	eventually(p.t, stepLimit, "POST "+path, func() (bool, string) {
		res, err := p.browser.PostForm(p.url+path, form)
		if err != nil {
			p.t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusServiceUnavailable {
			p.t.Fatalf("POST %s answered %s (%v): %.300s", path, res.Status, err, text)
		}
		page = string(text)
		return res.StatusCode == http.StatusOK, res.Status
	})
	return page
}

var tokenPattern = regexp.MustCompile(`qx_[0-9A-Za-z_-]{40,}`)

// api creates an API token on the account's page at its first call, and returns a client with it.
func (p *portal) api() api {
	p.t.Helper()
	if p.token == "" {
		p.signIn()
		page := p.postForm("/account/tokens", url.Values{"name": {"test"}, "life": {"24"}})
		if p.token = tokenPattern.FindString(page); p.token == "" {
			p.t.Fatalf("the page shows no new API token: %.300s", page)
		}
	}
	a := api{url: p.url, token: p.token}
	if p.via != nil {
		a.via = &http.Client{Transport: p.via, Timeout: httpClient.Timeout}
	}
	return a
}

// startMockAgent joins a simulated host and runs its agent until the test ends. It returns the agent and its data
// directory.
func (p *portal) startMockAgent(name string) (*program, string) {
	p.t.Helper()
	return p.startMockAgentWith(name, nil)
}

// startMockAgentWith is startMockAgent with further environment variables and arguments of the agent.
func (p *portal) startMockAgentWith(name string, env []string, more ...string) (*program, string) {
	p.t.Helper()
	path, err := binary()
	if err != nil {
		p.t.Fatal(err)
	}
	return p.startMockAgentOf(path, name, env, more...)
}

// startMockAgentOf is startMockAgentWith with the agent's program.
func (p *portal) startMockAgentOf(path, name string, env []string, more ...string) (*program, string) {
	p.t.Helper()
	dir := filepath.Join(root, p.name+"-"+name)
	token := requestJSON[fleet.JoinToken](p.t, p.api(), http.StatusCreated, http.MethodPost, "/api/v1/join-tokens", map[string]any{})
	args := append([]string{"--name", name, "--data-dir", dir, "--hypervisor", "mock"}, more...)
	join := append([]string{"agent", "join", "--portal", p.agentURL, "--token", token.Secret}, args...)
	if out, err := commandOutput(p.t.Context(), path, join...); err != nil {
		p.t.Fatalf("join: %v: %s", err, out)
	}
	agent := p.runAgentOf(path, p.name+"-"+name, env, args...)
	eventually(p.t, stepLimit, "the first report of "+name, func() (bool, string) {
		h := p.api().hostByName(p.t, name)
		return h.Phase == fleet.HostOnline, string(h.Phase)
	})
	return agent, dir
}

func (p *portal) runAgent(name string, args ...string) *program {
	p.t.Helper()
	path, err := binary()
	if err != nil {
		p.t.Fatal(err)
	}
	return p.runAgentOf(path, name, nil, args...)
}

// runAgentOf is runAgent with the agent's program and further environment variables.
func (p *portal) runAgentOf(path, name string, env []string, args ...string) *program {
	p.t.Helper()
	agent, err := launchProgram(path, name, env, append([]string{"agent"}, args...)...)
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, agent.out)
		agent.reap()
	}()
	p.t.Cleanup(func() {
		_ = agent.signal(syscall.SIGTERM)
		if p.t.Failed() {
			showLogs(p.t, agent.log)
		}
	})
	return agent
}

// commandOutput runs a command without QUANTIX_ variables in its environment, and returns its output.
func commandOutput(ctx context.Context, name string, args ...string) (string, error) {
	cmd := cleanCommand(ctx, name, args...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// freeAddress returns an unused local address.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// copyDir copies a small directory.
func copyDir(t testing.TB, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(fmt.Errorf("copy %s: %w", from, err))
	}
}
