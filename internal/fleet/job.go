package fleet

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// JobKind says what a job permits a host to do.
type JobKind string

const (
	VMApply     JobKind = "vm.apply"    // make the definition and disks as the spec says
	VMStart     JobKind = "vm.start"    // apply, then start
	VMShutdown  JobKind = "vm.shutdown" // ask the guest to power off, wait for it
	VMStop      JobKind = "vm.stop"     // force off
	VMReboot    JobKind = "vm.reboot"   // ask the guest to restart; single-shot
	VMReset     JobKind = "vm.reset"    // press the reset button; single-shot
	VMPause     JobKind = "vm.pause"
	VMResume    JobKind = "vm.resume"
	VMPutBack   JobKind = "vm.putback" // apply, and undo what somebody changed on the host: VMStatus.Drift
	VMDelete    JobKind = "vm.delete"  // undefine; single-shot where Args.Disks says that data goes with it
	PoolApply   JobKind = "pool.apply"
	PoolRelease JobKind = "pool.release" // stop and undefine; data stays
	ConsoleOpen JobKind = "console.open"
)

type jobLook struct {
	verb       string
	singleShot bool
	power      Power // that it brings the VM to; empty: it asks for none
}

var jobKinds = map[JobKind]jobLook{
	VMApply: {verb: "Configure"}, VMStart: {verb: "Start", power: Running}, VMShutdown: {verb: "Shut down", power: Stopped},
	VMStop: {verb: "Force off", power: Stopped}, VMReboot: {verb: "Reboot", singleShot: true}, VMReset: {verb: "Reset", singleShot: true},
	VMPause: {verb: "Pause", power: Paused}, VMResume: {verb: "Resume", power: Running}, VMPutBack: {verb: "Put back"}, VMDelete: {verb: "Delete"},
	PoolApply: {verb: "Assign pool"}, PoolRelease: {verb: "Release pool"}, ConsoleOpen: {verb: "Open console", singleShot: true},
}

// JobKinds lists every kind, in no order.
func JobKinds() []JobKind { return slices.Collect(maps.Keys(jobKinds)) }

// Verb is the kind as people read it: "Shut down".
func (k JobKind) Verb() string { return jobKinds[k].verb }

// Power is what the kind brings a VM to; empty where it asks for no power. The SQL function ordered_power is the same table.
func (k JobKind) Power() Power { return jobKinds[k].power }

// Known reports whether k is one of the kinds above.
func (k JobKind) Known() bool { _, ok := jobKinds[k]; return ok }

// SingleShot reports whether a job of this kind must never be done twice: the agent journals it before acting and, on
// doubt, ends it as unknown. Deleting data is single-shot too.
func (k JobKind) SingleShot(a JobArgs) bool {
	return jobKinds[k].singleShot || k == VMDelete && a.DeleteDisks
}

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
	DeleteDisks bool      `json:"deleteDisks,omitempty"` // vm.delete
	Console     ConsoleID `json:"console,omitempty"`     // console.open
	PortalURL   string    `json:"portalUrl,omitempty"`   // console.open: the portal that holds the browser's half; empty: the agent's own
}

// Subject names what a job or a task is about: "vm:<id>", "pool:<id>", or "task:<id>" of a task that is about its children. One job a
// subject runs at a time.
type Subject string

// SubjectVM and SubjectPool make subjects; they are also the keys of wake-ups.
func SubjectVM(id VMID) Subject     { return Subject("vm:" + string(id)) }
func SubjectPool(id PoolID) Subject { return Subject("pool:" + string(id)) }

// SubjectTask is what a task with children is about.
func SubjectTask(id TaskID) Subject { return Subject("task:" + string(id)) }

// Split parts a subject into its noun and id.
func (s Subject) Split() (noun, id string) {
	noun, id, _ = strings.Cut(string(s), ":")
	return noun, id
}
