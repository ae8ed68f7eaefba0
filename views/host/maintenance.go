package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/maintenance"
	"quantix/views"
	"quantix/views/kit"
)

// MaintenancePage is the dialog that lets a host enter maintenance, or resume it.
type MaintenancePage struct {
	Host   fleet.HostView
	Plan   maintenance.Plan
	Why    string                // why the host cannot enter maintenance now
	Chosen map[fleet.VMID]string // decisions as chosen: see DecisionValue
	Errors kit.Errors
}

// maxMigrationChoices limits the hosts offered for one VM, so that the dialog of a host with many VMs stays small.
const maxMigrationChoices = 20

func (p MaintenancePage) dialog() kit.Dialog {
	d := kit.Dialog{
		Help: kit.HelpMaintenance, Title: "Enter maintenance: " + p.Host.Name, Button: "Enter maintenance", Back: views.HostPath(p.Host.ID),
		Action: views.HostPath(p.Host.ID, "maintenance"), Why: p.Why,
	}
	if p.Host.Lifecycle == fleet.LifecycleDraining {
		d.Title, d.Button = "Resume maintenance: "+p.Host.Name, "Resume"
	}
	return d
}

// sections returns the VMs of the plan in three groups: those that need a decision, those that run, and those that are
// off.
func (p MaintenancePage) sections() (out []maintenanceSection) {
	groups := []maintenanceSection{{title: "Needs a decision", key: "undecided"}, {title: "Running", key: "running"}, {title: "Powered off", key: "off"}}
	for _, vm := range p.Plan.VMs {
		i := 2
		switch {
		case vm.Proposal == nil:
			i = 0
		case vm.Runs:
			i = 1
		}
		groups[i].vms = append(groups[i].vms, vm)
	}
	return slices.DeleteFunc(groups, func(g maintenanceSection) bool { return len(g.vms) == 0 })
}

type maintenanceSection struct {
	title, key string
	vms        []maintenance.VM
}

// Overcommit is the value of the button and of the field for a plan that may exceed what the other hosts can allocate.
const Overcommit = "overcommit"

// asProposed is the value of the choice that sets all VMs of a section to their proposals.
const asProposed = "proposal"

// toSet returns the VMs whose decisions the section's button sets: those without a decision, or all if each has one.
func (p MaintenancePage) toSet(s maintenanceSection) []maintenance.VM {
	undecided := slices.DeleteFunc(slices.Clone(s.vms), func(vm maintenance.VM) bool { return p.value(vm) != "" })
	if len(undecided) > 0 {
		return undecided
	}
	return s.vms
}

// setAllLabel is the label of the section's choice for all VMs; empty: the section has too few VMs for it.
func (p MaintenancePage) setAllLabel(s maintenanceSection) string {
	switch set := p.toSet(s); {
	case len(s.vms) < 2 || len(set) < 2:
		return ""
	case p.value(set[0]) == "":
		return "Set all " + kit.CountText(len(set), "undecided VM") + " to"
	default:
		return "Set all " + kit.CountText(len(set), "VM") + " to"
	}
}

// setAllOptions lists the decisions that are possible for VMs of the section. A decision that is not possible for all of
// them has the number of VMs for which it is.
func (p MaintenancePage) setAllOptions(s maintenanceSection) []kit.Option {
	set := p.toSet(s)
	count := map[string]int{}
	out := []kit.Option{{Text: "Choose…"}}
	for _, vm := range set {
		for _, o := range p.options(vm) {
			i := slices.IndexFunc(out, func(of kit.Option) bool { return of.Value == o.Value })
			switch {
			case o.Value == "":
			case i < 0:
				out = append(out, o)
			case len(o.Text) < len(out[i].Text): // "Shut down" also means "Shut down, start afterwards"
				out[i].Text = o.Text
			}
			count[o.Value]++
		}
	}
	for i, o := range out {
		if n := count[o.Value]; i > 0 && n < len(set) {
			out[i].Text += fmt.Sprintf(" (%d of %d)", n, len(set))
		}
	}
	if set[0].Proposal != nil {
		out = slices.Insert(out, 1, kit.Option{Value: asProposed, Text: "As proposed"})
	}
	return out
}

