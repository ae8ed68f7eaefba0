package fleet

import (
	"strings"
	"time"
)

// JobState is where a job stands.
type JobState string

const (
	JobQueued    JobState = "queued"
	JobRunning   JobState = "running" // leased to the agent
	JobDone      JobState = "done"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
	JobUnknown   JobState = "unknown" // single-shot work whose outcome nobody can tell
)

// Ended reports whether the job will not change any more.
func (s JobState) Ended() bool { return s != JobQueued && s != JobRunning }

// Lease is how long a claimed job stays with its agent without a renewal.
const Lease = 30 * time.Second

// JobArgs are the few parameters of an order that are no spec.
type JobArgs struct {
	DeleteDisks bool   `json:"deleteDisks,omitempty"` // vm.delete
	Console     PairID `json:"console,omitempty"`     // console.open
	PortalURL   string `json:"portalUrl,omitempty"`   // console.open: the portal that holds the browser's half; empty: the agent's own
}

// Subject names what a job is about: "vm:<id>" or "pool:<id>". One job a subject runs at a time.
type Subject string

// SubjectVM and SubjectPool make subjects; they are also the keys of wake-ups.
func SubjectVM(id VMID) Subject     { return SubjectOf(NounVM, id) }
func SubjectPool(id PoolID) Subject { return SubjectOf(NounPool, id) }

// Split parts a subject into its noun and id.
func (s Subject) Split() (noun, id string) {
	noun, id, _ = strings.Cut(string(s), ":")
	return noun, id
}

// Job is one permission to converge, seen by people as a task.
type Job struct {
	ID          JobID      `json:"id"`
	HostID      HostID     `json:"hostId"`
	HostName    string     `json:"hostName"`
	ProjectID   ProjectID  `json:"projectId,omitempty"` // empty: of no project
	Kind        JobKind    `json:"kind"`
	Subject     Subject    `json:"subject"`
	SubjectName string     `json:"subjectName"`
	Generation  int64      `json:"generation"`
	State       JobState   `json:"state"`
	Attempt     int        `json:"attempt"`
	Progress    int        `json:"progress"`          // percent
	Note        string     `json:"note,omitempty"`    // what the agent is doing: "copying disk 1"
	Error       string     `json:"error,omitempty"`   // the hypervisor's own words
	RetryAt     *time.Time `json:"retryAt,omitempty"` // it failed because the hypervisor was not reached, and is tried again then; Error says how
	CreatedBy   string     `json:"createdBy"`         // the person's name, or "Quantix"
	CreatedAt   time.Time  `json:"createdAt"`
	StartedAt   *time.Time `json:"startedAt,omitempty"`
	EndedAt     *time.Time `json:"endedAt,omitempty"`
}

// Title is the job as people read it: "Create", "Start", ….
func (j Job) Title() string {
	if j.Kind == VMApply && j.Generation == 1 {
		return "Create"
	}
	return j.Kind.Is().Verb
}
