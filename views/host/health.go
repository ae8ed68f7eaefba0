package host

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// HealthTab is the data of the tab Health.
type HealthTab struct {
	healthevent.HostHealth
	Events   []healthevent.Event
	Older    int64 // ID for the next page; 0: there is none
	Newer    int64 // ID for the previous page; 0: there is none
	Severity fleet.AlarmSeverity
	Check    string
}

// healthSeverity returns the severity that gives a condition or an event its icon and colour.
func healthSeverity(s fleet.AlarmSeverity) fleet.Severity {
	switch s {
	case fleet.AlarmCritical:
		return fleet.SeverityBad
	case fleet.AlarmWarning:
		return fleet.SeverityWarn
	}
	return fleet.SeverityIdle
}

func healthSeverityLook(s fleet.AlarmSeverity) (class, icon, word string) {
	class, icon, word = kit.SeverityClass(healthSeverity(s)), "triangle-alert", string(s)
	if s == fleet.AlarmInfo {
		icon = "info"
	}
	for _, o := range fleet.AlarmSeverities {
		if o.Value == string(s) {
			word = o.Text
		}
	}
	return class, icon, word
}

// healthSummaryText is the word for a host's open conditions in lists: "2 conditions".
func healthSummaryText(s healthevent.Summary) string { return kit.CountText(s.Conditions, "condition") }

// eventKindLook is the word for the kind of an event, with its icon.
func eventKindLook(k healthevent.Kind) (class, icon, word string) {
	switch k {
	case healthevent.Raised:
		return "warn", "triangle-alert", "Raised"
	case healthevent.Changed:
		return "warn", "triangle-alert", "Severity changed"
	case healthevent.Cleared:
		return "ok", "circle-check", "Cleared"
	case healthevent.Resolved:
		return "ok", "circle-check", "Resolved"
	}
	return "", "info", "Occurred"
}

// reportsAreCurrent reports whether the states of checks are those of now. Those of an offline host are unknown.
func (p Page) reportsAreCurrent() bool {
	return p.Host.Phase == fleet.HostOnline || p.Host.Phase == fleet.HostDegraded
}

// checkLook is the state of a check.
func (p Page) checkLook(c healthevent.CheckStatus) (class, icon, word string) {
	if !p.reportsAreCurrent() {
		return "unknown", "circle-question-mark", "Unknown"
	}
	switch c.State {
	case healthevent.CheckOK:
		n := 0
		for _, o := range p.Health.Conditions { // the most serious one first
			if o.Check != c.Check || o.Occurrence {
				continue
			}
			if n++; n == 1 {
				class, icon, _ = healthSeverityLook(o.Severity)
			}
		}
		if n > 0 {
			return class, icon, kit.CountText(n, "finding")
		}
		return "ok", "circle-check", "OK"
	case healthevent.CheckUnavailable:
		return "", "circle-stop", "Not available"
	}
	return "bad", "triangle-alert", "Failed"
}

// checkExplanation is the tooltip of a check's state.
func (p Page) checkExplanation(c healthevent.CheckStatus) string {
	if p.reportsAreCurrent() {
		return ""
	}
	return "The host is offline. Its last report: " + string(c.State)
}

// checkRows are the checks in the order of healthevent.Checks, then those that the table lacks.
func (p Page) checkRows() (out []healthevent.CheckStatus) {
	listed := map[string]bool{}
	for _, info := range healthevent.Checks {
		listed[info.Name] = true
		for _, c := range p.Health.Checks {
			if c.Check == info.Name {
				out = append(out, c)
			}
		}
	}
	for _, c := range p.Health.Checks {
		if !listed[c.Check] {
			out = append(out, c)
		}
	}
	return out
}

// resolveAction ends an occurrence. A finding cannot be resolved.
func (p Page) resolveAction(c healthevent.Condition) kit.ActionButton {
	act := kit.ActionButton{
		Icon: "circle-check", Word: "Resolve", Label: "Resolve " + objectText(c.Object) + ": " + c.Code, Post: p.path("health", "resolve"), Back: p.tabLink("health").String(),
		PostValues: []kit.FormValue{{Name: "check", Value: c.Check}, {Name: "object", Value: c.Object}, {Name: "code", Value: c.Code}},
	}
	if !c.Occurrence {
		act.Why = "This condition holds now. It ends when the check no longer finds it."
	}
	return act.RequirePermission(p.Actor, policy.InfraChange)
}

func (p Page) tabLink(tab string) kit.Link { return kit.Link{Path: p.path()}.With("tab", tab) }

// objectText is an object for people; the empty object is the host.
func objectText(object string) string {
	if object == "" {
		return "Host"
	}
	return object
}

// severityTabs filter the history by severity.
func (p Page) severityTabs() []kit.Tab {
	tabs := []kit.Tab{{Text: "All"}}
	for _, o := range fleet.AlarmSeverities {
		tabs = append(tabs, kit.Tab{Key: o.Value, Text: o.Text})
	}
	return kit.LinkTabs(p.Link.FirstPage(), "severity", string(p.Health.Severity), tabs...)
}

// checkLink filters the history by check; "" shows all.
func (p Page) checkLink(check string) string { return p.Link.FirstPage().With("check", check).String() }

func (p Page) eventPager() kit.Pager {
	cursor := func(id int64) string {
		if id == 0 {
			return ""
		}
		return strconv.FormatInt(id, 10)
	}
	return kit.NewPager(p.Link, len(p.Health.Events), "event", cursor(p.Health.Newer), cursor(p.Health.Older))
}

// healthTabLink is the tab with the number of open conditions.
func (p Page) healthTabLink() kit.Tab {
	out := kit.Tab{Key: "health", Text: "Health"}
	if p.Summary.Conditions > 0 {
		out.Count, out.Severity = strconv.Itoa(p.Summary.Conditions), kit.SeverityClass(healthSeverity(p.Summary.Worst))
	}
	return out
}

// HealthPath is the address of the tab Health of a host.
func HealthPath(id fleet.HostID) string {
	return kit.Link{Path: views.HostPath(id)}.With("tab", "health").String()
}
