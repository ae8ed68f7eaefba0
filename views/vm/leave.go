package vm

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// LeavePage asks to which host a VM is to go.
type LeavePage struct {
	VM      fleet.VMView
	Why     string // why it cannot go now
	Targets []fleet.LeaveTarget
	To      kit.Choices // of them
	In      LeaveForm
	Errors  kit.Errors
}

// LeaveForm is what a person chose.
type LeaveForm struct {
	To, Rate   string
	Overcommit bool
}

func (p LeavePage) dialog() kit.Dialog {
	return kit.Dialog{
		Help:  kit.HelpMigrate,
		Title: "Move " + p.VM.Name + " to another host", Button: "Move to host", Back: views.VMPath(p.VM.ID), Action: views.VMPath(p.VM.ID, "leave"), Why: p.Why,
	}
}

func leaveKey(t fleet.LeaveTarget) string { return string(t.HostID) + "/" + string(t.PoolID) }

func leaveName(t fleet.LeaveTarget) string {
	if t.PoolID == "" {
		return t.HostName
	}
	return t.HostName + ", pool " + t.PoolName
}

func leaveText(t fleet.LeaveTarget) string {
	if t.PoolID == "" {
		return leaveName(t) + ": its disks stay where they are"
	}
	return leaveName(t) + ", " + kit.Bytes(t.FreeBytes) + " free"
}

// LeaveOptions are the targets that a person may choose: where only room is missing, they may wish it all the same.
func LeaveOptions(targets []fleet.LeaveTarget) (out []kit.Option) {
	for _, t := range targets {
		if t.Allowed || t.Room {
			out = append(out, kit.Option{Value: leaveKey(t), Text: leaveText(t)})
		}
	}
	return out
}

// leaveRefused is how many targets say why the VM cannot go there.
const leaveRefused = 10

// refused are the first targets with a reason against them, and how many more there are.
func (p LeavePage) refused() (first []fleet.LeaveTarget, more int) {
	for _, t := range p.Targets {
		switch {
		case t.Reason == "":
		case len(first) < leaveRefused:
			first = append(first, t)
		default:
			more++
		}
	}
	return first, more
}

func (p LeavePage) overcommits() bool {
	if p.In.Overcommit || p.Errors.At("overcommit") != "" {
		return true
	}
	room := false
	for _, t := range p.Targets {
		if t.Allowed {
			return false
		}
		room = room || t.Room
	}
	return room
}

// leave is the act at the VM's host.
func (p Page) leave() kit.Act {
	_, why := p.VM.AllowsLeave(p.Moving, p.Leaving)
	return kit.Act{Icon: "server", Word: "Move to another host…", Href: views.VMPath(p.VM.ID, "leave"), Dialog: true}.When(p.LeaveWhy).When(why)
}

func leavingText(l fleet.LeavingVM) string {
	if l.State == fleet.JobQueued {
		return "waits to go to " + l.ToName
	}
	return "on its way to " + l.ToName + ", " + strconv.Itoa(l.Progress) + " %"
}
