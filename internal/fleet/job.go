package fleet

import (
	"strings"
	"time"
)

// JobState is the state of a job or a task.
type JobState string

const (
	JobQueued    JobState = "queued"
	JobRunning   JobState = "running" // leased to the agent
	JobDone      JobState = "done"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
	JobUnknown   JobState = "unknown" // single-shot job whose outcome cannot be determined
)

// IsFinal reports whether the state is final.
func (s JobState) IsFinal() bool { return s != JobQueued && s != JobRunning }

// Lease is the time for which a claimed job stays with its agent without a renewal.
const Lease = 30 * time.Second

// JobArgs are the parameters of a job that are not part of a spec.
type JobArgs struct {
	DeleteDisks bool   `json:"deleteDisks,omitempty"` // vm.delete; true for each job that destroys a volume's data
	OnlyIfOff   bool   `json:"onlyIfOff,omitempty"`   // vm.delete: fail if the guest is on
	Console     PairID `json:"console,omitempty"`     // console.open
	// PortalURL is, for console.open, the address of the portal that the user's browser is connected to. Empty: the
	// agent's own portal.
	PortalURL string        `json:"portalUrl,omitempty"`
	Volume    *VolumeParams `json:"volume,omitempty"` // volume.*
	// Upload is, for upload.open, the upload to receive. The portal at PortalURL sends the data over the relay with the
	// ID in Pair.
	Upload  UploadID             `json:"upload,omitempty"`
	Pair    PairID               `json:"pair,omitempty"`
	Move    *DiskMigrationParams `json:"move,omitempty"`    // vm.move
	Migrate *MigrationParams     `json:"migrate,omitempty"` // vm.leave

	// Run is, for vm.restart, the start time of the guest to stop. A VM with another start time has already restarted.
	Run *time.Time `json:"run,omitempty"`

	Snapshot *SnapshotParams `json:"snapshot,omitempty"` // vm.snapshot, vm.revert, vm.snapshot.delete, vm.consolidate
	Guest    *GuestParams    `json:"guest,omitempty"`    // vm.freeze, vm.password
	Plan     PlanID          `json:"plan,omitempty"`     // vm.plan: the plan
	Fields   []string        `json:"fields,omitempty"`   // vm.reapply: only these fields of VMStatus.Drift; empty: all
	Upgrade  *AgentUpgrade   `json:"upgrade,omitempty"`  // host.agent.upgrade
	Adopt    *AdoptionParams `json:"adopt,omitempty"`    // found.adopt
	Diagnose []string        `json:"diagnose,omitempty"` // host.diagnose: the site's own diagnostics to run, by name
	Force    bool            `json:"force,omitempty"`    // host.agent.restart: also while jobs run that the restart interrupts
}

// AgentUpgrade is the release that replaces a host's agent.
type AgentUpgrade struct {
	Version        string `json:"version"`
	AllowDowngrade bool   `json:"allowDowngrade,omitempty"` // also a version that is older than the running one
}

// Subject names the object of a job or task: "vm:<id>", "pool:<id>", "volume:<pool id>/<name>", "host:<id>",
// "found:<host id>/<UUID>" for an unmanaged domain, or "task:<id>" for a parent task. Only one job of a subject runs at a time.
type Subject string

// SubjectVM returns the subject of a VM, which is also the key of its wake-ups.
func SubjectVM(id VMID) Subject { return SubjectOf(TypeVM, id) }

// SubjectPool returns the subject of a pool, which is also the key of its wake-ups.
func SubjectPool(id PoolID) Subject { return SubjectOf(TypePool, id) }

// SubjectNetwork returns the subject of a network, which is also the key of its wake-ups.
func SubjectNetwork(id NetworkID) Subject { return SubjectOf(TypeNetwork, id) }

// SubjectHost returns the subject of a host, which is also the key of its wake-ups.
func SubjectHost(id HostID) Subject { return SubjectOf(TypeHost, id) }

// SubjectTask returns the subject of a parent task.
func SubjectTask(id TaskID) Subject { return Subject("task:" + string(id)) }

// ResourceAndID splits a subject into its resource type and ID.
func (s Subject) ResourceAndID() (resource, id string) {
	resource, id, _ = strings.Cut(string(s), ":")
	return resource, id
}
