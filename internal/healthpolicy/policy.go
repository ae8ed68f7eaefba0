// Package healthpolicy defines health policies: which health events of hosts they match, and what the portal does then.
// It is pure. Package expression compiles and evaluates their expressions.
package healthpolicy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"quantix/internal/channel"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// ID identifies a policy.
type ID string

// Limits of policies.
const (
	MaxPolicies = 100
	MaxOrder    = 9999
)

// DrainTaint is the taint of the action Drain. The VMs of a host with it migrate to other hosts.
const DrainTaint = "health-drain:NoExecute"

// Policy is a health policy.
type Policy struct {
	ID         ID        `json:"id"`
	Name       string    `json:"name"`
	Builtin    string    `json:"builtin,omitempty"` // name of a default policy; empty: made by a user
	Spec       Spec      `json:"spec"`
	Generation int64     `json:"generation"`
	CreatedAt  time.Time `json:"createdAt"`

	// LastError is the newest error of an evaluation since the last change; empty: none.
	LastError   string     `json:"lastError,omitempty"`
	LastErrorAt *time.Time `json:"lastErrorAt,omitempty"`

	Matches int `json:"matches24h"` // matches of the last 24 hours
	Open    int `json:"open"`       // matches that have not ended
	Acting  int `json:"acting"`     // hosts with its taint or cordon
}

// Spec is the configuration of a policy by users.
type Spec struct {
	Description string              `json:"description,omitempty"`
	Expression  string              `json:"expression" doc:"CEL expression over event and host that gives true or false"`
	Severity    fleet.AlarmSeverity `json:"severity" enum:"critical,warning,info" doc:"Severity of the policy's alarms"`
	Actions     Actions             `json:"actions"`
	DryRun      bool                `json:"dryRun,omitempty" doc:"Matches are recorded with what would be done, and nothing is done"`
	Disabled    bool                `json:"disabled,omitempty"`
	Order       int                 `json:"order,omitempty" doc:"Policies with a lower number are evaluated and listed first"`
}

// Actions are what the portal does when a policy matches. A match is always noted.
type Actions struct {
	Alarm  bool       `json:"alarm,omitempty" doc:"Raise an alarm"`
	Taint  string     `json:"taint,omitempty" doc:"Taint the host, such as gpu-failed:NoExecute"`
	Cordon bool       `json:"cordon,omitempty" doc:"Cordon the host"`
	Drain  bool       `json:"drain,omitempty" doc:"Cordon the host and migrate its VMs to other hosts"`
	Notify channel.ID `json:"notify,omitempty" doc:"ID of a channel of the fleet that gets a message"`
}

// Check adds an error for each invalid field. expression is why the expression is refused; empty: it is valid.
func (s Spec) Check(c *fleet.Checks, expression string) {
	fleet.CheckDescription(c, "spec.description", s.Description)
	if expression != "" {
		c.Add("spec.expression", "%s", expression)
	}
	if !slices.ContainsFunc(fleet.AlarmSeverities, func(o fleet.Option) bool { return o.Value == string(s.Severity) }) {
		c.Add("spec.severity", "Choose critical, warning or info.")
	}
	if s.Order < 0 || s.Order > MaxOrder {
		c.Add("spec.order", "Enter a number from 0 to %d.", MaxOrder)
	}
	if s.Actions.Taint != "" {
		var own fleet.Checks
		if fleet.CheckTaints(&own, "taint", []fleet.Taint{fleet.ParseTaint(s.Actions.Taint)}); own.Err() != nil {
			c.Add("spec.actions.taint", "Write a taint such as gpu-failed:NoExecute. Effects: NoSchedule, PreferNoSchedule and NoExecute.")
		}
	}
	if s.Actions.Notify != "" && !fleet.IsID(string(s.Actions.Notify)) {
		c.Add("spec.actions.notify", "Choose a channel.")
	}
}

// Taints returns the taints that the actions set.
func (a Actions) Taints() (out []fleet.Taint) {
	if a.Taint != "" {
		out = append(out, fleet.ParseTaint(a.Taint))
	}
	if drain := fleet.ParseTaint(DrainTaint); a.Drain && !slices.Contains(out, drain) {
		out = append(out, drain)
	}
	return out
}

// Cordons reports whether the actions cordon the host.
func (a Actions) Cordons() bool { return a.Cordon || a.Drain }

// Evacuates reports whether VMs leave the host because of the actions.
func (a Actions) Evacuates() bool {
	return slices.ContainsFunc(a.Taints(), func(t fleet.Taint) bool { return t.Effect == fleet.NoExecute })
}

