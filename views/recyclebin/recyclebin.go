// Package recyclebin renders the recycle bin: the list, its dialogs and its settings.
package recyclebin

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/bin"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// ListPage is the list of the VMs in the recycle bin.
type ListPage struct {
	kit.List
	Actor    fleet.Actor
	Items    []bin.Item
	Settings bin.Settings // of the fleet
}

const path = "/recycle-bin"

// itemPath is the address of an item's page below the list.
func itemPath(id fleet.VMID, below ...string) string {
	return views.ObjectPath(fleet.TypeRecycled, id, below...)
}

func (p *ListPage) mayChange() bool { return policy.May(p.Actor, policy.VMChange, "") }

func (p *ListPage) table() kit.Table[bin.Item] {
	return kit.Table[bin.Item]{
		List: &p.List, ID: "recycled-rows", Live: "vms", Every: "30s", Label: "Recycle bin", Type: "VM", Head: kit.NameColumn,
		Items: p.Items, HasRowMenus: true, Select: p.mayChange(), EmptyContent: emptyListNote(p),
		Row: func(i *bin.Item) kit.Row {
			return kit.Row{
				ID: "recycled-" + string(i.ID), Name: i.Name, Href: itemPath(i.ID), Menu: views.ContextMenuPath(fleet.TypeRecycled, i.ID), Value: string(i.ID),
			}
		},
		RowCells: func(shown kit.Columns, i *bin.Item) templ.Component { return row(shown, i, p.Now) },
	}
}

func (p *ListPage) tabs() []kit.Tab {
	tabs := []kit.Tab{{Text: "VMs", Href: "/vms"}}
	for _, t := range kit.ResourceTabs(fleet.TypeVM) {
		t.Here = t.Href == path
		tabs = append(tabs, t)
	}
	return tabs
}

func settingsAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "wrench", Word: "Settings", Href: path + "/settings", Dialog: true}.RequirePermission(a, policy.Manage)
}

// summary is the line under the title.
func (p *ListPage) summary() string {
	if p.Settings.Days == 0 {
		return "off: VMs deleted with their disks are gone at once"
	}
	return "VMs deleted with their disks stay for " + bin.DaysText(p.Settings.Days)
}

// Actions returns the actions on an item.
func Actions(a fleet.Actor, i bin.Item) []kit.ActionButton {
	why := ""
	if !policy.May(a, policy.VMChange, i.ProjectID) {
		why = "You do not have permission to change VMs of this project. Ask an administrator."
	}
	return []kit.ActionButton{
		kit.ActionButton{Icon: "history", Word: "Restore", Href: itemPath(i.ID, "restore"), Dialog: true}.DisableFor(why).DisableFor(i.RestoreRefusal()),
		kit.ActionButton{Icon: "trash-2", Word: "Purge", Href: itemPath(i.ID, "purge"), Dialog: true, Danger: true, Separated: true}.DisableFor(why).DisableFor(i.PurgeRefusal()),
	}
}

// ItemPage shows one VM in the recycle bin.
type ItemPage struct {
	Actor fleet.Actor
	Item  bin.Item
	Now   time.Time
}

// RestoreDialogPage is the dialog that restores a VM.
type RestoreDialogPage struct {
	Item   bin.Item
	Name   string
	Errors kit.Errors
}

// otherErrors are the errors without a field in the dialog, such as those of the quota.
func (p RestoreDialogPage) otherErrors() []string {
	var out []string
	for _, field := range slices.Sorted(maps.Keys(p.Errors.Fields)) {
		if field != "name" {
			out = append(out, p.Errors.Fields[field])
		}
	}
	return out
}

// PurgeManyPage is the dialog that purges several VMs.
type PurgeManyPage struct {
	Items  []bin.Item
	Errors kit.Errors
}

func (p PurgeManyPage) number() string { return strconv.Itoa(len(p.Items)) }

// SettingsPage is the dialog with the settings of the fleet, or of a project. Days and Counted are as typed; of a
// project, empty ones are the fleet's.
type SettingsPage struct {
	Project     fleet.ProjectID // empty: the fleet
	ProjectName string
	Fleet       bin.Settings
	Days        string
	Counted     string // "yes", "no"; empty: as the fleet
	Errors      kit.Errors
}

func (p SettingsPage) dialog() kit.Dialog {
	d := kit.Dialog{Title: "Recycle bin", Action: path + "/settings", Button: "Save", Back: path, Help: kit.HelpRecycleBin}
	if p.Project != "" {
		d.Title, d.Action, d.Back = "Recycle bin of "+p.ProjectName, views.ProjectPath(p.Project, "recycle-bin"), views.ProjectPath(p.Project)
	}
	return d
}

func (p SettingsPage) crumbs() []kit.Breadcrumb {
	if p.Project != "" {
		return []kit.Breadcrumb{{Text: "Projects", Href: "/projects"}, {Text: p.ProjectName, Href: views.ProjectPath(p.Project)}}
	}
	return []kit.Breadcrumb{{Text: "Recycle bin", Href: path}}
}

// countedOptions are the choices of whether the bin counts towards quotas.
func (p SettingsPage) countedOptions() []kit.Option {
	yesNo := []kit.Option{{Value: "yes", Text: "Disks and snapshots count"}, {Value: "no", Text: "Nothing counts"}}
	if p.Project == "" {
		return yesNo
	}
	standard := yesNo[1].Text
	if p.Fleet.Counted {
		standard = yesNo[0].Text
	}
	return append([]kit.Option{{Text: "As the fleet: " + standard}}, yesNo...)
}

func (p SettingsPage) daysHint() string {
	if p.Project == "" {
		return "0: VMs are deleted at once."
	}
	return "0: VMs are deleted at once. Empty: as the fleet, " + strconv.Itoa(p.Fleet.Days) + "."
}