// SetAll sets the decision about each VM of the section that toSet returns to the value of the section's choice, if that
// is possible for the VM.
func (p *MaintenancePage) SetAll(section, value string) {
	for _, s := range p.sections() {
		if s.key != section {
			continue
		}
		for _, vm := range p.toSet(s) {
			switch {
			case value == asProposed:
				delete(p.Chosen, vm.ID)
			case value != "" && p.offers(vm, value):
				p.Chosen[vm.ID] = value
			}
		}
	}
}

// offers reports whether the decision is an option of the VM.
func (p MaintenancePage) offers(vm maintenance.VM, value string) bool {
	return slices.ContainsFunc(p.options(vm), func(o kit.Option) bool { return o.Value == value })
}

// DecisionValue is the value of a decision in the form: "leave", "shutdown" or "migrate/<host>/<pool>".
func DecisionValue(d fleet.MaintenanceDecision) string {
	if d.Do != fleet.MaintenanceMigrate {
		return string(d.Do)
	}
	return strings.Join([]string{string(d.Do), string(d.HostID), string(d.PoolID)}, "/")
}

// ParseDecision is the inverse of DecisionValue.
func ParseDecision(text string) fleet.MaintenanceDecision {
	parts := append(strings.SplitN(text, "/", 3), "", "")
	return fleet.MaintenanceDecision{Do: fleet.MaintenanceDo(parts[0]), HostID: fleet.HostID(parts[1]), PoolID: fleet.PoolID(parts[2])}
}

// value is the selected decision about the VM; empty: none.
func (p MaintenancePage) value(vm maintenance.VM) string {
	if v := p.Chosen[vm.ID]; v != "" && p.offers(vm, v) {
		return v
	}
	if vm.Proposal == nil {
		return ""
	}
	return DecisionValue(*vm.Proposal)
}

// options lists the possible decisions about the VM, the proposal first.
func (p MaintenancePage) options(vm maintenance.VM) (out []kit.Option) {
	if vm.Proposal == nil {
		out = append(out, kit.Option{Text: "Decide…"})
	}
	moves := 0
	for _, c := range vm.Choices {
		proposed := vm.Proposal != nil && c.MaintenanceDecision == *vm.Proposal
		if c.Do == fleet.MaintenanceMigrate {
			if moves++; moves > maxMigrationChoices && !proposed {
				continue
			}
		}
		if c.Allowed {
			out = append(out, kit.Option{Value: DecisionValue(c.MaintenanceDecision), Text: choiceText(vm, c)})
		}
	}
	return out
}

func choiceText(vm maintenance.VM, c maintenance.Choice) string {
	switch {
	case c.Do == fleet.MaintenanceMigrate && c.PoolName != "":
		return "Migrate " + string(c.Mode) + " to " + c.HostName + ", pool " + c.PoolName
	case c.Do == fleet.MaintenanceMigrate:
		return "Migrate " + string(c.Mode) + " to " + c.HostName
	case c.Do == fleet.MaintenanceShutdown && !vm.Runs:
		return "Leave powered off, start afterwards"
	case c.Do == fleet.MaintenanceShutdown && vm.Managed:
		return "Shut down, start afterwards"
	case c.Do == fleet.MaintenanceShutdown:
		return "Shut down"
	case vm.Runs:
		return "Leave running"
	}
	return "Leave powered off"
}

// remark is why the VM needs a decision, or why a VM that is off cannot migrate.
func remark(vm maintenance.VM) string {
	if vm.Proposal != nil && !vm.Runs && vm.Reason != "" {
		return "It cannot migrate: " + vm.Reason
	}
	return vm.Reason
}

