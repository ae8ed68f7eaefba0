//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"quantix/agent/upgrade"
	"quantix/internal/fleet"
	"quantix/internal/release"
)

// captureUpgrade captures the page that upgrades agents, with hosts that can and cannot be upgraded, and the
// task of an upgrade whose canary fails.
func captureUpgrade(t *testing.T) {
	t.Parallel()
	o := newReleases(t)
	o.offerScript(t, "2.0.0", "echo 'agent: no such setting' >&2; exit 1")
	o.offerScript(t, "1.9.0", "exit 0")
	o.offerScript(t, "1.8.0", "exit 0")
	o.corrupt(t, "1.8.0")
	s := newPortal(t, uniqueName("upgrading"), "--agent-releases", o.dir)
	a := s.api()
	s.startMockAgentOf(o.installProgram(t, s.dir), "host-1", nil, "--upgrade-keys", o.publicKey)
	key, err := release.ParsePublicKey(o.publicKey)
	if err != nil {
		t.Fatal(err)
	}
	follower, refuser := s.newScriptedHost("host-2"), s.newScriptedHost("host-3")
	for _, h := range []*scriptedHost{follower, refuser} {
		h.state.Host.AgentVersion, h.state.Host.Platform, h.state.Host.Settings = "1.8.0", upgrade.Platform().String(), &fleet.AgentSettings{}
	}
	follower.state.Host.Settings.UpgradeKeys = []string{key.ID()}
	keepReporting(t, follower, refuser)
	eventually(t, stepLimit, "the reports of all hosts", func() (bool, string) {
		h := a.hostByName(t, "host-3")
		return h.Status != nil && h.Status.AgentVersion == "1.8.0", fmt.Sprintf("%+v", h.Status)
	})
	p := newTab(t, s.url)
	p.open("/sign-in")
	p.enterCredentials("admin", s.password)
	p.waitPath("/")
	first := a.hostByName(t, "host-1")
	choose := func(p *tab) {
		p.chooseOption("select[name='role."+string(first.ID)+"']", "Canary")
		p.chooseOption("select[name='role."+string(a.hostByName(t, "host-2").ID)+"']", "After the canaries")
	}
	p.captureShot(pageShot{"host-upgrade", "/hosts/upgrade?downgrade=yes", choose})
	p.captureShot(pageShot{"host-upgrade-reasons", "/hosts/upgrade", nil})
	p.allowFaults("422")
	p.captureShot(pageShot{"host-upgrade-wrong", "/hosts/upgrade?downgrade=yes", func(p *tab) {
		p.click("#upgrade-form button.primary", "Upgrade")
		p.waitText("main .error", "at least one host")
	}})
	p.open("/hosts/upgrade?downgrade=yes")
	choose(p)
	p.click("#upgrade-form button.primary", "Upgrade")
	p.waitPath("/tasks/")
	tasks := requestJSON[fleet.Page[fleet.Task]](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks?filter="+url.QueryEscape("kind:host.agent.upgrade"), nil).Items
	if len(tasks) == 0 {
		t.Fatal("there is no task of the upgrade")
	}
	parent := tasks[0]
	for _, task := range tasks {
		if task.Steps != nil {
			parent = task
		}
	}
	eventually(t, 2*time.Minute, "the end of the upgrade", func() (bool, string) {
		parent = requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(parent.ID), nil)
		return parent.State.IsFinal(), fmt.Sprintf("%+v", parent)
	})
	if parent.State != fleet.JobFailed || parent.Steps == nil || parent.Steps.Failed != 1 || parent.Steps.Cancelled != 1 {
		t.Errorf("the upgrade ended %+v %+v", parent, parent.Steps)
	}
	p.captureShot(pageShot{"host-upgrade-stopped", "/tasks/" + string(parent.ID), func(p *tab) {
		p.waitText("main", "Not started: the upgrade of host-1 failed.")
	}})
}
