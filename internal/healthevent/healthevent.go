// Package healthevent is the vocabulary of host health: what the health checks of an agent find, and how findings of two
// reports differ. It is pure.
//
// A finding is a condition that holds until the check no longer finds it, such as a failing disk. An occurrence has no
// end that the host could see, such as an XID error of a GPU.
package healthevent

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"quantix/internal/fleet"
)

// Bounds of reports. An agent keeps them; a portal cuts or drops what exceeds them.
const (
	MaxFindings    = 256 // of one check
	MaxChecks      = 32  // of one report
	MaxOccurrences = 256 // of one report
	MaxText        = 500 // bytes
	MaxName        = 120 // bytes of an object or of a value's name
	MaxValues      = 16  // of one finding; the same number of attributes
)

// Finding is what a check has found about one object of the host.
type Finding struct {
	Object     string              `json:"object"`               // "disk/sda", "gpu/0000:41:00.0", "pool/fast"; empty: the host
	Code       string              `json:"code"`                 // kind of the finding: "smart-failing", "xid-79"
	Severity   fleet.AlarmSeverity `json:"severity"`             // the check's proposal
	Text       string              `json:"text"`                 // one sentence
	Values     map[string]float64  `json:"values,omitempty"`     // numbers for policies: {"xid": 79}
	Attributes map[string]string   `json:"attributes,omitempty"` // texts for policies: {"model": "…"}
}

// CheckState is the state of a check on a host.
type CheckState string

const (
	CheckOK          CheckState = "ok"          // the check ran; its findings are complete
	CheckFailed      CheckState = "failed"      // the check could not run; earlier findings stay
	CheckUnavailable CheckState = "unavailable" // the host has nothing to check, or lacks the program for it
)

// CheckReport is the newest result of one check. Findings are all that hold now, except those of unread objects.
type CheckReport struct {
	Check    string     `json:"check"`
	State    CheckState `json:"state"`
	Reason   string     `json:"reason,omitempty"` // of CheckFailed and CheckUnavailable
	Findings []Finding  `json:"findings,omitempty"`
	// Unread are objects that the check could not read, such as a disk that does not answer: their earlier findings stay.
	// A failed check without unread objects has read nothing.
	Unread []string `json:"unread,omitempty"`
}

// Occurrence is something that has happened on the host. Repeats is how often it happened within a few seconds.
type Occurrence struct {
	Check   string  `json:"check"`
	Finding Finding `json:"finding"`
	AgoMs   int64   `json:"agoMs"` // age when the report is sent, by the agent's monotonic clock
	Repeats int64   `json:"repeats"`
}

// Report is what an agent sends after a check's result has changed or something has occurred. Number is the number of
// the last occurrence; numbers ascend by one during the run of an agent, whose name is Instance. An agent repeats a
// report until the portal has accepted it. Occurrences that were too many for the agent are one occurrence of the code
// EventsDropped.
type Report struct {
	Instance    string        `json:"instance"`
	Number      int64         `json:"number"`
	Checks      []CheckReport `json:"checks,omitempty"`
	Occurrences []Occurrence  `json:"occurrences,omitempty"`
}

// EventsDropped is the code of an occurrence of the check AgentCheck: a storm of events was cut.
const (
	EventsDropped = "events-dropped"
	AgentCheck    = "agent"
)

// Dropped returns the finding for n events that were too many to be sent or stored.
func Dropped(n int64) Finding {
	return Finding{
		Code: EventsDropped, Severity: fleet.AlarmInfo, Text: "Events of this host were dropped, because there were too many.",
		Values: map[string]float64{"dropped": float64(n)},
	}
}

// Kind is what an event says about its finding.
type Kind string

const (
	Raised   Kind = "raised"   // the finding is new
	Changed  Kind = "changed"  // its severity or code has changed
	Cleared  Kind = "cleared"  // the check no longer finds it
	Occurred Kind = "occurred" // an occurrence
	Resolved Kind = "resolved" // a user has resolved it
)

// Key identifies a condition of a host.
type Key struct {
	Check  string `json:"check"`
	Object string `json:"object"`
	Code   string `json:"code"`
}

// Event is one row of a host's history.
type Event struct {
	ID       int64        `json:"id"`
	HostID   fleet.HostID `json:"hostId"`
	HostName string       `json:"hostName,omitempty"`
	Kind     Kind         `json:"kind"`
	Check    string       `json:"check"`
	Finding
	At      time.Time `json:"at"`
	Repeats int64     `json:"repeats,omitempty"`  // of an occurrence
	Actor   string    `json:"actor,omitempty"`    // of Resolved: the user
	Policy  []string  `json:"policies,omitempty"` // names of the policies that the event has matched
}

// Key returns the key of the event's condition.
func (e Event) Key() Key { return Key{e.Check, e.Object, e.Code} }

// Condition is a finding that holds, or an occurrence that nobody has resolved.
type Condition struct {
	HostID   fleet.HostID `json:"hostId"`
	HostName string       `json:"hostName,omitempty"`
	Check    string       `json:"check"`
	Finding
	Since      time.Time `json:"since"`
	LastAt     time.Time `json:"lastAt"`
	Count      int64     `json:"count"`                // how often it occurred; 1 for a finding
	Occurrence bool      `json:"occurrence,omitempty"` // ends when a user resolves it
}

// Key returns the condition's key.
func (c Condition) Key() Key { return Key{c.Check, c.Object, c.Code} }

// CheckStatus is the newest state of a check on a host.
type CheckStatus struct {
	Check  string     `json:"check"`
	State  CheckState `json:"state"`
	Reason string     `json:"reason,omitempty"`
	Since  time.Time  `json:"since"`
}

