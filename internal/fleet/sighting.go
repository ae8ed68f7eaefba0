package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Sighting is a VM report of another host: a domain with the VM's UUID on a host other than the VM's own. If the VM's
// own host does not run the VM, the portal moves the VM to the host whose running domain carries the VM's ownership
// mark. See VM.RunsOnTwoHosts.
type Sighting struct {
	HostID   HostID `json:"hostId,omitempty"`
	HostName string `json:"hostName,omitempty"`
	Power    Power  `json:"power"`
	// HasMark: the domain's metadata contains the VM's ownership mark; false: the domain is unrelated and only has the
	// VM's UUID
	HasMark  bool      `json:"proven"`
	Since    time.Time `json:"since"`             // first report of this power state
	Alarm    bool      `json:"alarm,omitempty"`   // the VM's own host runs the VM, too
	RuledOut bool      `json:"settled,omitempty"` // a user has decided that the VM is not on that host
	Offline  bool      `json:"offline,omitempty"` // the host is offline, so this is its last report; not set in lists
}

func (s Sighting) hasGuest() bool { return s.Power == Running || s.Power == Paused }

func (s Sighting) hostLabel() string { return cmp.Or(s.HostName, "Another host") }

// RunsOnTwoHosts reports whether two hosts run the VM and no user has decided yet which of them keeps the VM. Until
// then the VM allows no actions.
func (vm VM) RunsOnTwoHosts() bool {
	return slices.ContainsFunc(vm.Sightings, func(s Sighting) bool { return s.Alarm })
}

// LocationFault returns the problem with the VM's location, for users who may see hosts, or nil. own is the name of the
// VM's own host, seen the time of that host's report.
func (vm VM) LocationFault(own string, seen *ReportTime, now time.Time) *Fault {
	for _, s := range vm.Sightings {
		if s.Alarm {
			return &Fault{Code: FaultTwoPlaces, Text: fmt.Sprintf(
				"%s and %s both run the VM. Two guests that write to the same disks destroy them. No action is possible until someone chooses the host that keeps the VM.", own, s.hostLabel())}
		}
	}
	for _, s := range vm.Sightings {
		if s.hasGuest() && s.HasMark && !s.RuledOut && !IsReportFresh(seen, now) {
			return &Fault{Code: FaultElsewhere, Text: fmt.Sprintf(
				"%s reports this VM, %s. The VM's own host, %s, is offline and may still run it. Check that host, then choose where the VM is.", s.hostLabel(), s.Power, own)}
		}
	}
	return nil
}

// runsElsewhereRefusal returns which other host runs the VM, so that the VM must not start; empty: none. A domain
// without the VM's ownership mark counts only while the VM's own host is offline, because any host can define a domain
// with any UUID.
func (v VMView) runsElsewhereRefusal() string {
	return v.runningElsewhereText(func(s Sighting) bool {
		return s.HasMark && (!s.Offline || !s.RuledOut) || !s.HasMark && !s.Offline && v.Phase == PhaseUnknown
	})
}

func (v VMView) runningElsewhereText(counts func(Sighting) bool) string {
	for _, s := range v.Sightings {
		if s.hasGuest() && counts(s) {
			return fmt.Sprintf("%s reports a guest with this UUID, %s.", s.hostLabel(), s.Power)
		}
	}
	return ""
}

// WhyDisksInUse returns why the VM's disks must not be deleted now; empty: they can be deleted. A domain with the VM's
// UUID counts even without the VM's ownership mark.
func (v VMView) WhyDisksInUse() string {
	reason := v.runningElsewhereText(func(s Sighting) bool { return !s.Offline || s.HasMark && !s.RuledOut })
	if reason != "" {
		reason += " That guest may write to the disks."
	}
	return reason
}

// Locations returns the hosts that report the VM, its own first, and whether a user can choose each of them as the VM's
// host.
func (v VMView) Locations() []VMLocation {
	if len(v.Sightings) == 0 || v.Status == nil {
		return nil
	}
	out := []VMLocation{{HostID: v.HostID, HostName: v.HostName, Power: v.Status.Power, Offline: v.whyUnreachable() != "", Own: true}}
	if !slices.ContainsFunc(v.Sightings, func(s Sighting) bool { return s.hasGuest() && !s.RuledOut }) {
		out[0].Why = "The VM is already on this host."
	}
	for _, s := range v.Sightings {
		p := VMLocation{HostID: s.HostID, HostName: s.HostName, Power: s.Power, Offline: s.Offline, Settled: s.RuledOut, Proven: s.HasMark}
		if !s.HasMark {
			p.Why = "This domain does not carry the mark of this VM, so it may be an unrelated guest."
		}
		out = append(out, p)
	}
	return out
}

// VMLocation is a host that reports a domain with the VM's UUID.
type VMLocation struct {
	HostID   HostID
	HostName string
	Power    Power
	Offline  bool   // the host is offline, so this is its last report
	Own      bool   // this is the VM's own host
	Proven   bool   // the other host's domain carries the VM's ownership mark
	Settled  bool   // a user has decided that the VM is not on this other host
	Why      string // why users cannot choose this host; empty: they can
}
