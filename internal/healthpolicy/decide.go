package healthpolicy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"quantix/internal/fleet"
)

// Cordon is the act that cordons a host. Any other act is the text of a taint.
const Cordon = "cordon"

// ActState is what became of an act on a host.
type ActState string

const (
	Held    ActState = "held"    // the portal added it, and removes it when no match wants it
	Found   ActState = "found"   // the host had it already; it stays
	Removed ActState = "removed" // a user removed it; it is not added again while the matches last
)

// Act is a taint or a cordon that matches want on a host.
type Act struct {
	HostID   fleet.HostID `json:"hostId"`
	HostName string       `json:"hostName,omitempty"`
	Act      string       `json:"act" doc:"cordon, or a taint such as gpu-failed:NoExecute"`
	State    ActState     `json:"state" enum:"held,found,removed"`
	Policies []string     `json:"policies" doc:"Names of the policies that want it"`
	Cause    string       `json:"cause" doc:"The first condition"`
	Since    time.Time    `json:"since"`
}

// Decision is what happens to one host.
type Decision struct {
	Spec   fleet.HostSpec   // of the host then
	Set    []Act            // to record
	Delete []string         // acts to forget
	States map[int64]Update // of matches that change, by ID
	Added  []Act            // acts that Spec has and the host's spec lacked
	Undone []Act            // acts that Spec lacks and the host's spec had
}

// Update is a match's new state.
type Update struct {
	State  State
	Reason string
}

// Room is how many further hosts may be evacuated.
type Room struct {
	Max   int
	Hosts map[fleet.HostID]bool // hosts that are evacuated now
}

// wait returns why the host cannot be evacuated now; empty: it can.
func (r Room) wait(host fleet.HostID) string {
	if r.Hosts[host] || len(r.Hosts) < r.Max {
		return ""
	}
	if r.Max == 0 {
		return "The settings of health policies allow no host to be drained."
	}
	n := len(r.Hosts)
	verb := "are"
	if n == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%s %s being drained for health policies; at most %d at once.", fleet.CountWithUnit(n, "host"), verb, r.Max)
}

// IsEvacuation reports whether VMs leave a host with the act.
func IsEvacuation(act string) bool {
	return act != Cordon && fleet.ParseTaint(act).Effect == fleet.NoExecute
}

// has reports whether the act holds in the spec.
func has(s fleet.HostSpec, act string) bool {
	if act == Cordon {
		return !s.Schedulable
	}
	return slices.Contains(s.Taints, fleet.ParseTaint(act))
}

func add(s *fleet.HostSpec, act string) {
	if act == Cordon {
		s.Schedulable = false
		return
	}
	s.Taints = append(slices.Clone(s.Taints), fleet.ParseTaint(act))
}

func remove(s *fleet.HostSpec, act string) {
	if act == Cordon {
		s.Schedulable = true
		return
	}
	t := fleet.ParseTaint(act)
	s.Taints = slices.DeleteFunc(slices.Clone(s.Taints), func(x fleet.Taint) bool { return x == t })
}

// acts lists the acts of a match.
func (a Actions) acts() (out []string) {
	if a.Cordons() {
		out = append(out, Cordon)
	}
	for _, t := range a.Taints() {
		out = append(out, t.Text())
	}
	return out
}

// Acts reports whether the match changes its host: neither a dry run nor a released or momentary match does.
func (m Match) Acts() bool {
	return !m.DryRun && !m.Momentary && m.State != Released && m.EndedAt == nil && m.Actions.ChangesHosts()
}

// Decide decides about one host: spec is the host's, matches are its open matches in the order of the actions,
// and acts are what policies have done before. It adds the host to the room's hosts, or removes it.
func Decide(host fleet.HostID, spec fleet.HostSpec, matches []Match, acts []Act, room Room) Decision {
	d := Decision{Spec: spec, States: map[int64]Update{}}
	known := map[string]Act{}
	for _, a := range acts {
		known[a.Act] = a
	}
	wanted := map[string]*Act{}
	waits := map[string]string{}
	for _, m := range matches {
		if !m.Acts() {
			continue
		}
		for _, act := range m.Actions.acts() {
			w := wanted[act]
			if w == nil {
				w = &Act{HostID: host, Act: act, Cause: m.Cause()}
				wanted[act] = w
			}
			if !slices.Contains(w.Policies, m.PolicyName) {
				w.Policies = append(w.Policies, m.PolicyName)
			}
		}
	}
	for _, act := range slices.Sorted(maps.Keys(known)) { // what nobody wants goes first, so that its room is free
		a := known[act]
		if wanted[act] != nil {
			continue
		}
		d.Delete = append(d.Delete, act)
		if a.State == Held && has(d.Spec, act) {
			remove(&d.Spec, act)
			d.Undone = append(d.Undone, a)
		}
	}
	evacuated := false
	for _, act := range slices.Sorted(maps.Keys(wanted)) {
		w, was := wanted[act], known[act]
		holds := has(d.Spec, act)
		switch {
		case was.State == Removed:
			w.State = Removed
		case was.State != "" && !holds:
			w.State = Removed
		case was.State != "":
			w.State = was.State
		case holds:
			w.State = Found
		case act != Cordon && len(d.Spec.Taints) >= fleet.MaxTaints:
			waits[act] = fmt.Sprintf("The host has %d taints, which is the maximum.", fleet.MaxTaints)
			continue
		case IsEvacuation(act) && room.wait(host) != "":
			waits[act] = room.wait(host)
			continue
		default:
			w.State = Held
			add(&d.Spec, act)
			d.Added = append(d.Added, *w)
		}
		if w.State == Held && IsEvacuation(act) {
			evacuated = true
			room.Hosts[host] = true
		}
		d.Set = append(d.Set, *w)
	}
	if !evacuated {
		delete(room.Hosts, host)
	}
	states := map[string]ActState{}
	for _, a := range d.Set {
		states[a.Act] = a.State
	}
	for _, m := range matches {
		if u := m.next(states, waits); u.State != m.State || u.Reason != m.Reason {
			d.States[m.ID] = u
		}
	}
	return d
}

// next returns the match's state, after the acts of its host have the states.
func (m Match) next(states map[string]ActState, waits map[string]string) Update {
	switch {
	case m.State == Released:
		return Update{m.State, m.Reason}
	case m.DryRun:
		return Update{Active, "Dry run: " + m.WouldText() + "."}
	case m.Momentary && (m.Actions.ChangesHosts() || m.Actions.Alarm):
		return Update{Active, "An information has no duration, so that it neither changes the host nor raises an alarm."}
	case !m.Acts():
		return Update{Active, ""}
	}
	out := Update{Active, ""}
	for _, act := range m.Actions.acts() {
		switch {
		case waits[act] != "":
			return Update{Waiting, waits[act]}
		case states[act] == Removed:
			out.Reason = "A user has undone this on the host: " + ActText(act) + "."
		case states[act] == Found && out.Reason == "":
			out.Reason = "The host had this before: " + ActText(act) + "."
		}
	}
	return out
}

// ActText names an act: "cordon", "taint gpu-failed:NoExecute".
func ActText(act string) string {
	if act == Cordon {
		return "cordon"
	}
	return "taint " + act
}
