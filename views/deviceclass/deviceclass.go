// Package deviceclass renders device classes: the list, and the page with the form, devices and grants.
package deviceclass

import (
	"strconv"

	"quantix/internal/deviceclass"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

const listPath = "/device-classes"

// ListPage is the list of device classes.
type ListPage struct {
	Actor   fleet.Actor
	Classes []deviceclass.DeviceClass
}

func newAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New device class", Href: listPath + "/new"}.RequirePermission(a, policy.InfraChange)
}

// Page shows a device class with its form, devices and grants, or the form of a new class.
type Page struct {
	Actor       fleet.Actor
	Class       deviceclass.DeviceClass // empty ID: a new class
	MaySeeHosts bool
	Form        Form
	Projects    kit.SelectChoices // that the class can be published to
	GrantErrors kit.Errors
}

// Form is the name and description of a class as typed.
type Form struct {
	Name, Description string
	Generation        int64
	Errors            kit.Errors
}

// NewForm returns the form of a class.
func NewForm(c deviceclass.DeviceClass) Form {
	return Form{Name: c.Name, Description: c.Description, Generation: c.Generation}
}

func (p Page) isNew() bool { return p.Class.ID == "" }

func (p Page) path(below ...string) string { return views.DeviceClassPath(p.Class.ID, below...) }

func (p Page) formAction() string {
	if p.isNew() {
		return listPath
	}
	return p.path("edit")
}

func (p Page) submitWord() string {
	if p.isNew() {
		return "Create device class"
	}
	return "Save"
}

func (p Page) mayChange() bool { return policy.May(p.Actor, policy.InfraChange, "") }

func (p Page) addAction() kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "Add devices", Href: p.path("devices")}.RequirePermission(p.Actor, policy.InfraChange)
}

func (p Page) actions() []kit.ActionButton {
	return []kit.ActionButton{
		p.addAction(),
		kit.ActionButton{Icon: "trash-2", Word: "Delete device class", Href: p.path("delete"), Dialog: true, Danger: true, Separated: true}.RequirePermission(p.Actor, policy.InfraChange),
	}
}

func (p Page) memberActions(m deviceclass.ClassMemberStatus) []kit.ActionButton {
	remove := kit.ActionButton{
		Icon: "trash-2", Word: "Remove from the class", Danger: true, Post: p.path("devices"), Back: p.path(),
		PostValues: []kit.FormValue{{Name: "device", Value: MemberValue(m.ClassMember)}, {Name: "remove", Value: "yes"}},
	}
	if m.Used > 0 {
		remove.Why = "A VM uses the device. Remove it from the VM first."
	}
	return []kit.ActionButton{remove}
}

// MemberValue is the form value of a member.
func MemberValue(m deviceclass.ClassMember) string { return string(m.HostID) + " " + m.Device }

func stateTone(s deviceclass.ClassMemberState) (tone, icon string) {
	switch s {
	case deviceclass.Free:
		return "ok", "circle-check"
	case deviceclass.Used:
		return "", "circle-play"
	case deviceclass.Missing:
		return "warn", "triangle-alert"
	}
	return "bad", "circle-x"
}

func usedText(m deviceclass.ClassMemberStatus) string {
	return strconv.Itoa(m.Used) + " of " + strconv.Itoa(m.Capacity)
}

func kindText(c deviceclass.DeviceClass) string {
	switch {
	case c.Total == 0:
		return "–"
	case c.GPU:
		return "GPUs"
	}
	return "Other devices"
}

// AddPage lists devices that can be added to a class.
type AddPage struct {
	Class   deviceclass.DeviceClass
	Text    string // searched text
	Devices []deviceclass.Available
	Most    int // limit of Devices
	Chosen  map[string]bool
	Errors  kit.Errors
}

func (p AddPage) path(below ...string) string { return views.DeviceClassPath(p.Class.ID, below...) }

func (p AddPage) crumbs() []kit.Breadcrumb {
	return append(crumbs(), kit.Breadcrumb{Text: p.Class.Name, Href: p.path()})
}

// GrantToAllProjects is the form value for "all projects".
const GrantToAllProjects = "all"

func grantValue(g fleet.ProjectGrant) string {
	if g.ProjectID == "" {
		return GrantToAllProjects
	}
	return string(g.ProjectID)
}

func granteeName(g fleet.ProjectGrant) string {
	if g.ProjectID == "" {
		return "All projects"
	}
	return g.ProjectName
}

func (p Page) grantActions(g fleet.ProjectGrant) []kit.ActionButton {
	return []kit.ActionButton{{
		Icon: "trash-2", Word: "Withdraw; VMs keep their devices", Danger: true, Post: p.path("grants"), ReplaceTarget: "#grants",
		PostValues: []kit.FormValue{{Name: "project", Value: grantValue(g)}, {Name: "revoke", Value: "yes"}},
	}}
}