// ChangesHosts reports whether the actions change the spec of hosts.
func (a Actions) ChangesHosts() bool { return a.Taint != "" || a.Cordons() }

// Words lists the actions as verbs: "taint gpu-failed:NoExecute", "raise an alarm". No action: "note".
func (a Actions) Words() (out []string) {
	if a.Drain {
		out = append(out, "drain")
	} else if a.Cordon {
		out = append(out, "cordon")
	}
	if a.Taint != "" {
		out = append(out, "taint "+fleet.ParseTaint(a.Taint).Text())
	}
	if a.Alarm {
		out = append(out, "raise an alarm")
	}
	if a.Notify != "" {
		out = append(out, "notify")
	}
	if out == nil {
		out = []string{"note"}
	}
	return out
}

// Text describes the actions: "cordon, raise an alarm".
func (a Actions) Text() string { return strings.Join(a.Words(), ", ") }

// Changes lists what differs between two versions of a policy, for the audit log.
func (p Policy) Changes(to Policy) (out []string) {
	note := func(name, from, next string) {
		if from != next {
			out = append(out, fmt.Sprintf("%s %s → %s", name, orNone(from), orNone(next)))
		}
	}
	s, n := p.Spec, to.Spec
	note("name", p.Name, to.Name)
	note("expression", s.Expression, n.Expression)
	note("severity", string(s.Severity), string(n.Severity))
	if s.Actions != n.Actions {
		out = append(out, "actions "+s.Actions.Text()+" → "+n.Actions.Text())
	}
	note("dryRun", strconv.FormatBool(s.DryRun), strconv.FormatBool(n.DryRun))
	note("disabled", strconv.FormatBool(s.Disabled), strconv.FormatBool(n.Disabled))
	note("order", strconv.Itoa(s.Order), strconv.Itoa(n.Order))
	if s.Description != n.Description {
		out = append(out, "description")
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// State is what the portal does about a match.
type State string

const (
	New      State = "new"      // the next pass acts
	Active   State = "active"   // the actions are done
	Waiting  State = "waiting"  // the actions wait: see Match.Reason
	Released State = "released" // a user has undone the actions
)

// Match is a condition of a host that a policy has matched. Repeated events of one condition are one match.
type Match struct {
	ID         int64               `json:"id"`
	PolicyID   ID                  `json:"policyId"`
	PolicyName string              `json:"policyName"`
	HostID     fleet.HostID        `json:"hostId"`
	HostName   string              `json:"hostName"`
	EventID    int64               `json:"eventId"` // the newest event
	Check      string              `json:"check"`
	Object     string              `json:"object"`
	Code       string              `json:"code"`
	Text       string              `json:"text"`     // of the newest event
	Severity   fleet.AlarmSeverity `json:"severity"` // of the policy
	Actions    Actions             `json:"actions"`
	DryRun     bool                `json:"dryRun,omitempty"`
	Momentary  bool                `json:"momentary,omitempty"` // of an occurrence that is no condition
	State      State               `json:"state" enum:"new,active,waiting,released"`
	Reason     string              `json:"reason,omitempty"` // why it waits, or what could not be done
	Since      time.Time           `json:"since"`
	LastAt     time.Time           `json:"lastAt"`
	Count      int64               `json:"count"` // how often it occurred
	EndedAt    *time.Time          `json:"endedAt,omitempty"`
	ReleasedBy string              `json:"releasedBy,omitempty"`
}

// Key returns the key of the match's condition.
func (m Match) Key() healthevent.Key {
	return healthevent.Key{Check: m.Check, Object: m.Object, Code: m.Code}
}

// Cause names the condition: "XID 79 on gpu/0000:41:00.0".
func (m Match) Cause() string { return CauseOf(m.Key()) }

// CauseOf names a condition for people: "XID 79 on gpu/0000:41:00.0", "smart-failing on disk/sda".
func CauseOf(k healthevent.Key) string {
	out := k.Code
	if number, ok := strings.CutPrefix(k.Code, "xid-"); ok {
		out = "XID " + number
	}
	if k.Object != "" {
		out += " on " + k.Object
	}
	return out
}

// WouldText describes the effects of a match in a dry run: "would cordon and raise an alarm".
func (m Match) WouldText() string {
	words := m.Actions.Words()
	if len(words) == 1 {
		return "would " + words[0]
	}
	return "would " + strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
