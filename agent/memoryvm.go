package agent

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

type vmState struct {
	Name       string        `json:"name"`
	Generation int64         `json:"generation"`
	Error      string        `json:"error,omitempty"`
	ErrorOf    fleet.JobKind `json:"errorOf,omitempty"`
	// Stamped is the generation that was applied last.
	Stamped int64 `json:"stamped,omitempty"`
	// Made are the disks that this agent made and the VM has: their definition may be removed before anybody else knows of them.
	Made []fleet.Volref `json:"made,omitempty"`
	// Ran is the boot of the host in which the guest was last seen on; empty: it was seen going off, or an order put it there.
	Ran string `json:"ran,omitempty"`

	// What the host does with it by itself. Policy is what was seen last; the rest is of this boot, or of this run.
	Policy   fleet.VMPolicy `json:"policy,omitzero"`
	Booted   string         `json:"booted,omitempty"`   // the boot of the host in which it is settled whether it starts by itself
	Asked    bool           `json:"asked,omitempty"`    // somebody asked for it to go off, so that it stays off
	Down     string         `json:"down,omitempty"`     // it went off by itself and is to be started again: "crashed" or "shut down"
	Restarts int            `json:"restarts,omitempty"` // how often it was, since it last ran for a while
	Trouble  string         `json:"trouble,omitempty"`  // why the newest start of its host's own failed

	Checks  []fleet.HealthCheck `json:"checks,omitempty"` // likewise, by which the guest is judged
	Acted   int                 `json:"acted,omitempty"`  // how often its host acted because of them, since it was healthy for a while
	Again   string              `json:"again,omitempty"`  // the boot of the host in which it is being restarted because of them; empty: it is not
	AgainAt time.Time           `json:"againAt,omitzero"` // since when: the run that began before is ended
}

