// Package alarm decides which alarms to raise, to keep and to clear. It is pure: the conditions that hold, the open
// alarms and the time are its input.
package alarm

import (
	"slices"
	"time"

	"quantix/internal/fleet"
)

// Key identifies an open alarm of a rule.
type Key struct {
	Subject fleet.Subject
	HostID  fleet.HostID // only for pools and networks
	Cause   string
}

// Finding is a condition of a rule that holds for an object.
type Finding struct {
	Key
	SubjectName string
	ProjectID   *fleet.ProjectID
	Severity    fleet.AlarmSeverity
	Text        string
	Plain       string // Cause without details of hosts, for users who do not see hosts
	Remedy      string
	Value       *float64
	Count       int64
}

// Open is an alarm that is not cleared, or a condition that has not held long enough to be an alarm.
type Open struct {
	ID fleet.AlarmID
	Key
	Severity   fleet.AlarmSeverity
	Text       string
	Remedy     string
	Value      *float64
	Count      int64
	Since      time.Time  // the condition holds since then
	RaisedAt   *time.Time // nil: no alarm yet
	ClearSince *time.Time // the condition of an alarm does not hold since then; nil: it holds
	// Stale says that the host's reports are too old, so that the condition is unknown.
	Stale bool
}

// Update is a changed Open.
type Update struct {
	Open
	Raised    bool // the alarm was raised now
	Escalated bool // the severity has changed since the alarm was raised
}

// Changes are what one evaluation of a rule changes.
type Changes struct {
	Add    []Finding
	Raise  map[Key]bool // findings of Add that are alarms at once
	Update []Update
	Clear  []fleet.AlarmID
	Forget []fleet.AlarmID // conditions that ended before they were alarms
}

// ClearDelay is how long a condition must not hold before its alarm is cleared, so that a short gap does not clear and
// raise it again.
const ClearDelay = 30 * time.Second

// valueStep is the relative change of a value that is worth a write.
const valueStep = 0.05

// Evaluate compares the conditions that hold now with the open alarms of a rule. wait is the duration that the rule
// requires. paused is how long no rule was evaluated before now; conditions do not count as held during this time.
func Evaluate(findings []Finding, open []Open, wait, paused time.Duration, now time.Time) Changes {
	var out Changes
	held := make(map[Key]*Finding, len(findings))
	for i, f := range findings {
		if _, twice := held[f.Key]; !twice {
			held[f.Key] = &findings[i]
		}
	}
	for _, o := range open {
		f := held[o.Key]
		delete(held, o.Key)
		was := o
		if o.RaisedAt == nil && paused > 0 {
			o.Since = o.Since.Add(paused)
			if o.Since.After(now) {
				o.Since = now
			}
		}
		switch {
		case f == nil && o.Stale:
		case f == nil && o.RaisedAt == nil:
			out.Forget = append(out.Forget, o.ID)
			continue
		case f == nil && o.ClearSince == nil:
			o.ClearSince = &now
		case f == nil:
			if now.Sub(*o.ClearSince) >= ClearDelay {
				out.Clear = append(out.Clear, o.ID)
				continue
			}
		default:
			o.ClearSince = nil
			o.take(*f)
			if o.RaisedAt == nil && now.Sub(o.Since) >= wait {
				o.RaisedAt = &now
			}
		}
		if o.differs(was) {
			out.Update = append(out.Update, Update{
				Open: o, Raised: was.RaisedAt == nil && o.RaisedAt != nil,
				Escalated: was.RaisedAt != nil && o.Severity != was.Severity,
			})
		}
	}
	out.Raise = map[Key]bool{}
	for _, f := range findings { // in their order
		if held[f.Key] == nil {
			continue
		}
		delete(held, f.Key)
		out.Add = append(out.Add, f)
		out.Raise[f.Key] = wait == 0
	}
	return out
}

// take copies the changing parts of a finding. A value that has hardly changed is kept, because each change is a write.
func (o *Open) take(f Finding) {
	o.Severity, o.Text, o.Remedy, o.Count = f.Severity, f.Text, f.Remedy, f.Count
	if o.Value == nil || f.Value == nil || abs(*f.Value-*o.Value) > valueStep*max(abs(*f.Value), abs(*o.Value)) {
		o.Value = f.Value
	}
}

func abs(v float64) float64 { return max(v, -v) }

func (o Open) differs(was Open) bool {
	return o.Severity != was.Severity || o.Text != was.Text || o.Remedy != was.Remedy || o.Count != was.Count || !equal(o.Value, was.Value) ||
		!o.Since.Equal(was.Since) || !equal(o.RaisedAt, was.RaisedAt) || !equal(o.ClearSince, was.ClearSince)
}

func equal[T comparable](x, y *T) bool {
	return x == y || x != nil && y != nil && *x == *y
}

// InScope reports whether an object is within the scope of a rule.
func InScope(s fleet.AlarmScope, o Object) bool {
	switch {
	case s.ClusterID != "" && !slices.Contains(o.Clusters, s.ClusterID):
		return false
	case s.ProjectID != "" && (o.ProjectID == nil || *o.ProjectID != s.ProjectID):
		return false
	case s.Subject != "" && o.Subject != s.Subject:
		return false
	case s.Labels != "":
		var c fleet.Checks
		return fleet.ParseSelector(&c, "", s.Labels).Matches(o.Labels) && c.Err() == nil
	}
	return true
}

// Object is what the scope of a rule looks at.
type Object struct {
	Subject   fleet.Subject
	Clusters  []fleet.ClusterID
	ProjectID *fleet.ProjectID
	Labels    map[string]string
}
