package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/cli"
	"quantix/internal/control"
	"quantix/internal/control/identity"
	"quantix/internal/fleet"
	"quantix/internal/load"
)

const commandVar = "BENCH_QUANTIX_COMMAND" // not a QUANTIX_ variable, because the program rejects unknown ones

// runCommand runs the quantix program itself if the environment variable commandVar is set. Otherwise it returns false.
func runCommand() bool {
	if os.Getenv(commandVar) == "" {
		return false
	}
	os.Exit(cli.Main(os.Args[1:]))
	return true
}

// portal is a real portal in a process of its own, so that its memory and CPU time can be measured.
type portal struct {
	b           *testing.B
	url, agents string
	pid         int
	control     *control.Control // uses the same database, for preparations
	admin       fleet.Actor
}

// startPortal runs "quantix portal" on the rig's database until the benchmark ends.
func startPortal(b *testing.B, r *rig, flags ...string) *portal {
	b.Helper()
	dir := postgresDir(b)
	settings := filepath.Join(dir, "portal.yaml")
	self, err := os.Executable()
	if err == nil {
		err = os.WriteFile(settings, nil, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{
		"portal", "--config", settings, "--data-dir", dir, "--database-url", r.pool.Config().ConnString(), "--listen", "127.0.0.1:0", "--agent-listen", "127.0.0.1:0", "--log-format", "json",
		"--secrets-key", os.Getenv(secretsKeyVar),
	}, flags...)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "QUANTIX_") }), commandVar+"=yes")
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		forced := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		forced.Stop()
	})
	p := &portal{b: b, pid: cmd.Process.Pid, control: r.control}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	var last string
	for lines.Scan() {
		var entry struct{ Msg, URL, Agents string }
		last = lines.Text()
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "portal is running" {
			p.url, p.agents = entry.URL, entry.Agents
			go func() {
				for lines.Scan() {
					if strings.Contains(lines.Text(), `"level":"ERROR"`) {
						fmt.Fprintln(os.Stderr, lines.Text())
					}
				}
			}()
			break
		}
	}
	if p.url == "" {
		b.Fatalf("the portal did not start: %s", last)
	}
	users, err := r.control.ListUsers(b.Context(), fleet.SystemActor, fleet.Query{Filter: "role:admin"})
	if err != nil || len(users.Items) == 0 {
		b.Fatal(users, err)
	}
	u := users.Items[0]
	p.admin = fleet.Actor{UserID: u.ID, Name: u.Name, Role: u.Role}
	return p
}

// token returns an administrator's API token.
func (p *portal) token() string {
	p.b.Helper()
	token, err := p.control.CreateToken(p.b.Context(), p.admin, "bench", 0)
	if err != nil {
		p.b.Fatal(err)
	}
	return token.Secret
}

// signedIn returns the browser of a new administrator. Each browser has its own user, because the portal limits the
// concurrent requests of each user.
func (p *portal) signedIn() *http.Client {
	p.b.Helper()
	user, password, err := p.control.CreateUser(p.b.Context(), p.admin, identity.UserInput{Name: fmt.Sprintf("bench-%d", time.Now().UnixNano()), Role: fleet.RoleAdmin})
	if err != nil {
		p.b.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.b.Fatal(err)
	}
	client := &http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}}
	post := func(path string, form url.Values) {
		res, err := client.PostForm(p.url+path, form)
		if err != nil {
			p.b.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			p.b.Fatal(path, res.StatusCode, err)
		}
	}
	const own = "a-password-of-the-bench"
	post("/sign-in", url.Values{"name": {user.Name}, "password": {password}})
	post("/account/password", url.Values{"old": {password}, "new": {own}, "again": {own}})
	return client
}

// metric returns the value of one metric in the portal's /metrics, or -1 if it is missing.
func (p *portal) metric(name string) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/metrics", nil)
	if err != nil {
		p.b.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return -1
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	_, rest, found := strings.Cut(string(text), "\n"+name+" ")
	n := -1.0
	if _, scanned := fmt.Sscan(rest, &n); err != nil || !found || scanned != nil {
		return -1
	}
	return n
}

// agentsParked reports whether the claims of n agents wait for jobs and no claim still queries the database.
func (p *portal) agentsParked(n int) bool {
	return p.metric("quantix_claims_parked") == float64(n) && p.metric("quantix_db_conns_acquired") == 0
}

// postgresProcesses returns the processes of the portal's database server.
func postgresProcesses() load.Processes { return load.ProcessTree(durable.pg.Pid()) }
