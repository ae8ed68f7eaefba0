// Package healthpolicy renders health policies: the list, the page of one policy with its matches and its form, and the
// trial of an expression.
package healthpolicy

import (
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthpolicy"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

const listPath = "/policies"

// ListPage is the list of policies.
type ListPage struct {
	Actor    fleet.Actor
	Policies []healthpolicy.Policy
	MaxHosts int
	Now      time.Time
}

// tabs are the tabs of the area Alarms, to which policies belong.
func (p ListPage) tabs() []kit.Tab {
	out := []kit.Tab{{Text: "Open", Href: "/alarms"}, {Text: "All", Href: "/alarms?tab=all"}}
	for _, t := range kit.ResourceTabs(fleet.TypeAlarm) {
		if info, ok := fleet.ResourceTypeByPlural(t.Key); ok && policy.May(p.Actor, info.See, "") {
			t.Here = t.Href == listPath
			out = append(out, t)
		}
	}
	return out
}

func (p ListPage) actions() []kit.ActionButton {
	return []kit.ActionButton{
		kit.ActionButton{Icon: "plus", Word: "New policy", Href: listPath + "/new"}.RequirePermission(p.Actor, policy.InfraChange),
		kit.ActionButton{Icon: "wrench", Word: "Settings", Href: listPath + "/settings", Dialog: true}.RequirePermission(p.Actor, policy.InfraChange),
	}
}

func (p ListPage) maxHostsText() string {
	switch p.MaxHosts {
	case 0:
		return "Policies drain no host."
	case 1:
		return "Policies drain 1 host at a time."
	}
	return "Policies drain " + strconv.Itoa(p.MaxHosts) + " hosts at a time."
}

// policyState describes whether a policy acts.
func policyState(p healthpolicy.Policy) (class, icon, text string) {
	switch {
	case p.Spec.Disabled:
		return "muted", "circle-pause", "Disabled"
	case p.LastError != "":
		return "bad", "triangle-alert", "Failing"
	case p.Spec.DryRun:
		return "muted", "eye", "Dry run"
	}
	return "ok", "circle-check", "Enabled"
}

func severityClass(s fleet.AlarmSeverity) (class, icon, text string) {
	switch s {
	case fleet.AlarmCritical:
		return "bad", "triangle-alert", "Critical"
	case fleet.AlarmWarning:
		return "warn", "triangle-alert", "Warning"
	}
	return "muted", "info", "Info"
}

// matchState describes what the portal does about a match.
func matchState(m healthpolicy.Match) (class, icon, text string) {
	switch {
	case m.EndedAt != nil:
		return "muted", "check", "Ended"
	case m.DryRun:
		return "muted", "eye", "Dry run"
	case m.State == healthpolicy.Waiting:
		return "warn", "clock", "Waiting"
	case m.State == healthpolicy.Released:
		return "muted", "circle-x", "Released"
	case m.State == healthpolicy.New:
		return "warn", "loader", "New"
	}
	return "ok", "circle-check", "Active"
}

// capitalized returns the text with a capital first letter.
func capitalized(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Page shows a new or existing policy with its form, and the matches of an existing one.
type Page struct {
	Actor    fleet.Actor
	Policy   healthpolicy.Policy // empty ID: a new policy
	Matches  []healthpolicy.Match
	Form     Form
	Channels []kit.Option // of the fleet
	Trial    *healthpolicy.Trial
	Now      time.Time
}

// Form holds a policy as typed.
type Form struct {
	ID                         healthpolicy.ID
	Name, Description          string
	Expression, Severity       string
	Taint, Notify, Order       string
	Alarm, Cordon, Drain       bool
	DryRun, Disabled, Disarmed bool
	Generation                 int64
	Errors                     kit.Errors
}

// NewForm returns the form of a policy.
func NewForm(p healthpolicy.Policy) Form {
	s := p.Spec
	f := Form{
		ID: p.ID, Name: p.Name, Description: s.Description, Expression: s.Expression, Severity: string(s.Severity), Taint: s.Actions.Taint, Notify: string(s.Actions.Notify),
		Alarm: s.Actions.Alarm, Cordon: s.Actions.Cordon, Drain: s.Actions.Drain, DryRun: s.DryRun, Disabled: s.Disabled, Generation: p.Generation,
	}
	if s.Order != 0 {
		f.Order = strconv.Itoa(s.Order)
	}
	return f
}

func (p Page) isNew() bool { return p.Policy.ID == "" }

func (p Page) path(below ...string) string { return views.HealthPolicyPath(p.Policy.ID, below...) }

func (p Page) formAction() string {
	if p.isNew() {
		return listPath
	}
	return p.path("edit")
}

func (p Page) submitWord() string {
	if p.isNew() {
		return "Create policy"
	}
	return "Save"
}

func (p Page) backPath() string {
	if p.isNew() {
		return listPath
	}
	return p.path()
}

// whyNot is why the actor may not change policies; empty: may.
func (p Page) whyNot() string {
	return kit.ActionButton{}.RequirePermission(p.Actor, policy.InfraChange).Why
}

func (p Page) actions() []kit.ActionButton {
	return []kit.ActionButton{kit.ActionButton{Icon: "trash-2", Word: "Delete policy", Href: p.path("delete"), Dialog: true, Danger: true}.RequirePermission(p.Actor, policy.InfraChange)}
}

func severityOptions() []kit.Option {
	out := make([]kit.Option, len(fleet.AlarmSeverities))
	for i, o := range fleet.AlarmSeverities {
		out[i] = kit.Option{Value: o.Value, Text: o.Text}
	}
	return out
}

// channelOptions are the channels that the form offers.
func (p Page) channelOptions() []kit.Option {
	return append([]kit.Option{{Text: "No channel"}}, p.Channels...)
}

// ReleaseAction undoes what a match did to its host.
func ReleaseAction(a fleet.Actor, m healthpolicy.Match, back string) kit.ActionButton {
	out := kit.ActionButton{
		Icon: "x", Word: "Release", Label: "Release " + m.HostName + " from " + m.PolicyName, Post: listPath + "/matches/" + strconv.FormatInt(m.ID, 10) + "/release", Back: back,
		Confirm: "Undo what the policy " + m.PolicyName + " did to " + m.HostName + "? It does not act again before the condition has ended.", ConfirmTone: "primary",
	}
	return out.RequirePermission(a, policy.InfraChange)
}

// impactText describes the effects of the policy on hosts whose conditions match now.
func impactText(t healthpolicy.Trial) string {
	if len(t.NowHosts) == 0 {
		return "No condition that holds now matches, so that the policy would do nothing at once."
	}
	names := t.NowHosts
	const most = 8
	more := ""
	if n := len(names) - most; n > 0 {
		names, more = names[:most], " and "+strconv.Itoa(n)+" more"
	}
	return kit.CountText(t.NowCounts, "condition") + " on " + strconv.Itoa(len(t.NowHosts)) + " of " + kit.CountText(t.Hosts, "host") + " match now: " + strings.Join(names, ", ") + more + ". The policy would act on them at once."
}

func trialText(t healthpolicy.Trial) string {
	out := strconv.Itoa(t.Matched) + " of " + kit.CountText(t.Events, "event") + " of the last 7 days match."
	if t.More {
		out = strconv.Itoa(t.Matched) + " of the newest " + kit.CountText(t.Events, "event") + " match. Older events were not tried."
	}
	return out
}
