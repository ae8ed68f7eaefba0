package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Sighting is a domain with a VM's UUID on another host than the VM's own, as that host reports it. A VM whose own host
// does not run it is followed to the host that runs a domain with the VM's mark. See VM.Elsewhere.
type Sighting struct {
	HostID   HostID `json:"hostId,omitempty"`
	HostName string `json:"hostName,omitempty"`
	Power    Power  `json:"power"`
	// Proven: the domain carries the VM's mark; otherwise it is an unrelated domain with that UUID
	Proven  bool      `json:"proven"`
	Since   time.Time `json:"since"`             // first report of this power state
	Alarm   bool      `json:"alarm,omitempty"`   // the VM's own host runs it, too
	Settled bool      `json:"settled,omitempty"` // a person has decided that the VM is not there
	Offline bool      `json:"offline,omitempty"` // the host is offline: the last report; not set in lists
}

func (s Sighting) on() bool { return s.Power == Running || s.Power == Paused }

func (s Sighting) host() string { return cmp.Or(s.HostName, "Another host") }

// Contested reports whether two hosts run the VM and no person has decided yet which of them has it. Until then the VM
// allows no actions.
func (vm VM) Contested() bool {
	return slices.ContainsFunc(vm.Elsewhere, func(s Sighting) bool { return s.Alarm })
}

// PlaceFault returns the problem with the VM's location, for users who may see hosts, or nil. own is the name of the
// VM's own host, seen the time of that host's report.
func (vm VM) PlaceFault(own string, seen *time.Time, now time.Time) *Fault {
	for _, s := range vm.Elsewhere {
		if s.Alarm {
			return &Fault{Code: FaultTwoPlaces, Text: fmt.Sprintf(
				"%s and %s both run it. Two guests that write to the same disks destroy them. Nothing is done to it until somebody says where it is.", own, s.host())}
		}
	}
	for _, s := range vm.Elsewhere {
		if s.on() && s.Proven && !s.Settled && !Fresh(seen, now) {
			return &Fault{Code: FaultElsewhere, Text: fmt.Sprintf(
				"%s says that it has this VM, %s. Its own host, %s, is offline and may still run it. Look there, then say where the VM is.", s.host(), s.Power, own)}
		}
	}
	return nil
}

// whyRunsElsewhere returns which other host runs the VM, so that it must not start; empty: none. A domain without the
// VM's mark counts only while the VM's own host is offline: any host can define a domain with any UUID.
func (v VMView) whyRunsElsewhere() string {
	return v.firstRunningElsewhere(func(s Sighting) bool {
		return s.Proven && (!s.Offline || !s.Settled) || !s.Proven && !s.Offline && v.Phase == PhaseUnknown
	})
}

func (v VMView) firstRunningElsewhere(counts func(Sighting) bool) string {
	for _, s := range v.Elsewhere {
		if s.on() && counts(s) {
			return fmt.Sprintf("%s says that it has a guest of this UUID, %s.", s.host(), s.Power)
		}
	}
	return ""
}

// DisksHeld returns why the VM's disks must not be deleted now; empty: they can be. A domain without the VM's mark
// counts, too.
func (v VMView) DisksHeld() string {
	reason := v.firstRunningElsewhere(func(s Sighting) bool { return !s.Offline || s.Proven && !s.Settled })
	if reason != "" {
		reason += " That guest may write to them, and is left alone."
	}
	return reason
}

// Places returns the hosts that report the VM, its own first, and whether a person can decide that the VM is there.
func (v VMView) Places() []Place {
	if len(v.Elsewhere) == 0 || v.Status == nil {
		return nil
	}
	out := []Place{{HostID: v.HostID, HostName: v.HostName, Power: v.Status.Power, Offline: v.Phase == PhaseUnknown, Own: true}}
	if !slices.ContainsFunc(v.Elsewhere, func(s Sighting) bool { return s.on() && !s.Settled }) {
		out[0].Why = "The VM is there already."
	}
	for _, s := range v.Elsewhere {
		p := Place{HostID: s.HostID, HostName: s.HostName, Power: s.Power, Offline: s.Offline, Settled: s.Settled, Proven: s.Proven}
		if !s.Proven {
			p.Why = "That domain does not carry the mark of this VM, so it may be anything."
		}
		out = append(out, p)
	}
	return out
}

// Place is a host that reports a domain with the VM's UUID.
type Place struct {
	HostID   HostID
	HostName string
	Power    Power
	Offline  bool   // the host is offline: the last report
	Own      bool   // the VM's own host
	Proven   bool   // another host's domain carries the VM's mark
	Settled  bool   // a person has decided that the VM is not on this other host
	Why      string // why a person cannot decide that the VM is there; empty: a person can
}
