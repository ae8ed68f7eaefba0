package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent"
	"quantix/agent/mock"
	"quantix/agent/upgrade"
	"quantix/internal/fleet"
	"quantix/internal/release"
	"quantix/internal/wire"
)

const newAgentScript = "#!/bin/sh\necho 'quantix 2.0.0 (go, linux/amd64)'\n"

// upgradableHost is a host whose agent, of version 1.0, can be replaced by the release that the portal offers.
type upgradableHost struct {
	*portal
	host   *mock.Host
	dir    string
	in     *upgrade.Installer
	ended  chan error // results of the agents' runs
	worked wire.Work
}

func newUpgradableHost(t *testing.T) *upgradableHost {
	t.Helper()
	h := &upgradableHost{portal: newPortal(t), host: mock.New(mock.Options{Name: "host-1"}), ended: make(chan error, 4)}
	h.dir = h.join()
	key, _, err := release.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	m, err := release.Sign(key, strings.NewReader(newAgentScript), "2.0.0", upgrade.Platform())
	if err == nil {
		h.releaseManifest, err = m.Encode()
	}
	if err != nil {
		t.Fatal(err)
	}
	h.releaseProgram = newAgentScript
	h.in = &upgrade.Installer{Keys: []release.PublicKey{key.Public()}, Dir: h.dir, Binary: filepath.Join(t.TempDir(), "quantix"), Args: []string{"agent"}, Running: "1.0"}
	if err := os.WriteFile(h.in.Binary, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.worked = hostPowerWork(fleet.HostAgentUpgrade)
	h.worked.Args.Upgrade = &fleet.AgentUpgrade{Version: "2.0.0", AllowDowngrade: true} // 1.0 cannot be compared
	return h
}

func (h *upgradableHost) newAgent(begun *upgrade.Begun) (*agent.Agent, *agent.Identity) {
	h.t.Helper()
	id, err := agent.OpenIdentity(h.dir)
	if err != nil {
		h.t.Fatal(err)
	}
	client, err := id.Client("")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(client.Close)
	a, err := agent.NewWithShortTimes(agent.Options{
		Identity: id, Client: client, Hypervisor: h.host, Inventory: h.host.Inventory, NICs: h.host.NICs, Load: h.host.Load, Version: "1.0",
		Upgrades: agent.Upgrades{Installer: h.in, Begun: begun},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return a, id
}

func (h *upgradableHost) start(begun *upgrade.Begun) (stop func()) {
	h.t.Helper()
	a, id := h.newAgent(begun)
	return h.waitHello(id, func(ctx context.Context) { h.ended <- a.Run(ctx) })
}

// handover runs the upgrade until the agent has stopped.
func (h *upgradableHost) handover() {
	h.t.Helper()
	h.queueJob(h.worked)
	if _, ok := errors.AsType[*upgrade.Handover](<-h.ended); !ok {
		h.t.Fatal("the agent did not stop for its upgrade")
	}
}

// setRecord changes a field of the upgrade's record.
func (h *upgradableHost) setRecord(field, value string) {
	h.t.Helper()
	name := filepath.Join(h.dir, upgrade.RecordFile)
	text, err := os.ReadFile(name)
	record := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	record[field] = value
	if err == nil {
		text, err = json.Marshal(record)
	}
	if err == nil {
		err = os.WriteFile(name, text, 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func TestAgentStopsForUpgradeWithoutResult(t *testing.T) {
	t.Parallel()
	h := newUpgradableHost(t)
	stop := h.start(nil)
	h.waitUntil("a report of the keys and the platform", func() bool {
		for _, r := range h.reports {
			if r.State != nil && len(r.State.Host.Settings.UpgradeKeys) == 1 && r.State.Host.Platform == upgrade.Platform().String() {
				return true
			}
		}
		return false
	})
	h.handover()
	stop()
	h.update(func() {
		if len(h.finishes) != 0 {
			t.Errorf("the old agent reported %+v", h.finishes)
		}
	})
	// The trial failed, and the old agent starts again.
	h.setRecord("error", "The new agent crashed.")
	h.start(upgrade.Begin(t.Context(), h.dir, io.Discard))
	if f := h.waitResult(h.worked.ID); f.Outcome != wire.Failed || f.Error != "The new agent crashed." {
		t.Errorf("the job ended %+v", f)
	}
	if b := upgrade.Begin(t.Context(), h.dir, io.Discard); b != nil {
		t.Errorf("the upgrade is not over: %+v", b)
	}
}

// The new agent reports the job as done only after the portal has accepted a report of it. Until then, a repeated claim of
// the job has no result.
func TestUpgradeDoneAfterFirstReportOfNewAgent(t *testing.T) {
	t.Parallel()
	h := newUpgradableHost(t)
	stop := h.start(nil)
	h.handover()
	stop()
	if err := os.WriteFile(h.in.Binary, []byte(newAgentScript), 0o600); err != nil { // as the supervisor does
		t.Fatal(err)
	}
	h.setRecord("phase", "probation")
	begun := upgrade.Begin(t.Context(), h.dir, io.Discard)
	if !begun.OnProbation() {
		t.Fatal("the new agent is not on probation")
	}
	h.update(func() { h.refusals["report"] = 500 })
	h.start(begun)
	again := h.worked
	again.Epoch++
	h.queueJob(again)
	h.waitUntil("the repeated claim", func() bool { return len(h.claimed) == 2 })
	h.update(func() {
		if len(h.finishes) != 0 {
			t.Errorf("results before the first report: %+v", h.finishes)
		}
		delete(h.refusals, "report")
	})
	if f := h.waitResult(h.worked.ID); f.Outcome != wire.Done || f.Error != "" {
		t.Errorf("the job ended %+v", f)
	}
	if begun.OnProbation() {
		t.Error("the probation has not ended")
	}
}

func TestUpgradeWaitsForOtherJobs(t *testing.T) {
	t.Parallel()
	h := newUpgradableHost(t)
	stop := h.start(nil)
	vm := newVM("fail-never")
	hold := make(chan struct{})
	h.update(func() { h.beforeAck = func() { <-hold } })
	other := wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: fleet.VMApply, Subject: fleet.SubjectVM(vm.ID), Epoch: 1, Generation: 1, VM: vm}
	h.queueJob(other)
	h.waitUntil("the other job", func() bool { return h.beforeAck == nil })
	h.queueJob(h.worked)
	if f := h.waitResult(h.worked.ID); f.Outcome != wire.Failed || !strings.Contains(f.Error, "1 other job did not end") || !strings.Contains(f.Error, "Configure") {
		t.Errorf("the job ended %+v", f)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(h.in.Binary), ".quantix.upgrade")); err == nil {
		t.Error("the downloaded program is left behind")
	}
	close(hold)
	h.waitIdle()
	h.worked.ID, h.worked.Epoch = fleet.NewID[fleet.JobID](), h.worked.Epoch+1
	h.handover() // the agent claims jobs again
	stop()
}

func TestTrialSendsCompleteReportAndRunsNoJob(t *testing.T) {
	t.Parallel()
	h := newUpgradableHost(t)
	h.queueJob(h.worked)
	a, id := h.newAgent(nil)
	defer id.Close()
	connected, hypervisorError, err := a.RunTrial(t.Context())
	if err != nil || !connected || hypervisorError != "" {
		t.Fatalf("%v %q %v", connected, hypervisorError, err)
	}
	h.update(func() {
		if len(h.hellos) != 1 || len(h.reports) != 1 || h.reports[0].State == nil || h.reports[0].State.Host.AgentVersion != "1.0" {
			t.Errorf("the trial sent %d hellos and %d reports", len(h.hellos), len(h.reports))
		}
		if h.claims != 0 {
			t.Errorf("the trial claimed jobs %d times", h.claims)
		}
	})
}

func TestUpgradeRefusedWithoutKeysOfHost(t *testing.T) {
	t.Parallel()
	h := newUpgradableHost(t)
	h.in.Keys = nil
	h.start(nil)
	h.queueJob(h.worked)
	if f := h.waitResult(h.worked.ID); f.Outcome != wire.Failed || !strings.Contains(f.Error, "set upgradeKeys") {
		t.Errorf("the job ended %+v", f)
	}
}
