package fleet

import "time"

// AlarmRuleID identifies an alarm rule.
type AlarmRuleID string

// AlarmID identifies an alarm. IDs ascend with the time of the first evaluation.
type AlarmID string

// AlarmSeverity is how serious an alarm is.
type AlarmSeverity string

const (
	AlarmCritical AlarmSeverity = "critical"
	AlarmWarning  AlarmSeverity = "warning"
	AlarmInfo     AlarmSeverity = "info"
)

// AlarmSeverities lists the severities, the most serious one first.
var AlarmSeverities = []Option{{string(AlarmCritical), "Critical"}, {string(AlarmWarning), "Warning"}, {string(AlarmInfo), "Info"}}

// Alarm is one condition of one rule on one object, from the time it was raised until it is cleared.
type Alarm struct {
	ID             AlarmID       `json:"id"`
	RuleID         AlarmRuleID   `json:"ruleId"`
	RuleName       string        `json:"ruleName"`
	Subject        Subject       `json:"subject"`
	SubjectName    string        `json:"subjectName"`
	ProjectID      *ProjectID    `json:"projectId,omitempty"` // project of the object; nil: an object of the fleet
	HostID         *HostID       `json:"hostId,omitempty"`    // host where the condition holds; nil: no single host
	Cause          string        `json:"cause"`               // Text without names of objects: alarms with equal RuleID and Cause form a group
	Severity       AlarmSeverity `json:"severity"`
	Text           string        `json:"text"`
	Remedy         string        `json:"remedy,omitempty"` // how to fix it; empty: unknown
	Value          *float64      `json:"value,omitempty"`  // newest value of the metric; nil: the condition is a state
	Count          int64         `json:"count"`            // how often the same failure occurred
	RaisedAt       time.Time     `json:"raisedAt"`
	AcknowledgedAt *time.Time    `json:"acknowledgedAt,omitempty"`
	AcknowledgedBy string        `json:"acknowledgedBy,omitempty"`
	Note           string        `json:"note,omitempty"`
	SilencedUntil  *time.Time    `json:"silencedUntil,omitempty"`
	ClearedAt      *time.Time    `json:"clearedAt,omitempty"`
}

// AlarmEventKind is what happened to an alarm.
type AlarmEventKind string

const (
	AlarmRaised       AlarmEventKind = "raised"
	AlarmAcknowledged AlarmEventKind = "acknowledged"
	AlarmSilenced     AlarmEventKind = "silenced"
	AlarmUnsilenced   AlarmEventKind = "unsilenced"
	AlarmCleared      AlarmEventKind = "cleared"
)

// AlarmEvent is an entry in the history of an alarm.
type AlarmEvent struct {
	ID    int64          `json:"id"`
	At    time.Time      `json:"at"`
	Kind  AlarmEventKind `json:"kind"`
	Actor string         `json:"actor,omitempty"` // name of the user; empty: the portal
	Text  string         `json:"text,omitempty"`
}
