package fleet

import (
	"strings"
	"time"
)

// Task is what somebody asked: one order to a host, or one for many things at once, with a child for each.
type Task struct {
	ID          TaskID     `json:"id"`
	Parent      TaskID     `json:"parent,omitempty"` // the task that it is a part of
	HostID      HostID     `json:"hostId"`           // empty: no host has it
	HostName    string     `json:"hostName"`
	ProjectID   ProjectID  `json:"projectId,omitempty"` // empty: of no project, or of several
	Kind        JobKind    `json:"kind"`
	Subject     Subject    `json:"subject"`     // of one with children: "task:<its id>"; empty: nothing that exists
	SubjectName string     `json:"subjectName"` // "web-01"; "500 VMs"
	Generation  int64      `json:"generation"`
	State       JobState   `json:"state"` // of one with children: running while one is open, then as the worst of them
	Attempt     int        `json:"attempt"`
	Progress    int        `json:"progress"`          // percent; of one with children: how many have ended
	Steps       *Steps     `json:"steps,omitempty"`   // only of one with children
	Note        string     `json:"note,omitempty"`    // what the agent is doing: "copying disk 1"; once it is done, what it did last, or what it left undone, in a sentence
	Error       string     `json:"error,omitempty"`   // the hypervisor's own words
	RetryAt     *time.Time `json:"retryAt,omitempty"` // it failed because the hypervisor was not reached, and is tried again then; Error says how
	CreatedBy   string     `json:"createdBy"`         // the person's name, or "Quantix"
	CreatedAt   time.Time  `json:"createdAt"`
	StartedAt   *time.Time `json:"startedAt,omitempty"`
	EndedAt     *time.Time `json:"endedAt,omitempty"`
}

// Title is the task as people read it: "Create", "Start", ….
func (t Task) Title() string {
	if t.Kind == VMApply && (t.Generation == 0 || t.Generation == 1) { // 0: of many at once, or one of them that no host was asked for
		return "Create"
	}
	return t.Kind.Is().Verb
}

// Remark is what is to be known of a task that is done, in a sentence; empty: nothing. What was done last is none.
func (t Task) Remark() string {
	if t.State != JobDone || !strings.HasSuffix(t.Note, ".") {
		return ""
	}
	return t.Note
}

// Refused reports whether it ended before any host had it.
func (t Task) Refused() bool { return t.State == JobFailed && t.Attempt == 0 && t.Steps == nil }

// Waiting reports whether the portal has yet to ask for it: a part of a task that waits for its turn.
func (t Task) Waiting() bool { return t.State == JobQueued && t.Parent != "" && t.Generation <= 0 }

// EditOfMany is the generation of a task that edits many VMs, and of those of its children that no host was asked for.
const EditOfMany = -1

// Steps counts a task's children by their state.
type Steps struct {
	Queued    int `json:"queued"`
	Running   int `json:"running"`
	Done      int `json:"done"`
	Failed    int `json:"failed"`
	Refused   int `json:"refused"` // those of Failed that no host ever had
	Cancelled int `json:"cancelled"`
	Unknown   int `json:"unknown"`
}

// Job is one host's permission to do its part of a task. Its agent gets it as wire.Work.
type Job struct {
	ID        JobID
	Kind      JobKind
	State     JobState
	StartedAt *time.Time
	EndedAt   *time.Time
}