// seen notes which guests and networks a look, begun then, has seen on in this boot of the host. Most looks change nothing, and write nothing.
func (m *stateFile) seen(s wire.State, boot string, begun time.Time) error {
	if boot == "" {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := false
	for _, vm := range s.VMs {
		if m.since(vm.ID, begun) {
			continue
		}
		k := m.kept.VMs[vm.ID]
		next := k.seen(vm.Status, boot)
		if reflect.DeepEqual(next, k) {
			continue
		}
		if changed = true; next.Name == "" {
			next.Name, next.Generation = vm.Name, vm.Generation // it is as acted on as its stamp says
		}
		m.kept.VMs[vm.ID] = next
	}
	for _, n := range s.Networks {
		k, ordered := m.kept.Networks[n.ID]
		now := networkMemory{Ran: boot, Error: k.Error}
		if n.Status.Error == "" {
			now.Error = ""
		}
		if ordered && n.Status.Active && k != now && !m.since(n.ID, begun) {
			m.kept.Networks[n.ID], changed = now, true
		}
	}
	if !changed {
		return nil
	}
	return m.save()
}

func isOff(p fleet.Power) bool {
	return p == fleet.Stopped || p == fleet.Crashed || p == fleet.Absent
}

// addTo completes one status, in this boot of the host.
func (m *stateFile) addTo(id fleet.VMID, status *fleet.VMStatus, boot string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept.VMs[id].addTo(status, boot)
}

func (k vmState) addTo(status *fleet.VMStatus, boot string) {
	status.Error, status.ErrorOf = k.Error, k.ErrorOf
	if k.Ran != "" && boot != "" && k.Ran != boot && isOff(status.Power) && status.Power != fleet.Absent {
		status.Faults = append(slices.Clone(status.Faults), fleet.Fault{
			Code: fleet.FaultRebooted, Text: "It was on when its host went down, and is off since the host is back. Start it, or force it off to leave it so.",
		})
	}
	k.addKept(status, boot)
}

// seen is what is known of the VM after a look at it.
func (k vmState) seen(s fleet.VMStatus, boot string) vmState {
	if k.Booted != boot && k.Policy.Autostart == "" { // of what was decided since the host came up, nothing happens before it comes up again
		k.Booted = boot
	}
	k.Policy = s.Policy
	if k.Checks = s.Checks; len(k.Checks) == 0 {
		k.Checks, k.Acted, k.Again = nil, 0, ""
	}
	switch {
	case !isOff(s.Power):
		if k.Ran != boot {
			k.Asked = false
		}
		k.Ran, k.Booted, k.Down, k.Trouble = boot, boot, "", ""
	case k.Ran == boot:
		k.Ran = ""
		if !k.Asked {
			k.Down = isToStart(k.Policy, s)
		}
	}
	if k.Policy.Restart == "" {
		k.Down, k.Restarts = "", 0
	}
	return k
}

// wentDown says how a guest went off by itself; empty: somebody put it off, on the host or from here.
func wentDown(s fleet.VMStatus) string {
	switch {
	case s.Power == fleet.Crashed:
		return "crashed"
	case s.Power == fleet.Stopped && s.Reason == "shut down":
		return "shut down"
	}
	return ""
}

// isToStart is how the guest went off, where its policy is that it is started again for that; else empty.
func isToStart(p fleet.VMPolicy, s fleet.VMStatus) string {
	switch down := wentDown(s); {
	case p.Restart == "always", p.Restart == "onFailure" && down == "crashed":
		return down
	}
	return ""
}

// ordered notes a success of a person's order. turned: it has put the guest on or off.
func (k *vmState) ordered(kind fleet.JobKind, turned bool, boot string) {
	if turned {
		k.Ran, k.Down, k.Trouble, k.Restarts = "", "", "", 0
		k.Acted, k.Again = 0, ""
	}
	if turned && kind.Is().Power == fleet.Running {
		k.Ran, k.Booted = boot, cmp.Or(boot, k.Booted) // no look may come before it goes off again
	}
	if power := kind.Is().Power; power == fleet.Running || kind == fleet.VMReboot || kind == fleet.VMReset {
		k.Asked = false
	}
}

// addKept says what the host does with the VM by itself.
func (k vmState) addKept(status *fleet.VMStatus, boot string) {
	status.Restarts = k.Restarts
	off := status.Power == fleet.Stopped || status.Power == fleet.Crashed
	say := func(text string) {
		status.Faults = append(slices.Clone(status.Faults), fleet.Fault{Code: fleet.FaultRestart, Text: text})
	}
	switch {
	case !off:
	case k.Again != "" && k.Trouble == "":
		say("It failed a health check. Its host starts it again; force it off to leave it off.")
	case k.Trouble != "":
		say("Its host could not start it by itself, and goes on trying for a while: " + k.Trouble)
	case k.Down == "crashed":
		say("It crashed. Its host starts it again within minutes; force it off to leave it off.")
	case k.Down != "":
		say("It was shut down from within. Its host starts it again within minutes; force it off to leave it off.")
	}
}

// asked notes that somebody asks for the VM to go off, before it does; in this boot of the host it does not start with it any more.
func (m *stateFile) asked(id fleet.VMID, boot string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, known := m.kept.VMs[id]
	next := k
	next.Again = ""
	if next.Asked, next.Booted, next.Down, next.Trouble = true, boot, "", ""; !known || reflect.DeepEqual(k, next) {
		return nil
	}
	m.kept.VMs[id], m.noted[id] = next, time.Now()
	return m.save()
}

// keep changes what is known of a VM that there is.
func (m *stateFile) keep(id fleet.VMID, change func(*vmState)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.kept.VMs[id]
	next := old
	if change(&next); !known || reflect.DeepEqual(next, old) {
		return nil
	}
	m.kept.VMs[id], m.noted[id] = next, time.Now()
	return m.save()
}

// keeping are the VMs with which their host does something by itself.
func (m *stateFile) keeping() map[fleet.VMID]vmState {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[fleet.VMID]vmState{}
	for id, k := range m.kept.VMs {
		if k.Policy != (fleet.VMPolicy{}) || len(k.Checks) > 0 {
			out[id] = k
		}
	}
	return out
}

// judging are the VMs with health checks.
func (m *stateFile) judging() map[fleet.VMID]vmState {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[fleet.VMID]vmState{}
	for id, k := range m.kept.VMs {
		if len(k.Checks) > 0 {
			out[id] = k
		}
	}
	return out
}

// acted is how often the host has acted on a VM because of health checks.
func (m *stateFile) acted(id fleet.VMID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept.VMs[id].Acted
}

// freeze notes a guest that is frozen, or is no more.
func (m *stateFile) freeze(id fleet.VMID, frozen bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.kept.Frozen, id) == frozen {
		return nil
	}
	m.kept.Frozen = slices.DeleteFunc(slices.Clone(m.kept.Frozen), func(o fleet.VMID) bool { return o == id })
	if frozen {
		m.kept.Frozen = append(m.kept.Frozen, id)
	}
	return m.save()
}

// frozen lists those guests.
func (m *stateFile) frozen() []fleet.VMID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.kept.Frozen)
}
