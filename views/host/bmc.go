package host

import (
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/bmc"
	"quantix/internal/fleet"
	"quantix/internal/maintenance"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// bmcActions are the buttons about the host's BMC.
func bmcActions(p Page) []kit.ActionButton {
	edit := kit.ActionButton{Icon: "pencil", Word: "Edit", Label: "Edit the BMC", Href: views.HostPath(p.Host.ID, "bmc"), Dialog: true}
	if p.BMC == nil {
		edit.Icon, edit.Word, edit.Label = "plus", "Add BMC", ""
		return []kit.ActionButton{edit.RequirePermission(p.Actor, policy.InfraChange)}
	}
	test := kit.ActionButton{Word: "Test", Label: "Test the BMC", Post: views.HostPath(p.Host.ID, "bmc", "test"), Back: p.path()}
	if p.BMC.Checking {
		test.Why = "A test is in progress."
	}
	remove := kit.ActionButton{
		Word: "Remove", Label: "Remove the BMC", Post: views.HostPath(p.Host.ID, "bmc", "delete"), Back: p.path(), Danger: true,
		Confirm: "Quantix forgets the address and the credentials of the BMC. The BMC itself does not change.",
	}
	return []kit.ActionButton{test.RequirePermission(p.Actor, policy.InfraChange), edit.RequirePermission(p.Actor, policy.InfraChange), remove.RequirePermission(p.Actor, policy.InfraChange)}
}

// powerChip returns the class and the icon of a power state.
func powerChip(p bmc.Power) (class, icon string) {
	switch p {
	case bmc.On:
		return "ok", "power"
	case bmc.Off:
		return "", "power-off"
	case bmc.PoweringOn, bmc.PoweringOff:
		return "warn", "refresh-cw"
	}
	return "unknown", "circle-question-mark"
}

// healthClass is the class of Redfish's word for a machine's health.
func healthClass(word string) string {
	switch word {
	case "OK":
		return "ok"
	case "Warning":
		return "warn"
	case "Critical":
		return "bad"
	}
	return ""
}

func machineText(r bmc.Reading) string { return strings.TrimSpace(r.Maker + " " + r.Model) }

// fingerprintText groups the digits of a fingerprint: "ab12 cd34 …".
func fingerprintText(hex string) string {
	var out strings.Builder
	for i, r := range hex {
		if i > 0 && i%4 == 0 {
			out.WriteByte(' ')
		}
		out.WriteRune(r)
	}
	return out.String()
}

// BMCForm is the dialog that adds or changes a host's BMC. It never repeats a typed password.
type BMCForm struct {
	Host       fleet.HostView
	Spec       bmc.Spec
	Generation int64
	Errors     kit.Errors
}

func (f BMCForm) dialog() kit.Dialog {
	d := kit.Dialog{Help: kit.HelpBMC, Title: "Add the BMC of " + f.Host.Name, Button: "Add", Back: views.HostPath(f.Host.ID), Action: views.HostPath(f.Host.ID, "bmc")}
	if f.Host.HasBMC {
		d.Title, d.Button = "Edit the BMC of "+f.Host.Name, "Save"
	}
	return d
}

func (f BMCForm) field(name, label, value, hint string) kit.Field {
	return kit.Field{Name: name, ID: "bmc-" + name, Label: label, Value: value, Hint: hint, Error: f.Errors.At(name), Attrs: templ.Attributes{"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}}
}

func (f BMCForm) passwordField() kit.Field {
	in := f.field("password", "Password", "", "Stored encrypted, and never shown again.")
	if f.Host.HasBMC {
		in.Hint = "Empty: the stored password stays. Enter it again with another address or certificate."
	}
	in.Type, in.Attrs["autocomplete"] = "password", "new-password"
	return in
}

func (f BMCForm) caField() kit.Field {
	in := f.field("ca", "Certificate authority", f.Spec.CA, "With “Authority”: its certificates in PEM.")
	in.Attrs["rows"], in.Attrs["class"] = "4", "mono"
	return in
}

func trustOptions() []kit.Option {
	return []kit.Option{{Value: string(bmc.TrustPin), Text: "Pinned certificate"}, {Value: string(bmc.TrustCA), Text: "Authority"}}
}

// BMCPowerPage is the dialog before a host's power is switched through its BMC.
type BMCPowerPage struct {
	Host    fleet.HostView
	Act     fleet.Action
	Running []maintenance.Blocker // VMs that end with the host, as last reported
	Errors  kit.Errors
}

func (p BMCPowerPage) dialog() kit.Dialog {
	verb := p.Act.BMCJobKind().Info().Verb
	return kit.Dialog{
		Help: kit.HelpBMC, Title: verb + ": " + p.Host.Name, Button: verb, Danger: p.Act != fleet.ActPowerOn, Back: views.HostPath(p.Host.ID),
		Action: views.HostPath(p.Host.ID, string(p.Act)), Why: kit.RefusalReason(p.Host.Allows(p.Act)),
	}
}

// fences reports whether the portal does not know what runs on the host.
func (p BMCPowerPage) fences() bool {
	return p.Act != fleet.ActPowerOn && p.Host.NeedsFencing() && p.Host.Lifecycle != fleet.LifecycleOffline
}

// TerminationPage is the dialog that drains, powers off and removes a host.
type TerminationPage struct {
	MaintenancePage
	Termination  maintenance.Termination
	LeaveVolumes bool
}

func (p TerminationPage) dialog() kit.Dialog {
	return kit.Dialog{
		Help: kit.HelpTerminate, Title: "Terminate host: " + p.Host.Name, Button: "Terminate host", Danger: true, Back: views.HostPath(p.Host.ID),
		Action: views.HostPath(p.Host.ID, string(fleet.ActTerminate)), Why: p.Why,
	}
}

// powerOffText says what powers the host off.
func (p TerminationPage) powerOffText() string {
	switch p.Termination.PowerOff {
	case maintenance.PowerOffByAgent:
		return "The agent shuts the machine down."
	case maintenance.PowerOffByBMC:
		return "The BMC powers the machine off."
	}
	return "The machine is off already."
}
