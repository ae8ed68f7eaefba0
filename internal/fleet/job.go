package fleet

import (
	"strings"
	"time"
)

// JobState is where a job stands, or a task.
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
	DeleteDisks bool          `json:"deleteDisks,omitempty"` // vm.delete; always of what destroys a volume's data
	Console     PairID        `json:"console,omitempty"`     // console.open
	PortalURL   string        `json:"portalUrl,omitempty"`   // console.open: the portal that holds the browser's half; empty: the agent's own
	Volume      *VolumeOrder  `json:"volume,omitempty"`      // volume.*
	Upload      UploadID      `json:"upload,omitempty"`      // upload.open: which; it comes to Pair at PortalURL
	Pair        PairID        `json:"pair,omitempty"`
	Move        *MoveOrder    `json:"move,omitempty"`  // vm.move
	Migrate     *MigrateOrder `json:"leave,omitempty"` // vm.leave

	Run *time.Time `json:"run,omitempty"` // vm.restart: when the run began that is to end; any other is the new one

	Snapshot *SnapshotOrder `json:"snapshot,omitempty"` // vm.snapshot, vm.revert, vm.snapshot.delete, vm.consolidate
	Guest    *GuestOrder    `json:"guest,omitempty"`    // vm.freeze, vm.password
	Plan     PlanID         `json:"plan,omitempty"`     // vm.plan: which
}

// Subject names what a job or a task is about: "vm:<id>", "pool:<id>", "volume:<pool id>/<name>", or "task:<id>" of a task that is about its children. One job a
// subject runs at a time.
type Subject string

// SubjectVM and SubjectPool make subjects; they are also the keys of wake-ups.
func SubjectVM(id VMID) Subject           { return SubjectOf(TypeVM, id) }
func SubjectPool(id PoolID) Subject       { return SubjectOf(TypePool, id) }
func SubjectNetwork(id NetworkID) Subject { return SubjectOf(TypeNetwork, id) }

// SubjectTask is what a task with children is about.
func SubjectTask(id TaskID) Subject { return Subject("task:" + string(id)) }

// Split parts a subject into its noun and id.
func (s Subject) Split() (noun, id string) {
	noun, id, _ = strings.Cut(string(s), ":")
	return noun, id
}
