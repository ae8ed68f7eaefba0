package fleet

import (
	"cmp"
	"fmt"
	"slices"
)

// faultTexts are the texts of faults: word is the heading, plain the text for users who may not see hosts, without host
// names and paths. A newer agent may report codes that are missing here.
var faultTexts = map[FaultCode]struct{ word, plain string }{
	FaultDisk:      {"A disk is not there", "A disk of this VM is not on its host."},
	FaultRebooted:  {"Off since its host restarted", "It ran when its host went down, and is off since. Start it, or leave it off."},
	FaultIO:        {"Its storage fails", "It was paused because its storage is full or fails."},
	FaultTwoPlaces: {"Runs on two hosts", "It runs in two places at once, so nothing is done to it until an administrator has said where it is."},
	FaultElsewhere: {"Seen on another host", "It was seen in another place while its host is offline. Ask an administrator."},
	FaultRestart:   {"Went off by itself", "It went off by itself, and its host starts it again, or tries to. Force it off to leave it off."},
	FaultSchedule:  {"A snapshot schedule needs you", "A snapshot schedule of it takes nothing. Look at its snapshots."},
	FaultExpiry:    {"Expires", "It expires soon, or has expired. Extend it, or delete it."},
	FaultHealth:    {"Fails a health check", "The guest fails a health check."},
	FaultPlacement: {"Where it is breaks a rule", "Where it is breaks a placement rule."},
	FaultUndefined: {"Its definition was removed", "It runs on, but its definition was removed on its host. Put it back, or it is gone when it stops."},
	FaultLost:      {"It runs, out of reach", "It runs on, but its host takes it for off and can do nothing to it. Ask an administrator."},
	FaultUnread:    {"Its definition cannot be read", "Its host cannot read its definition. Ask an administrator."},
}

// fault returns the first fault with the code, or nil.
func (s VMStatus) fault(code FaultCode) *Fault {
	if i := slices.IndexFunc(s.Faults, func(f Fault) bool { return f.Code == code }); i >= 0 {
		return &s.Faults[i]
	}
	return nil
}

// Word returns the fault's heading.
func (f Fault) Word() string {
	return cmp.Or(faultTexts[f.Code].word, "Something is wrong with it on its host")
}

// Plain returns the status for users who may not see hosts: faults and drift without the host's names, paths and
// messages.
func (vm VM) Plain() *VMStatus {
	if vm.Status == nil {
		return nil
	}
	s := *vm.Status
	s.Domain, s.Faults, s.Drift = "", slices.Clone(s.Faults), slices.Clone(s.Drift)
	for i, f := range s.Faults {
		s.Faults[i].Text = vm.plainFault(f)
	}
	for i, d := range s.Drift {
		if d.Take == nil { // fields outside the spec can reveal anything of the host
			s.Drift[i].Applied, s.Drift[i].Actual = "as it was made", "something else"
		}
	}
	return &s
}

func (vm VM) plainFault(f Fault) string {
	if f.Code == FaultExpiry || f.Code == FaultSchedule {
		return f.Text // the text comes from the portal, not from the host
	}
	if broken := vm.RuleFault(true); f.Code == FaultPlacement && broken != nil {
		return broken.Text
	}
	if sick := HealthFault(vm.Status.Health); f.Code == FaultHealth && sick != nil {
		return sick.Text // the text is about the guest only
	}
	if f.Code == FaultDisk && f.Disk != nil {
		for i, d := range vm.Spec.Disks {
			if d.Ref() == *f.Disk {
				return fmt.Sprintf("Disk %d (%s) is not on its host.", i+1, d.Volume)
			}
		}
	}
	return cmp.Or(faultTexts[f.Code].plain, "Something is wrong with this VM on its host. Ask an administrator.")
}
