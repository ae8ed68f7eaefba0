package vm

import (
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// GuestActionPage is a dialog for a guest agent action.
type GuestActionPage struct {
	VM     fleet.VMView
	Why    string // why the action is not possible now
	In     GuestActionForm
	Errors kit.Errors
}

// GuestActionForm holds the values that a person typed in a guest agent's dialog. A password is never sent back to the
// form.
type GuestActionForm struct{ Seconds, User, Program, Args string }

func (p GuestActionPage) dialog(act fleet.Action, button string) kit.Dialog {
	return kit.Dialog{
		Title: act.Label() + " in " + p.VM.Name, Button: button, Back: views.VMPath(p.VM.ID), Action: views.VMPath(p.VM.ID, "guest", string(act)), Why: p.Why,
	}
}

// guestActions are the actions that need the guest agent.
func (p Page) guestActions() []kit.ActionButton {
	var out []kit.ActionButton
	for _, s := range p.GuestActions {
		a := kit.ActionButton{Icon: guestIcons[s.Action], Word: s.Action.Label(), Absent: s.Absent}
		if !s.Allowed {
			a.Why = s.Reason
		}
		switch s.Action {
		case fleet.ActFreeze, fleet.ActGuestPassword, fleet.ActExec:
			a.Word, a.Href, a.Dialog = a.Word+"…", p.path("guest", string(s.Action)), true
		default:
			a.Post, a.PostValues = p.path("guest"), []kit.FormValue{{Name: "action", Value: string(s.Action)}}
		}
		out = append(out, a)
	}
	return out
}

var guestIcons = map[fleet.Action]string{
	fleet.ActFreeze: "pause", fleet.ActThaw: "play", fleet.ActClock: "clock", fleet.ActTrim: "hard-drive", fleet.ActGuestPassword: "key-round", fleet.ActExec: "terminal",
}

// guestBootTime is how long a guest may boot before an agent that does not answer counts as a problem.
const guestBootTime = 5 * time.Minute

// guestIsBooting reports whether the guest started so recently that its agent may not run yet.
func guestIsBooting(s fleet.VMStatus, now time.Time) bool {
	return s.Guest != nil && s.Guest.Agent == fleet.AgentNotResponding && s.StartedAt != nil && now.Sub(*s.StartedAt).Abs() < guestBootTime
}

// guestAgentAppearance is the icon, tone and word for the guest agent's state.
func guestAgentAppearance(g fleet.GuestStatus, booting bool) (icon, tone, word string) {
	switch {
	case g.Agent == fleet.AgentNone:
		return "circle-dashed", "idle", "No channel"
	case booting:
		return "clock", "idle", "No answer yet"
	case g.Agent != fleet.AgentAnswers:
		return "circle-question-mark", "warn", "Does not answer"
	case g.Frozen:
		return "pause", "warn", "File systems frozen"
	}
	return "circle-check", "ok", "Answers"
}

// guestAgentHelp explains how to make the guest agent respond. It is empty if the agent responds.
func guestAgentHelp(g fleet.GuestStatus, booting bool) string {
	switch {
	case g.Agent == fleet.AgentNone:
		return "Enable the guest agent under Configure, Other devices. The change takes effect at the guest's next start."
	case g.Agent == fleet.AgentAnswers:
		return ""
	case booting:
		return "The guest is starting. Its agent answers when the guest has booted, if qemu-guest-agent is installed in it."
	}
	return "Install and start qemu-guest-agent in the guest. Without it, addresses come from DHCP and ARP, and snapshots are not quiesced."
}

// clockOffset describes how far the guest's clock differs from the host's. bad is true if the difference is large
// enough to cause problems with certificates and logs.
func clockOffset(g fleet.GuestReading) (text string, bad bool) {
	off := time.Duration(g.ClockMs) * time.Millisecond
	way := "ahead"
	if g.ClockBehind {
		way = "behind"
	}
	switch {
	case off < time.Second:
		return "In sync with host", false
	case off < time.Minute:
		return strconv.FormatFloat(off.Seconds(), 'f', 1, 64) + " s " + way, off >= 5*time.Second
	}
	return kit.ShortDuration(off) + " " + way, true
}

// signedInGuestUsers are the names of the signed-in guest users.
func signedInGuestUsers(users []fleet.GuestUser) string {
	var out []string
	for _, u := range users {
		name := u.Name
		if u.Domain != "" {
			name = u.Domain + `\` + name
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}

// reportedGuest is the reported status of the running guest; nil if the VM is off or its host is offline.
func (p Page) reportedGuest() *fleet.GuestStatus {
	if p.VM.Status == nil || p.VM.Phase == fleet.PhaseUnknown {
		return nil
	}
	return p.VM.Status.Guest
}

// ProtectionPage is the dialog that sets a VM's protection.
type ProtectionPage struct {
	VM     fleet.VMView
	Why    string
	In     ProtectionForm
	Errors kit.Errors
}

// ProtectionForm holds the values that a person typed in the protection dialog. Times are in UTC.
type ProtectionForm struct {
	Protected, Locked, Stops bool
	Reason, Expires          string
}

// ExpiryTimeLayout is the time layout of the form's expiry field.
const ExpiryTimeLayout = "2006-01-02T15:04"

// ProtectionFormOf is the form of the VM's current protection.
func ProtectionFormOf(g fleet.VMProtection) ProtectionForm {
	out := ProtectionForm{Protected: g.Protected, Locked: g.Lock != nil, Stops: g.ExpiryStops}
	if g.Lock != nil {
		out.Reason = g.Lock.Reason
	}
	if g.ExpiresAt != nil {
		out.Expires = g.ExpiresAt.UTC().Format(ExpiryTimeLayout)
	}
	return out
}

func (p ProtectionPage) dialog() kit.Dialog {
	return kit.Dialog{
		Help: kit.HelpProtection, Title: "Protection of " + p.VM.Name, Button: "Save", Back: views.VMPath(p.VM.ID), Action: views.VMPath(p.VM.ID, "guard"), Why: p.Why,
	}
}

// protectionTexts describes the VM's protection, one sentence per setting; empty: none.
func protectionTexts(g fleet.VMProtection) []string {
	var out []string
	if g.Protected {
		out = append(out, "Protected from deletion")
	}
	if g.Lock != nil {
		out = append(out, "Locked by "+g.Lock.By)
	}
	if g.ExpiresAt != nil {
		word := "Expires "
		if g.Expiry == fleet.Expired {
			word = "Expired "
		}
		word += g.ExpiresAt.UTC().Format("2 January 2006, 15:04 UTC")
		if g.ExpiryStops && g.Expiry != fleet.Expired {
			word += ", then shuts down"
		}
		out = append(out, word)
	}
	return out
}

// RenewPage is the dialog that renews a VM. Days is how long the project extends VMs; 0: the user enters the expiry.
type RenewPage struct {
	VM      fleet.VMView
	Days    int
	Expires string // as typed
	Errors  kit.Errors
}

func (p RenewPage) dialog() kit.Dialog {
	return kit.Dialog{Title: "Renew " + p.VM.Name, Action: views.VMPath(p.VM.ID, "renew"), Button: "Renew VM", Back: views.VMPath(p.VM.ID), Help: kit.HelpRenewal}
}
