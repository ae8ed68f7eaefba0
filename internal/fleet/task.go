package fleet

import (
	"strings"
	"time"
)

// Task is a user's request: one job on a host, or one action on many objects, with a child task for each object.
type Task struct {
	ID       TaskID `json:"id"`
	Parent   TaskID `json:"parent,omitempty"` // parent task
	HostID   HostID `json:"hostId"`           // empty: no host
	HostName string `json:"hostName"`
	// TargetHostName is the host that a migration moves its VM to; only in lists.
	TargetHostName string    `json:"targetHostName,omitempty"`
	ProjectID      ProjectID `json:"projectId,omitempty"` // empty: no project, or several
	Kind           JobKind   `json:"kind"`
	Subject        Subject   `json:"subject"`     // for a parent task "task:<its own id>"; empty: no existing object
	SubjectName    string    `json:"subjectName"` // "web-01"; "500 VMs"
	Generation     int64     `json:"generation"`
	// State of a parent task is running until all children have ended, then the worst state among its children.
	State    JobState `json:"state"`
	Attempt  int      `json:"attempt"`
	Progress int      `json:"progress"`        // percent; for a parent task, the share of ended children
	Steps    *Steps   `json:"steps,omitempty"` // only for a parent task
	// Note is the agent's current step, such as "copying disk 1"; after the end, the last step or a remark as a
	// sentence
	Note  string `json:"note,omitempty"`
	Error string `json:"error,omitempty"` // the hypervisor's own message
	// RetryAt is when the agent retries the task after it could not reach the hypervisor. Error has the cause.
	RetryAt   *time.Time `json:"retryAt,omitempty"`
	CreatedBy string     `json:"createdBy"` // user name, or "Quantix"
	CreatedAt time.Time  `json:"createdAt"`
	StartedAt *time.Time `json:"startedAt,omitempty"`
	EndedAt   *time.Time `json:"endedAt,omitempty"`
}

// Title returns the task's title on pages: "Create", "Start", ….
func (t Task) Title() string {
	// generation 0: a parent task, or a child that was refused before it reached a host
	if t.Kind == VMApply && (t.Generation == 0 || t.Generation == 1) {
		return "Create"
	}
	return t.Kind.Info().Verb
}

// Remark returns the remark on a successful task, as a sentence; empty: none. A note without a full stop is only the
// task's last step.
func (t Task) Remark() string {
	if t.State != JobDone || !strings.HasSuffix(t.Note, ".") {
		return ""
	}
	return t.Note
}

// WasRefusedBeforeHost reports whether the task failed before a host received it.
func (t Task) WasRefusedBeforeHost() bool {
	return t.State == JobFailed && t.Attempt == 0 && t.Steps == nil
}

// IsUnstartedChild reports whether the task is a child that the portal has not started yet.
func (t Task) IsUnstartedChild() bool {
	return t.State == JobQueued && t.Parent != "" && t.Generation <= 0
}

// EditOfMany is the generation of a task that edits many VMs, and of its children that no host has received.
const EditOfMany = -1

// Steps counts the children of a task by state.
type Steps struct {
	Queued    int `json:"queued"`
	Running   int `json:"running"`
	Done      int `json:"done"`
	Failed    int `json:"failed"`  // failed after they had reached a host
	Refused   int `json:"refused"` // failed children that never reached a host
	Cancelled int `json:"cancelled"`
	Unknown   int `json:"unknown"`
}

// Job is the work of one host for a task. The host's agent receives it as wire.Work.
type Job struct {
	ID        JobID
	Kind      JobKind
	State     JobState
	StartedAt *time.Time
	EndedAt   *time.Time
}
