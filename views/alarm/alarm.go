// Package alarm renders alarms and alarm rules: the open alarms, the list of all alarms, one alarm with its history, and
// the list and form of rules.
package alarm

import (
	"hash/fnv"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/alarm"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

const alarmsPath = "/alarms"

// tabs are the lists of alarms, of rules and of what else belongs to alarms.
func tabs(a fleet.Actor, here string) []kit.Tab {
	out := []kit.Tab{{Text: "Open", Href: alarmsPath}, {Text: "All", Href: alarmsPath + "?tab=all"}}
	for _, t := range kit.ResourceTabs(fleet.TypeAlarm) {
		if info, ok := fleet.ResourceTypeByPlural(t.Key); ok && policy.May(a, info.See, "") {
			out = append(out, t)
		}
	}
	for i := range out {
		out[i].Here = out[i].Href == here
	}
	return out
}

// OpenPage shows the open alarms in groups.
type OpenPage struct {
	Actor  fleet.Actor
	Groups []fleet.AlarmGroup
	More   bool // there are more groups than shown
	Counts fleet.AlarmCounts
	Now    time.Time
}

// severityOf returns the severity that gives an alarm its icon and colour.
func severityOf(s fleet.AlarmSeverity) fleet.Severity {
	switch s {
	case fleet.AlarmCritical:
		return fleet.SeverityBad
	case fleet.AlarmWarning:
		return fleet.SeverityWarn
	}
	return fleet.SeverityIdle
}

func severityIcon(s fleet.AlarmSeverity) string {
	if s == fleet.AlarmInfo {
		return "info"
	}
	return "triangle-alert"
}

func severityText(s fleet.AlarmSeverity) string {
	for _, o := range fleet.AlarmSeverities {
		if o.Value == string(s) {
			return o.Text
		}
	}
	return string(s)
}

// groupText is the text of a group: of a single alarm its own text.
func groupText(g fleet.AlarmGroup) string {
	if g.Count == 1 && len(g.Alarms) == 1 {
		return g.Alarms[0].Text
	}
	return g.Cause
}

// objectTypeNames are the singular words for the objects of alarms.
var objectTypeNames = map[fleet.ResourceType]string{fleet.TypeVM: "VM", fleet.TypeNetwork: "network", fleet.TypeSecurityGroup: "security group"}

// objectsText describes the objects of a group: "40 hosts".
func objectsText(g fleet.AlarmGroup) string {
	word := "object"
	if len(g.Alarms) > 0 {
		of, _ := g.Alarms[0].Subject.ResourceAndID()
		word = of
		if name, ok := objectTypeNames[fleet.ResourceType(of)]; ok {
			word = name
		}
		if g.Alarms[0].HostName != "" {
			word = "place"
		}
	}
	return kit.CountText(g.Count, word)
}

// objectName names an alarm's object: "nfs on host-1".
func objectName(v fleet.Alarm) string {
	if v.HostName == "" {
		return v.SubjectName
	}
	return v.SubjectName + " on " + v.HostName
}

// objectPath is the page of an alarm's object; empty: none.
func objectPath(v fleet.Alarm) string {
	of, id := v.Subject.ResourceAndID()
	return fleet.ResourceType(of).Info().PagePath(id)
}

// groupQuery names a group in the address of a dialog.
func groupQuery(g fleet.AlarmGroup) string {
	return url.Values{"rule": {string(g.RuleID)}, "cause": {g.Cause}}.Encode()
}

// groupAlarmsPath is the list of a group's alarms.
func groupAlarmsPath(g fleet.AlarmGroup) string {
	return alarmsPath + "?" + url.Values{"tab": {"all"}, "filter": {"state:open rule:" + strconv.Quote(g.RuleName)}}.Encode()
}

func (p OpenPage) groupActions(g fleet.AlarmGroup) []kit.ActionButton {
	query := groupQuery(g)
	silence := kit.ActionButton{Icon: "clock", Word: "Silence", Href: alarmsPath + "/silence?" + query, Dialog: true}
	if g.Silenced == g.Count {
		silence = kit.ActionButton{Icon: "clock", Word: "End silence", Post: alarmsPath + "/unsilence", PostValues: []kit.FormValue{{Name: "rule", Value: string(g.RuleID)}, {Name: "cause", Value: g.Cause}}, Back: alarmsPath}
	}
	out := []kit.ActionButton{
		{Icon: "check", Word: "Acknowledge", Href: alarmsPath + "/acknowledge?" + query, Dialog: true},
		silence,
	}
	for i := range out {
		out[i] = out[i].RequirePermission(p.Actor, policy.VMChange)
	}
	out = append(out, kit.ActionButton{Icon: "list-checks", Word: "Alarms of this rule", Href: groupAlarmsPath(g)})
	if policy.May(p.Actor, policy.InfraSee, "") {
		out = append(out, kit.ActionButton{Icon: "pencil", Word: "Rule", Href: views.AlarmRulePath(g.RuleID)})
	}
	return out
}

// groupState describes acknowledgements and silence of a group; empty: none.
func groupState(g fleet.AlarmGroup) (out []string) {
	part := func(n int, word string) string {
		if n == g.Count {
			return word
		}
		return strconv.Itoa(n) + " of " + strconv.Itoa(g.Count) + " " + strings.ToLower(word)
	}
	if g.Silenced > 0 {
		out = append(out, part(g.Silenced, "Silenced"))
	}
	if g.Acknowledged > 0 {
		out = append(out, part(g.Acknowledged, "Acknowledged"))
	}
	return out
}

// groupNote is the note of the first acknowledged alarm.
func groupNote(g fleet.AlarmGroup) string {
	for _, v := range g.Alarms {
		if v.Note != "" {
			return v.AcknowledgedBy + ": " + v.Note
		}
	}
	return ""
}

// ListPage is the list of all alarms.
type ListPage struct {
	kit.List
	Actor  fleet.Actor
	Alarms []fleet.Alarm
	Now    time.Time
}

// Columns are the columns of the list of alarms.
var Columns = kit.Columns{
	{Key: "severity", Label: "Severity"},
	{Key: "alarm", Label: "Alarm"},
	{Key: "rule", Label: "Rule"},
	{Key: "state", Label: "State"},
	{Key: "raised", Label: "Raised", Sort: "raised"},
	{Key: "cleared", Label: "Cleared", OnRequest: true},
	{Key: "count", Label: "Count", Class: "num", OnRequest: true},
	{Key: "note", Label: "Note", OnRequest: true},
	{Key: "id", Label: "UUID", OnRequest: true},
}

// CSV are the columns of the export of alarms.
var CSV = []kit.CSVColumn[fleet.Alarm]{
	{Name: "id", Value: func(v *fleet.Alarm) string { return string(v.ID) }},
	{Name: "severity", Value: func(v *fleet.Alarm) string { return string(v.Severity) }},
	{Name: "object", Value: func(v *fleet.Alarm) string { return string(v.Subject) }},
	{Name: "name", Value: func(v *fleet.Alarm) string { return v.SubjectName }},
	{Name: "host", Value: func(v *fleet.Alarm) string { return v.HostName }},
	{Name: "rule", Value: func(v *fleet.Alarm) string { return v.RuleName }},
	{Name: "text", Value: func(v *fleet.Alarm) string { return v.Text }},
	{Name: "raised", Value: func(v *fleet.Alarm) string { return kit.CSVTime(&v.RaisedAt) }},
	{Name: "acknowledged", Value: func(v *fleet.Alarm) string { return kit.CSVTime(v.AcknowledgedAt) }},
	{Name: "acknowledgedBy", Value: func(v *fleet.Alarm) string { return v.AcknowledgedBy }},
	{Name: "note", Value: func(v *fleet.Alarm) string { return v.Note }},
	{Name: "cleared", Value: func(v *fleet.Alarm) string { return kit.CSVTime(v.ClearedAt) }},
	{Name: "count", Value: func(v *fleet.Alarm) string { return strconv.FormatInt(v.Count, 10) }},
}

func (p *ListPage) table() kit.Table[fleet.Alarm] {
	return kit.Table[fleet.Alarm]{
		List: &p.List, ID: "alarm-rows", Live: "alarms", Every: "30s", Label: "Alarms", Type: "alarm", Head: kit.Column{Label: "Object"},
		Items: p.Alarms, EmptyContent: emptyListNote(),
		Row: func(v *fleet.Alarm) kit.Row {
			return kit.Row{ID: "alarm-" + string(v.ID), Name: objectName(*v), Href: views.AlarmPath(v.ID)}
		},
		RowCells: func(shown kit.Columns, v *fleet.Alarm) templ.Component { return alarmRow(shown, v, p) },
	}
}

// stateText describes the state of an alarm.
func stateText(v fleet.Alarm, now time.Time) string {
	switch {
	case v.ClearedAt != nil:
		return "Cleared"
	case v.SilencedUntil != nil && v.SilencedUntil.After(now):
		return "Silenced"
	case v.AcknowledgedAt != nil:
		return "Acknowledged"
	}
	return "Open"
}

// Page shows one alarm with its history.
type Page struct {
	Actor fleet.Actor
	Link  kit.Link
	Alarm fleet.AlarmDetails
	Now   time.Time
}

func (p Page) actions() []kit.ActionButton {
	v, query := p.Alarm, "id="+url.QueryEscape(string(p.Alarm.ID))
	silence := kit.ActionButton{Icon: "clock", Word: "Silence", Href: alarmsPath + "/silence?" + query, Dialog: true}
	if v.SilencedUntil != nil && v.SilencedUntil.After(p.Now) {
		silence = kit.ActionButton{Icon: "clock", Word: "End silence", Post: alarmsPath + "/unsilence", PostValues: []kit.FormValue{{Name: "id", Value: string(v.ID)}}, Back: views.AlarmPath(v.ID)}
	}
	out := []kit.ActionButton{{Icon: "check", Word: "Acknowledge", Href: alarmsPath + "/acknowledge?" + query, Dialog: true}, silence}
	for i := range out {
		if v.ClearedAt != nil {
			out[i] = out[i].DisableFor("The alarm is cleared.")
		}
		out[i] = out[i].RequirePermission(p.Actor, policy.VMChange)
	}
	return out
}

// monitorPath is the Monitor tab of the alarm's object; empty: it has none.
func (p Page) monitorPath() string {
	switch of, _ := p.Alarm.Subject.ResourceAndID(); fleet.ResourceType(of) {
	case fleet.TypeVM, fleet.TypeHost, fleet.TypePool:
		return views.TabPath(objectPath(p.Alarm.Alarm), "monitor")
	}
	return ""
}

func valueText(v fleet.Alarm) string {
	if v.Value == nil {
		return ""
	}
	out := alarm.FormatValue(*v.Value, v.Unit)
	if v.Threshold != nil {
		out += " (threshold " + alarm.FormatValue(*v.Threshold, v.Unit) + ")"
	}
	return out
}

var eventTexts = map[fleet.AlarmEventKind]string{
	fleet.AlarmRaised: "Raised", fleet.AlarmAcknowledged: "Acknowledged", fleet.AlarmSilenced: "Silenced", fleet.AlarmUnsilenced: "Silence ended",
	fleet.AlarmCleared: "Cleared", fleet.AlarmEscalated: "Severity changed",
}

// Selection names one alarm or a group, in the dialogs.
type Selection struct {
	ID          fleet.AlarmID
	RuleID      fleet.AlarmRuleID
	Cause, Note string
	For         string // of a silence: seconds
	Text        string // what the selection is
	Errors      kit.Errors
}

func (s Selection) back() string {
	if s.ID != "" {
		return views.AlarmPath(s.ID)
	}
	return alarmsPath
}

// silenceOptions are the durations of a silence.
var silenceOptions = []kit.Option{{Value: "3600", Text: "1 hour"}, {Value: "14400", Text: "4 hours"}, {Value: "86400", Text: "1 day"}, {Value: "604800", Text: "1 week"}, {Value: "2592000", Text: "30 days"}}

// HasSilence reports whether the duration is one of the options.
func HasSilence(seconds string) bool {
	for _, o := range silenceOptions {
		if o.Value == seconds {
			return true
		}
	}
	return false
}

func bannerKind(s fleet.AlarmSeverity) string {
	switch s {
	case fleet.AlarmCritical:
		return "bad"
	case fleet.AlarmWarning:
		return "warn"
	}
	return "info"
}

// countsText lists the numbers of alarms by severity: "2 critical, 1 warning".
func countsText(c fleet.AlarmCounts) string {
	var parts []string
	for _, o := range fleet.AlarmSeverities {
		if n := c[fleet.AlarmSeverity(o.Value)]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+o.Value)
		}
	}
	return strings.Join(parts, ", ")
}

func noAlarmsHint(a fleet.Actor) string {
	if policy.May(a, policy.InfraSee, "") {
		return "Lost hosts, unhealthy or full pools, faults of VMs and failed tasks are listed here."
	}
	return "Faults of your VMs and failed tasks are listed here."
}

// groupRowID is the element id of a group's row.
func groupRowID(g fleet.AlarmGroup) string {
	cause := fnv.New32a()
	_, _ = cause.Write([]byte(g.Cause))
	return "alarms-" + string(g.RuleID) + "-" + strconv.FormatUint(uint64(cause.Sum32()), 36)
}
