package fleet

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// DiscoveredVM is an unmanaged domain: it is on a host, and Quantix did not create it. Users who may change hosts can
// see its screen and its power actions; Quantix never changes its definition.
type DiscoveredVM struct {
	ID       VMID        `json:"id"` // UUID of the libvirt domain
	HostID   HostID      `json:"hostId"`
	HostName string      `json:"hostName,omitempty"`
	Name     string      `json:"name"`
	Status   VMStatus    `json:"status"`
	Phase    Phase       `json:"phase,omitempty"`
	SeenAt   *ReportTime `json:"seenAt,omitempty"`
	// HostMaintenance is the maintenance of the VM's host.
	HostMaintenance MaintenanceState `json:"-"`
}

// DiscoveredVMActions lists every action on a discovered VM, in the order of menus.
var DiscoveredVMActions = []Action{ActStart, ActShutdown, ActReboot, ActPause, ActResume, ActReset, ActStop, ActConsole, ActAdopt}

// discoveredJobKinds maps the power actions on a discovered VM to the kinds of their jobs.
var discoveredJobKinds = map[Action]JobKind{
	ActStart: DiscoveredStart, ActShutdown: DiscoveredShutdown, ActReboot: DiscoveredReboot, ActReset: DiscoveredReset,
	ActPause: DiscoveredPause, ActResume: DiscoveredResume, ActStop: DiscoveredStop,
}

// DiscoveredJobKind returns the kind of job that the action queues on a discovered VM; empty: none.
func (a Action) DiscoveredJobKind() JobKind { return discoveredJobKinds[a] }

// TransientDomainRefusal is why a domain without a persistent definition is neither shut down nor forced off.
const TransientDomainRefusal = "The host has no persistent definition of the VM and would lose the VM when its guest stops. Define the VM with virsh on the host first."

// SubjectDiscoveredVM returns the subject of an unmanaged domain on a host: "found:<host id>/<UUID>".
func SubjectDiscoveredVM(host HostID, id VMID) Subject {
	return SubjectOf(TypeDiscovered, string(host)+"/"+string(id))
}

// DiscoveredVM returns the UUID of the unmanaged domain that the subject names; ok is false for other subjects.
func (s Subject) DiscoveredVM() (id VMID, ok bool) {
	resource, of := s.ResourceAndID()
	_, uuid, ok := strings.Cut(of, "/")
	return VMID(uuid), ok && resource == string(TypeDiscovered)
}

// DiscoveredVMOnHost works like DiscoveredVM and also returns the host.
func (s Subject) DiscoveredVMOnHost() (host HostID, id VMID, ok bool) {
	id, ok = s.DiscoveredVM()
	_, of := s.ResourceAndID()
	name, _, _ := strings.Cut(of, "/")
	return HostID(name), id, ok
}

// discoveredVMPath returns the path of a discovered VM's page; id is "<host id>/<UUID>".
func discoveredVMPath(id string) string {
	host, uuid, _ := strings.Cut(id, "/")
	return hostsPath + "/" + url.PathEscape(host) + "/found/" + url.PathEscape(uuid)
}

// PhaseAt returns the phase of an unmanaged VM: the reported one, or unknown if the host is offline. A VM that was off
// before its host was powered off stays off: see VM.IsKnownOff.
func (f DiscoveredVM) PhaseAt(seen *ReportTime, now time.Time) Phase {
	reported := reportedPhase(f.Status)
	if !IsReportFresh(seen, now) && (seen == nil || !seen.PoweredOff || reported != PhaseStopped) {
		return PhaseUnknown
	}
	return reported
}

// Allows reports whether the discovered VM allows the action now; the string is the reason if not. Actions lists the
// state of every action.
func (f DiscoveredVM) Allows(a Action) (bool, string) {
	if !slices.Contains(DiscoveredVMActions, a) {
		return false, fmt.Sprintf("A VM that Quantix does not manage has no action %q.", string(a))
	}
	ok, why := f.Phase.Allows(a)
	switch refusal := f.HostMaintenance.StartRefusal(f.HostName); {
	case a == ActStart && refusal != "" && (ok || f.Phase == PhaseUnknown):
		return false, refusal
	case !ok:
		return false, why
	case f.Status.Transient && (a == ActShutdown || a == ActStop):
		return false, TransientDomainRefusal
	case f.Status.Transient && a == ActAdopt:
		return false, TransientAdoptionRefusal
	case f.Status.NoConsole != "" && a == ActConsole:
		return false, f.Status.NoConsole
	}
	return true, ""
}

// Actions lists the state of all actions on the discovered VM.
func (f DiscoveredVM) Actions() []ActionState {
	out := make([]ActionState, len(DiscoveredVMActions))
	for i, a := range DiscoveredVMActions {
		ok, why := f.Allows(a)
		out[i] = ActionState{Action: a, Allowed: ok, Reason: why}
	}
	return out
}
