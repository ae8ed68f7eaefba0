//go:build linux && ordeal

package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// balancerChapter is the manual's chapter that contains the configurations of load balancers.
const balancerChapter = "static/docs/several-portals.md"

// balancer is a load balancer. The code block with its name in balancerChapter is its configuration.
type balancer struct {
	name    string
	command func(file string) []string
	// replacements returns pairs of a text in the manual's configuration, such as an address or a file name, and the
	// text that replaces it on this machine.
	replacements func(dir, pages, agents string) []string
}

var haproxy = balancer{
	name:    "haproxy",
	command: func(file string) []string { return []string{"haproxy", "-db", "-f", file} },
	replacements: func(dir, pages, agents string) []string {
		return []string{
			"bind :443 ssl crt /etc/haproxy/quantix.pem", "bind " + pages + " ssl crt " + filepath.Join(dir, "balancer.pem"),
			"bind :8444", "bind " + agents,
		}
	},
}

// nginxLog is the name of an access log. For each request it lists the portals that nginx tried; the last one answered.
const nginxLog = "nginx.access"

// nginx runs as a single process, so that a kill of that process ends nginx.
var nginx = balancer{
	name: "nginx",
	command: func(file string) []string {
		return []string{"nginx", "-e", "stderr", "-g", "daemon off; master_process off;", "-c", file}
	},
	replacements: func(dir, pages, agents string) []string {
		return []string{
			"listen 443 ssl", "listen " + pages + " ssl", "listen 8444", "listen " + agents,
			"/etc/nginx/quantix.pem", filepath.Join(dir, "balancer.pem"), "/run/nginx.pid", filepath.Join(dir, "nginx.pid"),
			"http {\n", "http {\n    log_format portal \"$upstream_addr\";\n    access_log " + filepath.Join(dir, nginxLog) + " portal;\n",
		}
	},
}

// run starts the balancer with the configuration in the manual.
func (b balancer) run(s *multiPortalSite, file string, places *strings.Replacer) {
	s.t.Helper()
	text, err := os.ReadFile("../../" + balancerChapter)
	if err != nil {
		s.t.Fatal(err)
	}
	_, config, found := strings.Cut(string(text), "```"+b.name+"\n")
	config, _, closed := strings.Cut(config, "```")
	if !found || !closed {
		s.t.Fatalf("%s has no configuration of %s", balancerChapter, b.name)
	}
	writeFile(s.t, file, places.Replace(config))
	args := b.command(file)
	cmd := cleanCommand(s.t.Context(), args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(file + ".log")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	gone := startDaemon(s.t, cmd, log.Name())
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-gone
		log.Close()
	})
	s.waitResponse("the balancer at work", "/readyz", http.StatusOK, "")
}

// createRunningVM creates a VM in a new project, and waits until it runs.
func createRunningVM(t *testing.T, a api) fleet.VMView {
	t.Helper()
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "shop"})
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": "web", "projectId": project.ID, "spec": map[string]any{"cpus": 1, "memoryMiB": 128}, "start": true,
	})
	a.waitPhase(t, stepLimit, vm.ID, fleet.PhaseRunning)
	return vm
}

// TestPortalsSurviveRollingRestartBehindNginx checks the manual's nginx configuration with agents, consoles, live
// pages, uploads and a rolling restart.
func TestPortalsSurviveRollingRestartBehindNginx(t *testing.T) {
	t.Parallel()
	s := newSite(t, nginx)
	s.startMockAgent("mock-1")
	a := s.api()
	vm := createRunningVM(t, a)
	s.checkConsoles(6, vm.ID)
	s.checkLiveStream()
	s.checkUpload(a)

	o, stop := s.sendRequests()
	defer stop()
	o.waitMore(t)
	for _, p := range s.portals {
		if err := p.signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		o.waitMore(t)
		p.start(p.name)
		s.waitRequests(p)
	}
	stop()
	for _, bad := range o.failures {
		t.Error(bad)
	}
	s.checkConsoles(6, vm.ID)
}

// waitRequests waits until nginx sends requests to the restarted portal p.
func (s *multiPortalSite) waitRequests(p *portal) {
	s.t.Helper()
	file := filepath.Join(filepath.Dir(p.dir), nginxLog)
	read := func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		return string(text)
	}
	before := len(read())
	eventually(s.t, stepLimit, "a request at the restarted portal", func() (bool, string) {
		since := read()[before:]
		return strings.Contains(since, "\n"+strings.TrimPrefix(p.url, "http://")+"\n"), since
	})
}

// checkLiveStream fails the test unless events of a stream arrive before the stream ends.
func (s *multiPortalSite) checkLiveStream() {
	s.t.Helper()
	follow := *s.browser
	follow.Timeout = 0 // no timeout, because the stream does not end
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/events?key=vms", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := follow.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	came := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(res.Body).ReadString('\n')
		came <- fmt.Sprint(line, err)
	}()
	select {
	case line := <-came:
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(line, ": open") {
			s.t.Errorf("a live page: %s %q", res.Status, line)
		}
	case <-time.After(stepLimit):
		s.t.Error("no event on the stream")
	}
}

// checkUpload uploads a file that exceeds the default size limit of balancers.
func (s *multiPortalSite) checkUpload(a api) {
	s.t.Helper()
	host := a.hostByName(s.t, "mock-1")
	pool := requestJSON[fleet.PoolView](s.t, a, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": "files", "hostIds": []fleet.HostID{host.ID}, "spec": map[string]any{"kind": "dir", "path": "/srv/files"},
	})
	eventually(s.t, stepLimit, "the pool", func() (bool, string) {
		got, err := a.send(s.t.Context(), http.MethodGet, "/api/v1/pools/"+string(pool.ID), nil)
		return err == nil && strings.Contains(string(got.body), `"state":"active"`), string(got.body)
	})
	body := strings.NewReader(strings.Repeat("x", 8<<20))
	at := s.url + "/api/v1/pools/" + string(pool.ID) + "/uploads/big.raw?host=" + url.QueryEscape(string(host.ID))
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, at, body)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := (&http.Client{Transport: s.via, Timeout: endLimit}).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode/100 != 2 {
		s.t.Errorf("an upload of 8 MiB: %s", res.Status)
	}
}
