package channel

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/request"
)

// Event is something that happened to an alarm, as one channel sends it.
type Event struct {
	Event    fleet.AlarmEventKind `json:"event"`
	At       time.Time            `json:"at"`
	Actor    string               `json:"actor,omitempty"` // of an acknowledgement
	Note     string               `json:"note,omitempty"`  // of an acknowledgement
	AlarmID  fleet.AlarmID        `json:"alarmId"`
	RuleID   fleet.AlarmRuleID    `json:"ruleId"`
	Rule     string               `json:"rule"`
	Severity fleet.AlarmSeverity  `json:"severity"`
	Subject  fleet.Subject        `json:"subject"` // "vm:<id>"
	Object   string               `json:"object"`  // name of the object
	Host     string               `json:"host,omitempty"`
	Project  fleet.ProjectID      `json:"projectId,omitempty"`
	Cause    string               `json:"cause"` // Text without names of objects
	Text     string               `json:"text"`
	Remedy   string               `json:"remedy,omitempty"`
	RaisedAt time.Time            `json:"raisedAt"`

	RequestID request.ID `json:"requestId,omitempty"` // of a request; it has no AlarmID and RuleID
	PolicyID  string     `json:"policyId,omitempty"`  // of a match of a health policy; it has no AlarmID and RuleID
}

// Events of requests.
const (
	RequestOpened  fleet.AlarmEventKind = "request.opened"
	RequestDecided fleet.AlarmEventKind = "request.decided"
)

// PolicyMatched is the event of a health policy, which names the channel that sends it.
const PolicyMatched fleet.AlarmEventKind = "policy.matched"

// isRequest reports whether the event is about a request.
func (e Event) isRequest() bool { return e.RequestID != "" }

// path is the page of the event's alarm, request or policy in the portal.
func (e Event) path() string {
	if e.isRequest() {
		return "/requests/" + string(e.RequestID)
	}
	if e.PolicyID != "" {
		return "/policies/" + e.PolicyID
	}
	return "/alarms/" + string(e.AlarmID)
}

// Message is what one request or e-mail contains.
type Message struct {
	Test   bool    `json:"test,omitempty"`
	Events []Event `json:"events"`  // the oldest first
	More   int     `json:"omitted"` // number of further events that did not fit

	// Of an e-mail that only some addresses received: those that get it at the next attempt, and those that refused it.
	Left []string `json:"left,omitempty"`
	Lost []string `json:"lost,omitempty"`

	Detailed   bool `json:"detailed,omitempty"` // the events are for a reader who sees hosts
	Unreadable bool `json:"-"`                  // the stored message is not one of this version
}

// UnmarshalJSON never fails, because a list of messages is read as a whole: a message of another version is Unreadable.
func (m *Message) UnmarshalJSON(text []byte) error {
	type plain Message
	var in plain
	if json.Unmarshal(text, &in) != nil {
		in = plain{Unreadable: true}
	}
	*m = Message(in)
	return nil
}

// Keep removes the listed events for which may returns false. It reports whether anything is left to send.
func (m *Message) Keep(may func(Event) bool) bool {
	m.Events = slices.DeleteFunc(slices.Clone(m.Events), func(e Event) bool { return !may(e) })
	return m.Test || len(m.Events) > 0
}

// maxEvents limits the events of a message. Alertmanager has no message for people and needs all events, so that it gets
// more messages instead.
const maxEvents = 200

// Full reports whether further events go into a new message.
func (m Message) Full(k Kind) bool { return k == Alertmanager && len(m.Events) >= maxEvents }

// Add adds an event, or counts it.
func (m *Message) Add(e Event) {
	if len(m.Events) >= maxEvents {
		m.More++
		return
	}
	m.Events = append(m.Events, e)
}

// Wants reports whether a channel sends an event. Whether its receiver may see the alarm is checked by the caller.
func (s Spec) Wants(e Event) bool {
	if !slices.Contains(s.SentEvents(), e.Event) || len(s.Projects) > 0 && !slices.Contains(s.Projects, e.Project) {
		return false
	}
	if e.isRequest() {
		return s.Kind != Alertmanager
	}
	return (s.Severity == "" || severityRank(e.Severity) <= severityRank(s.Severity)) && (len(s.Rules) == 0 || slices.Contains(s.Rules, e.RuleID))
}

// SentEvents returns the events that a channel sends. Without a choice, a channel for all alarms also sends requests.
func (s Spec) SentEvents() []fleet.AlarmEventKind {
	switch {
	case len(s.Events) > 0:
		return s.Events
	case s.Severity == "" && len(s.Rules) == 0 && s.Kind != Alertmanager:
		return append(slices.Clone(DefaultEvents), RequestOpened, RequestDecided)
	}
	return DefaultEvents
}

// SendsSilenced reports whether a channel sends an event of a silenced alarm: Alertmanager has to learn the end of the alerts
// that it got before.
func (s Spec) SendsSilenced(e Event) bool {
	return s.Kind == Alertmanager && e.Event == fleet.AlarmCleared
}

// severityRank orders severities, the most serious one first; -1: unknown.
func severityRank(s fleet.AlarmSeverity) int {
	return slices.IndexFunc(fleet.AlarmSeverities, func(o fleet.Option) bool { return o.Value == string(s) })
}

// groupWait is how long the first event waits for others of the same incident.
const groupWait = 10 * time.Second

// Due returns when a message with the event is sent, if the event is its first.
func (s Spec) Due(e Event, now time.Time) time.Time {
	if s.CriticalAtOnce && e.Severity == fleet.AlarmCritical {
		return now.Add(groupWait)
	}
	due := now.Add(max(groupWait, time.Duration(s.DigestMinutes)*time.Minute))
	if s.Quiet != nil {
		due = s.Quiet.End(due)
	}
	return due
}

// MaxAttempts is the number of attempts at a message.
const MaxAttempts = 12

// retryWaits are the times before the second and each further attempt; the last one repeats. All attempts take about 9
// hours.
var retryWaits = []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour}

// RetryWait returns the time to the next attempt, after the number of attempts so far.
func RetryWait(attempts int) time.Duration {
	return retryWaits[min(max(attempts, 1), len(retryWaits))-1]
}

// group is the events of a message with the same rule, cause and kind.
type group struct {
	first    Event
	objects  []string
	severity fleet.AlarmSeverity
}

// groups returns the groups of the message: raised ones before cleared ones, the most serious first.
func (m Message) groups() (out []*group) {
	type key struct {
		kind  fleet.AlarmEventKind
		rule  fleet.AlarmRuleID
		cause string
		of    request.ID
	}
	of := map[key]*group{}
	for _, e := range m.Events {
		k := key{e.Event, e.RuleID, e.Cause, e.RequestID}
		g := of[k]
		if g == nil {
			g = &group{first: e, severity: e.Severity}
			of[k], out = g, append(out, g)
		}
		if severityRank(e.Severity) < severityRank(g.severity) {
			g.severity = e.Severity
		}
		g.objects = append(g.objects, e.Object)
	}
	slices.SortStableFunc(out, func(a, b *group) int {
		return cmp.Or(cmp.Compare(slices.Index(AllEvents, a.first.Event), slices.Index(AllEvents, b.first.Event)), cmp.Compare(severityRank(a.severity), severityRank(b.severity)))
	})
	return out
}
