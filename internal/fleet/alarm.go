package fleet

import "time"

// AlarmRuleID identifies an alarm rule.
type AlarmRuleID string

// AlarmID identifies an alarm.
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
	HostID         HostID        `json:"hostId,omitempty"`    // host where the condition of a pool or network holds
	HostName       string        `json:"hostName,omitempty"`
	Cause          string        `json:"cause"` // Text without names of objects: alarms with equal RuleID and Cause form a group
	Severity       AlarmSeverity `json:"severity"`
	Text           string        `json:"text"`
	Remedy         string        `json:"remedy,omitempty"`    // how to fix it; empty: unknown
	Value          *float64      `json:"value,omitempty"`     // newest value in Unit; nil: the condition has no value
	Threshold      *float64      `json:"threshold,omitempty"` // of the rule now
	Unit           string        `json:"unit,omitempty"`      // of Value and Threshold, with a space if it is a word: " %"
	Count          int64         `json:"count"`               // how often the same failure occurred
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
	AlarmEscalated    AlarmEventKind = "severity" // the severity has changed
)

// AlarmEvent is an entry in the history of an alarm.
type AlarmEvent struct {
	ID    int64          `json:"id"`
	At    time.Time      `json:"at"`
	Kind  AlarmEventKind `json:"kind"`
	Actor string         `json:"actor,omitempty"` // name of the user; empty: the portal
	Text  string         `json:"text,omitempty"`
}

// AlarmDetails is an alarm with its history, the newest entry first.
type AlarmDetails struct {
	Alarm
	Events []AlarmEvent `json:"events"`
}

// AlarmGroup is the open alarms with the same rule and cause.
type AlarmGroup struct {
	RuleID       AlarmRuleID   `json:"ruleId"`
	RuleName     string        `json:"ruleName"`
	Cause        string        `json:"cause"`
	Severity     AlarmSeverity `json:"severity"` // of the most serious alarm
	Count        int           `json:"count"`    // number of alarms
	Occurrences  int64         `json:"occurrences"`
	Acknowledged int           `json:"acknowledged"` // number of acknowledged alarms
	Silenced     int           `json:"silenced"`     // number of silenced alarms
	RaisedAt     time.Time     `json:"raisedAt"`     // of the first alarm
	NewestAt     time.Time     `json:"newestAt"`     // of the newest alarm
	Remedy       string        `json:"remedy,omitempty"`
	Description  string        `json:"description,omitempty"` // of the rule
	Alarms       []Alarm       `json:"alarms"`                // the first alarms, at most AlarmGroupNames
}

// AlarmCounts are the numbers of open alarms by severity, without silenced alarms.
type AlarmCounts map[AlarmSeverity]int

// AlarmKeys are the filter keys of the list of alarms.
var AlarmKeys = FilterKeys{
	oneOfKey("state", "open, or cleared", []string{"open", "cleared"}),
	oneOfKey("severity", "the severity", []string{string(AlarmCritical), string(AlarmWarning), string(AlarmInfo)}),
	oneOfKey("acknowledged", "whether a user has acknowledged the alarm", yesNo),
	oneOfKey("silenced", "whether the alarm is silenced now", yesNo),
	textKey("rule", "part of the rule's name"),
	textKey("object", "part of the object's name"),
	textKey("alarm", "part of the text"),
	numberKey("raised", "the day on which the alarm was raised in UTC: raised>2026-01-31", UnitDate),
	textKey("uuid", "the alarm's ID", "id"),
}

// AlarmRuleKeys are the filter keys of the list of alarm rules.
var AlarmRuleKeys = FilterKeys{
	textKey("name", "part of the name"),
	oneOfKey("severity", "the severity", []string{string(AlarmCritical), string(AlarmWarning), string(AlarmInfo)}),
	oneOfKey("enabled", "whether the rule is evaluated", yesNo),
	textKey("description", "part of the description"),
	textKey("uuid", "the rule's ID", "id"),
}

// RequestKeys are the filter keys of the list of requests.
var RequestKeys = FilterKeys{
	oneOfKey("state", "the request's state", []string{"open", "approved", "refused", "withdrawn", "expired"}),
	oneOfKey("kind", "what is requested", []string{"quota", "pool", "network", "vm"}),
	textKey("project", "name of the project"),
	textKey("who", "who made the request; me: yourself"),
	textKey("request", "part of the request"),
	numberKey("created", "the day of the request in UTC: created>2026-01-31", UnitDate),
	textKey("uuid", "the request's ID", "id"),
}

// ConsoleKeys are the filter keys of the list of console sessions.
var ConsoleKeys = FilterKeys{
	textKey("vm", "part of the VM's name"),
	oneOfKey("open", "whether the session is open", yesNo),
	textKey("project", "name of the project"),
	textKey("who", "whose session; me: your own"),
	numberKey("opened", "the day on which the session was opened in UTC: opened>2026-01-31", UnitDate),
	textKey("uuid", "the ID of the session or of the VM", "id"),
}
