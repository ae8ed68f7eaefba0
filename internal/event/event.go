// Package event defines the events that programs read: changes of objects, tasks and alarms.
package event

import (
	"slices"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// ID identifies an event, and a position in the log of events: the one after the event. IDs are random.
type ID string

// Action is what happened to an object.
type Action string

const (
	Created Action = "created"
	Changed Action = "changed"
	Deleted Action = "deleted"
)

// Actions lists the actions.
var Actions = []Action{Created, Changed, Deleted}

// TypeResync is the type of a Resync in a stream.
const TypeResync = "resync"

// Event is one change of an object. Clients read the object itself for more.
type Event struct {
	ID        ID              `json:"id"`
	Type      string          `json:"type" doc:"Label of the resource type: vm, found, host, cluster, pool, network, image, template, flavor, device-class, project, user, secgroup, customization, request, task, alarm or alarm-rule"`
	Action    Action          `json:"action" enum:"created,changed,deleted"`
	ObjectID  string          `json:"objectId"`
	Name      string          `json:"name" doc:"Name of the object; of a task or an alarm, the name of its object"`
	ProjectID fleet.ProjectID `json:"projectId,omitempty"`
	Time      time.Time       `json:"time"`
	Subject   fleet.Subject   `json:"subject,omitempty" doc:"Object of a task or an alarm: vm:<id>"`
	ParentID  fleet.TaskID    `json:"parentId,omitempty" doc:"Parent of a child task"`
	Kind      fleet.JobKind   `json:"kind,omitempty" doc:"Kind of a task"`
	Severity  string          `json:"severity,omitempty" doc:"Severity of an alarm: critical, warning or info"`
	State     string          `json:"state,omitempty" doc:"State of a task: queued, running, done, failed, cancelled or unknown; of an alarm: open, acknowledged or cleared"`
	HostID    fleet.HostID    `json:"hostId,omitempty" doc:"Host of a discovered VM (type found)"`
}

// ResyncReason is why a stream does not continue after the position that the client asked for.
type ResyncReason string

const (
	ResyncNew     ResyncReason = "new"     // the client asked for no position
	ResyncUnknown ResyncReason = "unknown" // the log has no such ID, or no longer
)

// Resync is the beginning of a stream at ID. The client must list the objects, because changes before ID are
// not in the stream.
type Resync struct {
	ID     ID           `json:"id"`
	Type   string       `json:"type"`
	Reason ResyncReason `json:"reason"`
	Text   string       `json:"text"`
}

// NewResync returns the Resync at a position.
func NewResync(id ID, reason ResyncReason) Resync {
	text := "The stream begins here. List the objects that you need, and then apply the events that follow."
	if reason == ResyncUnknown {
		text = "The log does not contain the requested ID any more. List the objects that you need again, and then apply the events that follow."
	}
	return Resync{ID: id, Type: TypeResync, Reason: reason, Text: text}
}

// Query selects events.
type Query struct {
	Types   []fleet.ResourceType // none: all types that the actor may see
	Project fleet.ProjectID      // only objects of this project; empty: all objects
	After   ID                   // position; empty: none, for the newest position only
	Limit   int
}

// Batch is the result of a Query.
type Batch struct {
	Events  []Event
	Next    ID   // position after the batch
	Known   bool // the log contains the position After; otherwise Next is the newest position, and Events is empty
	More    bool // there may be more events after Next
	Pending bool // events were written that can be read only when older transactions have ended
}

// typeOfEvents describes the events of one resource type.
type typeOfEvents struct {
	key      fleet.ResourceType
	wakeKeys []string // of all objects; empty: the type's AllKey
}

// types lists the resource types with events. Volumes are parts of their pools.
var types = []typeOfEvents{
	{key: fleet.TypeVM},
	{key: fleet.TypeDiscovered, wakeKeys: []string{"host:*"}},
	{key: fleet.TypeHost},
	{key: fleet.TypeCluster},
	{key: fleet.TypePool},
	{key: fleet.TypeNetwork},
	{key: fleet.TypeImage},
	{key: fleet.TypeTemplate},
	{key: fleet.TypeFlavor},
	{key: fleet.TypeDeviceClass},
	{key: fleet.TypeProject},
	{key: fleet.TypeUser, wakeKeys: []string{logKey, "user:*"}},
	{key: fleet.TypeSecurityGroup},
	{key: fleet.TypeCustomization, wakeKeys: []string{logKey}},
	{key: fleet.TypeRequest},
	{key: fleet.TypeTask},
	{key: fleet.TypeAlarm, wakeKeys: []string{"alarms"}},
	{key: fleet.TypeAlarmRule, wakeKeys: []string{"alarm-rules"}},
	{key: fleet.TypeHealthPolicy},
}

// logKey is the wake-up key of types whose changes wake no page.
const logKey = "events"

// Types returns the resource types that have events.
func Types() []fleet.ResourceType {
	out := make([]fleet.ResourceType, len(types))
	for i, t := range types {
		out[i] = t.key
	}
	return out
}

// ParseTypes returns the resource types with the labels. It refuses types without events.
func ParseTypes(c *fleet.Checks, field string, labels []string) (out []fleet.ResourceType) {
	for _, label := range labels {
		i := slices.IndexFunc(types, func(t typeOfEvents) bool { return t.key.Info().Label == label })
		if i < 0 {
			known := make([]string, len(types))
			for i, t := range types {
				known[i] = t.key.Info().Label
			}
			c.Add(field, "There are no events of the type %q. Types: %s.", label, strings.Join(known, ", "))
			continue
		}
		out = append(out, types[i].key)
	}
	return out
}

// WakeKeys returns the keys of wake-ups that may announce new events of the types; of all types if there are none.
func WakeKeys(asked []fleet.ResourceType) []string {
	var keys []string
	for _, t := range types {
		if len(asked) > 0 && !slices.Contains(asked, t.key) {
			continue
		}
		if t.wakeKeys == nil {
			keys = append(keys, t.key.Info().AllKey)
		}
		keys = append(keys, t.wakeKeys...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