// LeaveMaintenancePage is the dialog that lets a host leave maintenance.
type LeaveMaintenancePage struct {
	Host   fleet.HostView
	Plan   maintenance.LeavePlan
	Keep   map[fleet.VMID]bool // moved VMs that are not brought back
	Errors kit.Errors
}

func (p LeaveMaintenancePage) dialog() kit.Dialog {
	return kit.Dialog{
		Help: kit.HelpMaintenance, Title: "Leave maintenance: " + p.Host.Name, Button: "Leave maintenance", Back: views.HostPath(p.Host.ID),
		Action: views.HostPath(p.Host.ID, "leave-maintenance"), Why: kit.RefusalReason(p.Host.Allows(fleet.ActLeaveMaintenance)),
	}
}

// PowerPage is the dialog before a host is rebooted or shut down.
type PowerPage struct {
	Host    fleet.HostView
	Act     fleet.Action
	Running []maintenance.Blocker // VMs that end with the host
	Errors  kit.Errors
}

func (p PowerPage) dialog() kit.Dialog {
	verb := p.Act.HostPowerJobKind().Info().Verb
	return kit.Dialog{
		Help: kit.HelpMaintenance, Title: verb + ": " + p.Host.Name, Button: verb, Danger: true, Back: views.HostPath(p.Host.ID),
		Action: views.HostPath(p.Host.ID, string(p.Act)), Why: kit.RefusalReason(p.Host.Allows(p.Act)),
	}
}

func hostCrumbs(h fleet.HostView) []kit.Breadcrumb {
	return []kit.Breadcrumb{{Text: "Hosts", Href: "/hosts"}, {Text: h.Name, Href: views.HostPath(h.ID)}}
}

// maintenanceActions are the buttons of the notice about the host's maintenance.
func maintenanceActions(p Page) (out []kit.ActionButton) {
	for _, b := range Actions(p.Actor, p.Host) {
		switch {
		case b.Word == resumeMaintenance && p.Progress.IsStuck(), b.Word == leaveMaintenance && b.Why == "" && (p.Progress.Task == nil || p.Progress.Task.State.IsFinal()):
			out = append(out, b)
		}
	}
	return out
}

// Labels of the actions on a host's maintenance.
const (
	enterMaintenance  = "Enter maintenance"
	resumeMaintenance = "Resume maintenance"
	leaveMaintenance  = "Leave maintenance"
)

// blockerPath is the address of a running VM's page.
func blockerPath(h fleet.HostView, b maintenance.Blocker) string {
	if b.Managed {
		return views.VMPath(b.ID)
	}
	return views.DiscoveredVMPath(h.ID, b.ID)
}

// maxNamedBlockers limits the VMs that one line names.
const maxNamedBlockers = 12

// blockerGroup are running VMs with the same reason.
type blockerGroup struct {
	vms    []maintenance.Blocker
	reason string
}

func (g blockerGroup) named() []maintenance.Blocker {
	return g.vms[:min(len(g.vms), maxNamedBlockers)]
}

func (g blockerGroup) unnamed() int { return max(0, len(g.vms)-maxNamedBlockers) }

// groupBlockers groups the VMs by reason, in the order of the first VM of each group. If stuck is set, each VM has one.
func groupBlockers(vms []maintenance.Blocker, stuck bool) (out []blockerGroup) {
	for _, vm := range vms {
		reason := vm.Reason
		if stuck {
			reason = cmp.Or(reason, "It was started or placed here after the plan was made.")
		}
		i := slices.IndexFunc(out, func(g blockerGroup) bool { return g.reason == reason })
		if i < 0 {
			i, out = len(out), append(out, blockerGroup{reason: reason})
		}
		out[i].vms = append(out[i].vms, vm)
	}
	return out
}

// lacksRoom reports whether a VM needs a decision only because the other hosts are full.
func (p MaintenancePage) lacksRoom() bool {
	return slices.ContainsFunc(p.Plan.VMs, func(vm maintenance.VM) bool { return vm.LacksRoom })
}