// HostHealth is what is known about the health of a host.
type HostHealth struct {
	// ReportedAt is the database time of the newest report; nil: the host has not sent one, or its agent is too old.
	ReportedAt *time.Time    `json:"reportedAt"`
	Checks     []CheckStatus `json:"checks"`
	Conditions []Condition   `json:"conditions"`
}

// Summary counts the open conditions of a host. Worst is the most serious severity.
type Summary struct {
	Conditions int
	Worst      fleet.AlarmSeverity
}

// Changes are the differences between the open conditions of one check and its newest report.
type Changes struct {
	Raise  []Finding // new
	Update []Finding // with another severity, text, value or attribute
	Notify []Finding // those of Update whose severity has changed
	Clear  []Finding // no longer found
}

// Diff compares the open conditions of a check with its report. Occurrences are never cleared by a report.
func Diff(open []Condition, r CheckReport) Changes {
	var out Changes
	if r.State == CheckFailed && len(r.Unread) == 0 {
		return out
	}
	held := map[Key]Condition{}
	for _, c := range open {
		if c.Check == r.Check && !c.Occurrence {
			held[c.Key()] = c
		}
	}
	seen := map[Key]bool{}
	for _, f := range r.Findings {
		k := Key{r.Check, f.Object, f.Code}
		if seen[k] {
			continue
		}
		seen[k] = true
		was, known := held[k]
		switch {
		case !known:
			out.Raise = append(out.Raise, f)
		case !f.sameText(was.Finding) || !maps.Equal(f.Values, was.Values):
			out.Update = append(out.Update, f)
			if f.Severity != was.Severity {
				out.Notify = append(out.Notify, f)
			}
		}
	}
	for _, c := range open {
		if _, known := held[c.Key()]; known && !seen[c.Key()] && !slices.Contains(r.Unread, c.Object) {
			out.Clear = append(out.Clear, c.Finding)
		}
	}
	return out
}

// DiffersFrom reports whether the portal should get r soon, because it says something else than the earlier report.
// Values alone do not matter: a temperature changes all the time.
func (r CheckReport) DiffersFrom(earlier CheckReport) bool {
	return r.State != earlier.State || r.Reason != earlier.Reason || !slices.Equal(r.Unread, earlier.Unread) ||
		!slices.EqualFunc(r.Findings, earlier.Findings, func(a, b Finding) bool {
			return a.Object == b.Object && a.Code == b.Code && a.sameText(b)
		})
}

func (f Finding) sameText(other Finding) bool {
	return f.Severity == other.Severity && f.Text == other.Text && maps.Equal(f.Attributes, other.Attributes)
}

// Valid returns the report within the bounds: long texts are cut, unknown severities become warnings, and entries beyond
// a bound are dropped, as are checks without a name and repeated ones. dropped counts the dropped entries.
func (r Report) Valid() (out Report, dropped int) {
	out = r
	out.Instance = cut(r.Instance, MaxName)
	dropped += max(len(r.Checks)-MaxChecks, 0) + max(len(r.Occurrences)-MaxOccurrences, 0)
	out.Checks = nil
	for _, c := range r.Checks[:min(len(r.Checks), MaxChecks)] {
		c.Check, c.Reason = cut(c.Check, MaxName), cut(c.Reason, MaxText)
		if c.Check == "" || slices.ContainsFunc(out.Checks, func(o CheckReport) bool { return o.Check == c.Check }) {
			dropped++
			continue
		}
		if c.State != CheckOK && c.State != CheckFailed && c.State != CheckUnavailable {
			c.State = CheckFailed
		}
		dropped += max(len(c.Findings)-MaxFindings, 0)
		c.Findings = slices.Clone(c.Findings[:min(len(c.Findings), MaxFindings)])
		for j, f := range c.Findings {
			c.Findings[j] = f.valid()
		}
		c.Unread = slices.Clone(c.Unread[:min(len(c.Unread), MaxFindings)])
		for j, object := range c.Unread {
			c.Unread[j] = cut(object, MaxName)
		}
		out.Checks = append(out.Checks, c)
	}
	out.Occurrences = slices.Clone(r.Occurrences[max(len(r.Occurrences)-MaxOccurrences, 0):]) // Number is the last one's
	for i, o := range out.Occurrences {
		o.Check, o.Finding = cut(o.Check, MaxName), o.Finding.valid()
		o.AgoMs, o.Repeats = min(max(o.AgoMs, 0), 24*3600*1000), max(o.Repeats, 1)
		out.Occurrences[i] = o
	}
	return out, dropped
}

func (f Finding) valid() Finding {
	f.Object, f.Code, f.Text = cut(f.Object, MaxName), cut(f.Code, MaxName), cut(f.Text, MaxText)
	if !slices.ContainsFunc(fleet.AlarmSeverities, func(o fleet.Option) bool { return o.Value == string(f.Severity) }) {
		f.Severity = fleet.AlarmWarning
	}
	values, attributes := map[string]float64{}, map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(f.Values)) {
		if v := f.Values[k]; v-v == 0 && len(values) < MaxValues { // neither NaN nor infinite
			values[cut(k, MaxName)] = v
		}
	}
	for _, k := range slices.Sorted(maps.Keys(f.Attributes)) {
		if len(attributes) < MaxValues {
			attributes[cut(k, MaxName)] = cut(f.Attributes[k], MaxName)
		}
	}
	f.Values, f.Attributes = values, attributes
	return f
}

// cut bounds a text to n bytes of displayable characters.
func cut(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0xfffd {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s[:min(len(s), 4*n)], ""))
	for len(s) > n {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}
