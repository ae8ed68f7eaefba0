package vmlist

import (
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views/kit"
	vmview "quantix/views/vm"
)

// Actions that exist only for several VMs.
const (
	BulkSnapshot fleet.Action = "snapshot"
	BulkMigrate  fleet.Action = "migrate"
	BulkCompare  fleet.Action = "compare"
	BulkRenew    fleet.Action = "renew"
	// BulkStartByOvercommit starts VMs although their hosts have not enough capacity.
	BulkStartByOvercommit fleet.Action = "start-by-overcommit"
)

// BulkActionOpensDialog reports whether the action on several VMs opens a dialog first.
func BulkActionOpensDialog(a fleet.Action) bool {
	_, asks := vmview.PowerConfirmations[a]
	return asks || a == fleet.ActDelete || a == fleet.ActRelease || a == BulkSnapshot || a == BulkMigrate || a == BulkRenew || a == BulkStartByOvercommit
}

// BulkActionPage is the dialog of an action on several VMs: a power action that interrupts guests, delete, migrate or take snapshots.
type BulkActionPage struct {
	Action fleet.Action
	VMs    []fleet.VMView
	Back   string
	Hosts  kit.SelectChoices
	Plans  []fleet.MigrationPlan // only for BulkMigrate
	In     BulkActionForm
	Bin    vmview.DeletionBin // of the VMs' projects: the longest
	Errors kit.Errors
}

// BulkActionForm holds the values that a person chose in the dialog of an action on several VMs.
type BulkActionForm struct {
	Disks, Name, Description, Host, Rate, Expires string
	Memory, Quiesce                               bool
}

// maxShownNames is how many VMs a dialog names.
const maxShownNames = 12

func (p BulkActionPage) vmCountText() string { return kit.CountText(len(p.VMs), "VM") }

func (p BulkActionPage) verb() string {
	switch p.Action {
	case BulkSnapshot:
		return "Take snapshots of"
	case BulkMigrate:
		return "Migrate"
	case BulkRenew:
		return "Renew"
	case BulkStartByOvercommit:
		return "Start"
	}
	return p.Action.Label()
}

func (p BulkActionPage) dialog() kit.Dialog {
	d := kit.Dialog{
		Title: p.verb() + " " + p.vmCountText() + "?", Action: "/vms/bulk", Button: p.verb() + " " + p.vmCountText(), Danger: p.Action == fleet.ActDelete || vmview.PowerConfirmations[p.Action].LosesData, Back: p.Back,
	}
	if p.Action == BulkStartByOvercommit {
		d.Title, d.Button, d.Danger = "Start "+p.vmCountText()+" by overcommit?", "Start by overcommit", true
	}
	if p.Action == fleet.ActDelete {
		d.ButtonContent = vmview.DeleteButtonLabel(p.vmCountText(), p.Bin)
	}
	return d
}

// effectText describes what a power action does to the guests.
func (p BulkActionPage) effectText() string {
	c := vmview.PowerConfirmations[p.Action]
	if len(p.VMs) == 1 {
		return c.One
	}
	return c.Many
}

// firstVMs returns the first VMs, and the number of the other VMs.
func (p BulkActionPage) firstVMs() (first []fleet.VMView, more int) {
	n := min(len(p.VMs), maxShownNames)
	return p.VMs[:n], len(p.VMs) - n
}

// maxShownPlans is how many VMs the dialog of a migration lists with their best target.
const maxShownPlans = 20

// shownPlans returns the first plans, those of VMs without a suitable host first, and the number of the other plans.
func (p BulkActionPage) shownPlans() (first []fleet.MigrationPlan, more int) {
	all := slices.Clone(p.Plans)
	slices.SortStableFunc(all, func(a, b fleet.MigrationPlan) int {
		switch {
		case a.Best == nil && b.Best != nil:
			return -1
		case a.Best != nil && b.Best == nil:
			return 1
		}
		return 0
	})
	n := min(len(all), maxShownPlans)
	return all[:n], len(all) - n
}

// planText describes the best migration of a VM, or why there is none.
func planText(m fleet.MigrationPlan) string {
	switch {
	case m.Reason != "":
		return m.Reason
	case m.Best != nil:
		return vmview.MigrationText(*m.Best)
	case len(m.Targets) == 0:
		return "There is no other host."
	}
	t := m.Targets[0]
	text := t.HostName + ": " + strings.Join(t.Reasons, " ")
	if more := len(m.Targets) - 1; more > 0 {
		text += " " + kit.CountText(more, "more host") + " not suitable."
	}
	return text
}

// RunningCount counts the VMs that are running.
func (p BulkActionPage) RunningCount() int {
	n := 0
	for _, vm := range p.VMs {
		if vm.HasGuest() {
			n++
		}
	}
	return n
}

// ConfirmationNumber is the number that the user must type as confirmation.
func (p BulkActionPage) ConfirmationNumber() string { return strconv.Itoa(len(p.VMs)) }

// deletionText describes the deletion, and how many VMs are powered off before it.
func (p BulkActionPage) deletionText() (text, off string) {
	text = "The VMs are deleted from their hosts permanently."
	switch {
	case p.Bin.Days > 0:
		text = ""
	case len(p.VMs) == 1:
		text = "The VM is deleted from its host permanently."
	}
	switch n := p.RunningCount(); {
	case n == 0:
		return text, ""
	case len(p.VMs) == 1:
		return text, "The VM is running and will be powered off first."
	case n == 1:
		return text, "1 of them is running and will be powered off first."
	default:
		return text, strconv.Itoa(n) + " of them are running and will be powered off first."
	}
}

// bulkActionButton is a button for an action on the selected rows. It sends the list's form, or first opens a dialog.
type bulkActionButton struct {
	action fleet.Action
	word   string
}

// bulkPowerActions are the power submenu for the selected VMs, in the order of one VM's menu.
func bulkPowerActions() (out []bulkActionButton) {
	for _, a := range vmview.PowerActions {
		m := bulkActionButton{a, a.Label()}
		if BulkActionOpensDialog(a) {
			m.word += "…"
		}
		out = append(out, m)
	}
	return out
}

// otherBulkActions are the actions on the selected VMs other than power actions.
func (p *ListPage) otherBulkActions() (out []bulkActionButton) {
	if p.MayCreate {
		out = append(out, bulkActionButton{BulkSnapshot, "Snapshot…"}, bulkActionButton{BulkRenew, "Renew…"})
	}
	if p.MayChangeHosts {
		out = append(out, bulkActionButton{BulkMigrate, "Migrate…"}, bulkActionButton{BulkStartByOvercommit, "Start by overcommit…"}, bulkActionButton{fleet.ActRelease, "Release…"})
	}
	return out
}

func (m bulkActionButton) attrs() templ.Attributes { return m.attrsFor("/vms/bulk") }

// attrsFor are the button's attributes in a list whose actions have the address path.
func (m bulkActionButton) attrsFor(path string) templ.Attributes {
	if !BulkActionOpensDialog(m.action) {
		return nil
	}
	return templ.Attributes{"hx-post": path, "hx-target": "#dialog", "hx-swap": "innerHTML"}
}
