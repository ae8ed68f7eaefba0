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
	MaxValues      = 32  // of one finding; the same number of attributes
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

// CheckReport is the newest result of one check. Findings are all that hold now.
type CheckReport struct {
	Check    string     `json:"check"`
	State    CheckState `json:"state"`
	Reason   string     `json:"reason,omitempty"` // of CheckFailed and CheckUnavailable
	Findings []Finding  `json:"findings,omitempty"`
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
// report until the portal has accepted it.
type Report struct {
	Instance    string        `json:"instance"`
	Number      int64         `json:"number"`
	Checks      []CheckReport `json:"checks,omitempty"`
	Occurrences []Occurrence  `json:"occurrences,omitempty"`
	Dropped     int64         `json:"dropped,omitempty"` // occurrences that the agent has dropped since the last report
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

// Changes are the differences between the open conditions of one check and its newest report.
type Changes struct {
	Raise  []Finding // new
	Update []Finding // with another severity or text
	Notify []Finding // those of Update whose severity has changed
	Clear  []Finding // no longer found
}

// Diff compares the open conditions of a check with its report. Occurrences are never cleared by a report.
func Diff(open []Condition, r CheckReport) Changes {
	var out Changes
	if r.State == CheckFailed {
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
		case !f.equal(was.Finding):
			out.Update = append(out.Update, f)
			if f.Severity != was.Severity {
				out.Notify = append(out.Notify, f)
			}
		}
	}
	for _, c := range open {
		if _, known := held[c.Key()]; known && !seen[c.Key()] {
			out.Clear = append(out.Clear, c.Finding)
		}
	}
	return out
}

// equal ignores small changes of values, because each difference is a write.
func (f Finding) equal(other Finding) bool {
	return f.Severity == other.Severity && f.Text == other.Text && maps.Equal(f.Attributes, other.Attributes)
}

// Valid returns the report within the bounds: long texts are cut, unknown severities become warnings, and entries beyond
// a bound are dropped. dropped counts the dropped entries.
func (r Report) Valid() (out Report, dropped int) {
	out = r
	out.Instance = cut(r.Instance, MaxName)
	dropped += max(len(r.Checks)-MaxChecks, 0) + max(len(r.Occurrences)-MaxOccurrences, 0)
	out.Checks = slices.Clone(r.Checks[:min(len(r.Checks), MaxChecks)])
	for i, c := range out.Checks {
		c.Check, c.Reason = cut(c.Check, MaxName), cut(c.Reason, MaxText)
		if c.State != CheckOK && c.State != CheckFailed && c.State != CheckUnavailable {
			c.State = CheckFailed
		}
		dropped += max(len(c.Findings)-MaxFindings, 0)
		c.Findings = slices.Clone(c.Findings[:min(len(c.Findings), MaxFindings)])
		for j, f := range c.Findings {
			c.Findings[j] = f.valid()
		}
		out.Checks[i] = c
	}
	out.Occurrences = slices.Clone(r.Occurrences[:min(len(r.Occurrences), MaxOccurrences)])
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
