package agent_test

import (
	"maps"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// configuredHost is a host with settings in agent.yaml.
type configuredHost struct {
	*counted
	settings fleet.AgentSettings
}

func (h configuredHost) Settings() fleet.AgentSettings { return h.settings }

func (p *portal) setReportInterval(seconds int) {
	defer p.lockForChange()()
	p.reportInterval = seconds
}

func TestReportIntervalFollowsPortal(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), newCounted()
	a, _ := p.startAgent(p.join(), host, host)
	ownInterval := a.ReportInterval()
	p.setReportInterval(60)
	p.waitUntil("an interval of 60 s", func() bool { return a.ReportInterval() == time.Minute })
	p.setReportInterval(0)
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: vmWithPolicy("one", fleet.VMPolicy{})}) // triggers a report
	p.waitUntil("the default interval", func() bool { return a.ReportInterval() == ownInterval })
	p.waitReports(3) // a ticker of 60 s would send none
	p.setReportInterval(fleet.MaxReportInterval + 1)
	p.waitReports(2)
	if got := a.ReportInterval(); got != ownInterval {
		t.Errorf("a portal's interval beyond the limit set %s", got)
	}
}

func TestSettingsOfAgentYAMLWinAndAreReported(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	own := fleet.AgentSettings{ReportInterval: 20, Labels: map[string]string{"rack": "4"}}
	host := configuredHost{newCounted(), own}
	p.setReportInterval(60)
	a, _ := p.startAgent(p.join(), host, host)
	state := p.waitStateSince(0, "the settings", func(s wire.State) bool { return s.Host.Settings != nil })
	if got := *state.Host.Settings; got.ReportInterval != 20 || !maps.Equal(got.Labels, own.Labels) {
		t.Errorf("reported are %+v", got)
	}
	if got := a.ReportInterval(); got != 20*time.Second {
		t.Errorf("the interval is %s, want that of agent.yaml", got)
	}
}
