package vmlist

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/adoption"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	vmview "quantix/views/vm"
)

// AdoptPage is the dialog that adopts an unmanaged VM.
type AdoptPage struct {
	VM       fleet.DiscoveredVM
	Projects kit.SelectChoices
	Project  string
	Name     string
	Plan     adoption.VMPlan
	Errors   kit.Errors
}

func (p AdoptPage) dialog() kit.Dialog {
	d := kit.Dialog{
		Title: "Adopt " + p.VM.Name + "?", Action: views.DiscoveredVMPath(p.VM.HostID, p.VM.ID, "adopt"), Button: "Adopt VM", Back: views.DiscoveredVMPath(p.VM.HostID, p.VM.ID),
	}
	if refusals := p.refusals(); len(refusals) > 0 && !p.nameDecides() {
		d.Why = refusals[0]
	}
	return d
}

// refusals are the reasons against the adoption.
func (p AdoptPage) refusals() []string { return p.Plan.Refusals }

// nameDecides reports whether another name or project may remove the reasons.
func (p AdoptPage) nameDecides() bool {
	return slices.ContainsFunc(p.Plan.Refusals, func(r string) bool { return strings.Contains(r, "name") })
}

// suggestedName is the name that the VM gets if nobody chooses one.
func (p AdoptPage) suggestedName() string { return adoption.Name(p.VM.Name) }

// AdoptManyPage is the dialog that adopts several unmanaged VMs.
type AdoptManyPage struct {
	VMs      []string // each "host/UUID"
	Back     string
	Projects kit.SelectChoices
	Project  string
	Errors   kit.Errors
}

func (p AdoptManyPage) dialog() kit.Dialog {
	text := kit.CountText(len(p.VMs), "VM")
	return kit.Dialog{Title: "Adopt " + text + "?", Action: "/vms/found/adopt", Button: "Adopt " + text, Back: p.Back}
}

// discoveredActionsPath is the address of power actions on several unmanaged VMs.
const discoveredActionsPath = "/vms/found/actions"

// DiscoveredActionPage is the dialog before a power action on several unmanaged VMs.
type DiscoveredActionPage struct {
	Action fleet.Action
	VMs    []string // each "host/UUID"
	Back   string
	Errors kit.Errors
}

func (p DiscoveredActionPage) dialog() kit.Dialog {
	text := p.Action.Label() + " " + kit.CountText(len(p.VMs), "VM")
	return kit.Dialog{Title: text + "?", Action: discoveredActionsPath, Button: text, Danger: vmview.PowerConfirmations[p.Action].LosesData, Back: p.Back}
}

// effectText describes what the power action does to the guests.
func (p DiscoveredActionPage) effectText() string {
	c := vmview.PowerConfirmations[p.Action]
	if len(p.VMs) == 1 {
		return c.One
	}
	return c.Many
}

// discoveredPowerActions are the power actions on the selected unmanaged VMs, in the order of one VM's menu.
func discoveredPowerActions() []bulkActionButton {
	return slices.DeleteFunc(bulkPowerActions(), func(m bulkActionButton) bool { return m.action.DiscoveredJobKind() == "" })
}

// DiscoveredMenuPath is the address of an unmanaged VM's action menu.
func DiscoveredMenuPath(host fleet.HostID, id fleet.VMID) string {
	return "/menus/found/" + url.PathEscape(string(host)) + "/" + url.PathEscape(string(id))
}

// diskText describes a disk of the plan: its pool, or its path.
func diskText(d adoption.PlannedDisk) string {
	if d.PoolName == "" {
		return d.Path
	}
	return d.Path[strings.LastIndexByte(d.Path, '/')+1:] + " in pool " + d.PoolName
}

// nicText describes a NIC of the plan.
func nicText(n adoption.PlannedNIC) string {
	if n.NetworkID == "" {
		return n.Source + ", kept as it is"
	}
	return n.Source
}

func numbered(what string, i int) string { return what + " " + strconv.Itoa(i+1) }
