package fleet

import (
	"cmp"
	"fmt"
	"slices"
)

// faultTexts are the texts of faults. word is the heading. plain is the text for users who may not see hosts, so it
// contains no host names and paths. A newer agent may report codes that this table lacks.
var faultTexts = map[FaultCode]struct{ word, plain string }{
	FaultDisk:      {"Disk missing", "A disk of this VM is missing on its host."},
	FaultRebooted:  {"Off since its host restarted", "The VM ran when its host went down, and has been off since. Start the VM, or leave it off."},
	FaultIO:        {"Storage full or failing", "The VM was paused because its storage is full or fails."},
	FaultTwoPlaces: {"Runs on two hosts", "The VM runs in two places at once. No action is possible until an administrator has chosen one of them."},
	FaultElsewhere: {"Seen on another host", "The VM was seen in another place while its host is offline. Ask an administrator."},
	FaultRestart:   {"Stopped unexpectedly", "The VM stopped unexpectedly, and its host restarts it. Force the VM off to keep it off."},
	FaultSchedule:  {"Snapshot schedule fails", "A snapshot schedule of the VM takes no snapshots. See the VM's snapshots."},
	FaultExpiry:    {"Expires", "The VM expires soon or has expired. Renew the VM, or delete it."},
	FaultHealth:    {"Fails a health check", "The guest fails a health check."},
	FaultPlacement: {"Placement rule broken", "The VM's host breaks a placement rule."},
	FaultUndefined: {"Definition removed", "The VM still runs, but its definition was removed on its host. Reapply it, or the VM is lost when it stops."},
	FaultLost:      {"Lost by libvirt", "The VM still runs, but libvirt on its host has lost track of it. Ask an administrator."},
	FaultUnread:    {"Definition unreadable", "The VM's host cannot read its definition. Ask an administrator."},
}

// faultByCode returns the first fault with the code, or nil.
func (s VMStatus) faultByCode(code FaultCode) *Fault {
	if i := slices.IndexFunc(s.Faults, func(f Fault) bool { return f.Code == code }); i >= 0 {
		return &s.Faults[i]
	}
	return nil
}

// Heading returns the fault's heading.
func (f Fault) Heading() string {
	return cmp.Or(faultTexts[f.Code].word, "Fault on the host")
}

// StatusWithoutHosts returns the status for users who may not see hosts: faults and drift without the host's names,
// paths and messages.
func (vm VM) StatusWithoutHosts() *VMStatus {
	if vm.Status == nil {
		return nil
	}
	s := *vm.Status
	s.Domain, s.Faults, s.Drift = "", slices.Clone(s.Faults), slices.Clone(s.Drift)
	for i, f := range s.Faults {
		s.Faults[i].Text = vm.faultTextWithoutHosts(f)
	}
	for i, d := range s.Drift {
		if d.Take == nil || d.Field == "hostDevices" { // such drift can reveal details of the host
			s.Drift[i].Applied, s.Drift[i].Actual, s.Drift[i].Take = "as defined", "changed", nil
		}
	}
	return &s
}

func (vm VM) faultTextWithoutHosts(f Fault) string {
	if f.Code == FaultExpiry || f.Code == FaultSchedule {
		return f.Text // the text comes from the portal, not from the host
	}
	if broken := vm.RuleFault(true); f.Code == FaultPlacement && broken != nil {
		return broken.Text
	}
	if sick := HealthFault(vm.Status.Health); f.Code == FaultHealth && sick != nil {
		return sick.Text // the health check's text describes only the guest
	}
	if f.Code == FaultDisk && f.Disk != nil {
		for i, d := range vm.Spec.Disks {
			if d.Ref() == *f.Disk {
				return fmt.Sprintf("Disk %d (%s) is missing on its host.", i+1, d.Volume)
			}
		}
	}
	return cmp.Or(faultTexts[f.Code].plain, "The VM has a fault on its host. Ask an administrator.")
}
