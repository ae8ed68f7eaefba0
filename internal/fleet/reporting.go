package fleet

import (
	"maps"
	"regexp"
	"time"
)

// Limits and default of a host's report interval, in seconds.
const (
	MinReportInterval     = 5
	MaxReportInterval     = 60
	DefaultReportInterval = 10
)

// Freshness is the time for which a host's report is valid at the default report interval. After that, the host counts
// as offline, and the states of its objects are unknown.
const Freshness = reportsPerFreshness * DefaultReportInterval * time.Second

// reportsPerFreshness is the number of report intervals for which a report is valid.
const reportsPerFreshness = 3

// FreshFor returns the time for which a report is valid at a report interval in seconds. Column host_sessions.fresh_for
// holds it for each host.
func FreshFor(interval int) time.Duration {
	return reportsPerFreshness * time.Duration(interval) * time.Second
}

// ClockStep is how far a stored time may lie in the future. A later time shows that the database's clock was set back,
// so the age of the report is unknown.
const ClockStep = 5 * time.Second

// ReportTime is the time of a host's report. In JSON it is only the time.
type ReportTime struct {
	time.Time
	FreshFor time.Duration `json:"-"` // for how long the report is valid; 0: Freshness
	// PoweredOff: the report is the last one before the host powered off by Quantix's command. VMs that were off in it
	// count as off until the host reports again.
	PoweredOff bool `json:"-"`
}

// NewReportTime returns the time of a report from the database; nil without a report. Without freshFor, the report is
// valid for Freshness.
func NewReportTime(at *time.Time, freshFor *time.Duration) *ReportTime {
	if at == nil {
		return nil
	}
	t := &ReportTime{Time: *at}
	if freshFor != nil {
		t.FreshFor = *freshFor
	}
	return t
}

// Instant returns the time alone; nil for nil.
func (t *ReportTime) Instant() *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}

// Limit returns the time for which the report is valid.
func (t *ReportTime) Limit() time.Duration {
	if t == nil || t.FreshFor == 0 {
		return Freshness
	}
	return t.FreshFor
}

// IsReportFresh reports whether a report of that time (nil: never) is still valid at now. The SQL function is_fresh
// implements the same rule.
func IsReportFresh(seen *ReportTime, now time.Time) bool {
	return seen != nil && now.Sub(seen.Time) <= seen.Limit() && seen.Sub(now) <= ClockStep
}

// MaxUpgradeKeys is the maximum number of keys that sign releases for one agent.
const MaxUpgradeKeys = 16

// AgentSettings are the settings of a host's agent.yaml that the portal shows. Those that also have a value in HostSpec
// win over the spec.
type AgentSettings struct {
	ReportInterval int               `json:"reportInterval,omitempty"` // seconds; 0: not set
	Labels         map[string]string `json:"labels,omitempty"`
	HostPower      bool              `json:"hostPower,omitempty"` // the portal may reboot and shut down the host
	// Commands are the kinds of jobs about the host itself that its agent can run. Older agents report none.
	Commands []JobKind `json:"commands,omitempty"`
	// Diagnostics are the names of the site's own diagnostics in the directory diagnosticsDir of agent.yaml.
	Diagnostics []string `json:"diagnostics,omitempty"`
	// UpgradeKeys are the IDs of the keys that sign releases for the agent; none: the portal cannot upgrade it
	UpgradeKeys []string `json:"upgradeKeys,omitempty"`
}

// Limits of AgentSettings: kinds of jobs, and the site's own diagnostics.
const (
	maxAgentCommands   = 32
	MaxSiteDiagnostics = 64
)

var diagnosticName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// IsDiagnosticName reports whether a site's own diagnostic may have this name.
func IsDiagnosticName(name string) bool { return diagnosticName.MatchString(name) }

// Valid returns the settings without invalid values, because an agent may report anything; nil for nil.
func (s *AgentSettings) Valid() *AgentSettings {
	if s == nil {
		return nil
	}
	out := &AgentSettings{HostPower: s.HostPower}
	for _, k := range s.Commands[:min(len(s.Commands), maxAgentCommands)] {
		if k.Info().Type == TypeHost {
			out.Commands = append(out.Commands, k)
		}
	}
	for _, name := range s.Diagnostics {
		if IsDiagnosticName(name) && len(out.Diagnostics) < MaxSiteDiagnostics {
			out.Diagnostics = append(out.Diagnostics, name)
		}
	}
	if s.ReportInterval >= MinReportInterval && s.ReportInterval <= MaxReportInterval {
		out.ReportInterval = s.ReportInterval
	}
	for _, key := range s.UpgradeKeys[:min(len(s.UpgradeKeys), MaxUpgradeKeys)] {
		out.UpgradeKeys = append(out.UpgradeKeys, key[:min(len(key), 64)])
	}
	var c Checks
	if CheckLabels(&c, "labels", s.Labels); c.Err() == nil {
		out.Labels = s.Labels
	}
	return out
}

// AgentSettings returns the settings of the host's agent.yaml; none if its agent is too old to report them.
func (h Host) AgentSettings() AgentSettings {
	if h.Status == nil || h.Status.Settings == nil {
		return AgentSettings{}
	}
	return *h.Status.Settings
}

// agentVersion returns the version of the host's agent, for people.
func (h Host) agentVersion() string {
	if h.Status == nil || h.Status.AgentVersion == "" {
		return "unknown"
	}
	return h.Status.AgentVersion
}

// EffectiveLabels returns the labels of the spec and of agent.yaml, which wins. Column hosts.labels holds the same.
func (h Host) EffectiveLabels() map[string]string {
	return MergeHostLabels(h.Spec, h.AgentSettings())
}

// MergeHostLabels returns the labels of a host with this spec and these settings of its agent, which win.
func MergeHostLabels(spec HostSpec, settings AgentSettings) map[string]string {
	out := make(map[string]string, len(spec.Labels)+len(settings.Labels))
	maps.Copy(out, spec.Labels)
	maps.Copy(out, settings.Labels)
	return out
}

// EffectiveReportInterval returns the host's report interval in seconds: that of agent.yaml, else that of the spec, else
// the default. Agents that are too old to report settings have the default. Column hosts.report_interval holds the same.
func (h Host) EffectiveReportInterval() int {
	switch settings := h.AgentSettings(); {
	case h.Status == nil || h.Status.Settings == nil:
	case settings.ReportInterval != 0:
		return settings.ReportInterval
	case h.Spec.ReportInterval != 0:
		return h.Spec.ReportInterval
	}
	return DefaultReportInterval
}
