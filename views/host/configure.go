package host

import (
	"maps"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// SettingsForm holds a host's editable settings, as typed.
type SettingsForm struct {
	Labels, Taints, Description string
	Schedulable                 bool
	Roles                       fleet.HostRoles
	CPURatio, MemoryRatio       string
	ReservedCPU, ReservedMiB    string
	ReportInterval              string // seconds
	ClusterID                   string
	Clusters                    []kit.Option     // all clusters
	Defaults                    fleet.Overcommit // ratios of the host's cluster
	Generation                  int64
	Errors                      kit.Errors
}

// TaintLines formats taints for the form, one per line.
func TaintLines(taints []fleet.Taint) string {
	lines := make([]string, len(taints))
	for i, t := range taints {
		lines[i] = t.Text()
	}
	return strings.Join(lines, "\n")
}

// taintHelp says what each effect of a taint does.
var taintHelp = map[fleet.TaintEffect]string{
	fleet.NoSchedule:       "VMs without a toleration for this taint are not placed on this host",
	fleet.PreferNoSchedule: "VMs without a toleration for this taint are placed on other hosts if possible",
	fleet.NoExecute:        "VMs without a toleration for this taint are not placed on this host",
}

// allocatableText says what VMs can have on the host in total.
func allocatableText(c fleet.HostCapacity) string {
	return fleet.FormatCount(c.AllocatableCPUs) + " vCPUs and " + kit.Bytes(c.AllocatableMemoryMiB<<20) + " of memory can be allocated to VMs now."
}

// portalLabels are the host's labels that agent.yaml does not set.
func portalLabels(h fleet.HostView) map[string]string {
	labels := maps.Clone(h.Spec.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool {
		_, own := h.AgentSettings().Labels[key]
		return own
	})
	return labels
}

// replacedLabels lists the portal's labels that agent.yaml replaces by another value: "rack=4, zone=b".
func replacedLabels(h fleet.HostView) string {
	replaced := map[string]string{}
	for key, own := range h.AgentSettings().Labels {
		if value, ok := h.Spec.Labels[key]; ok && value != own {
			replaced[key] = value
		}
	}
	return strings.Join(kit.LabelTexts(replaced), ", ")
}

// reportIntervalFact is the host's report interval and where it is set: "20 s (agent.yaml)".
func reportIntervalFact(h fleet.HostView) string {
	text := strconv.Itoa(h.ReportInterval) + " s"
	if h.AgentSettings().ReportInterval != 0 {
		return text + " (agent.yaml)"
	}
	return text
}

// reportIntervalField is the form's field of the report interval. It is disabled, with the reason, if the portal cannot
// set the interval.
func reportIntervalField(h fleet.HostView, in SettingsForm) kit.Field {
	f := kit.Field{
		Name: "reportInterval", Label: "Report interval", Value: in.ReportInterval, Unit: "s", Short: true, Error: in.Errors.At("spec.reportInterval"),
		Hint:  "5 to 60 s. The host counts as offline after three intervals without a report. A change reaches the host with its next report.",
		Attrs: templ.Attributes{"inputmode": "numeric", "placeholder": strconv.Itoa(fleet.DefaultReportInterval)},
	}
	if why := reportIntervalRefusal(h); why != "" {
		f.Value, f.Hint = strconv.Itoa(h.ReportInterval), why
		f.Attrs["disabled"] = true
	}
	return f
}

// reportIntervalRefusal is the reason why the portal cannot set the host's report interval; empty if it can.
func reportIntervalRefusal(h fleet.HostView) string {
	switch {
	case h.AgentSettings().ReportInterval != 0:
		return "Set by reportInterval in agent.yaml on the host, which wins over the portal."
	case h.Status != nil && h.Status.Settings == nil:
		return "The host's agent is too old to change its interval. Update the agent."
	}
	return ""
}
