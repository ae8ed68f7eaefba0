// Package flavor renders flavors: the list, and the page with its form and grants.
package flavor

import (
	"strconv"

	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

const listPath = "/flavors"

// ListPage is the list of flavors.
type ListPage struct {
	Actor   fleet.Actor
	Flavors []flavor.Flavor
}

func newAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New flavor", Href: listPath + "/new"}.RequirePermission(a, policy.InfraChange)
}

// Page shows a flavor with its form and grants, or the form of a new flavor.
type Page struct {
	Actor       fleet.Actor
	Flavor      flavor.Flavor // empty ID: a new flavor
	Form        Form
	Projects    kit.SelectChoices // that the flavor can be published to
	GrantErrors kit.Errors
}

// Form is a flavor as typed. Memory and Disk are GiB.
type Form struct {
	Name, Description, CPUs, Memory, Disk string
	Generation                            int64
	Errors                                kit.Errors
}

// NewForm returns the form of a flavor.
func NewForm(f flavor.Flavor) Form {
	out := Form{Name: f.Name, Description: f.Description, CPUs: strconv.Itoa(f.CPUs), Memory: giBText(int64(f.MemoryMiB) << 20), Generation: f.Generation}
	if f.DiskBytes > 0 {
		out.Disk = giBText(f.DiskBytes)
	}
	return out
}

func giBText(n int64) string { return strconv.FormatFloat(float64(n)/(1<<30), 'f', -1, 64) }

func (p Page) isNew() bool { return p.Flavor.ID == "" }

func (p Page) path(below ...string) string { return views.FlavorPath(p.Flavor.ID, below...) }

func (p Page) formAction() string {
	if p.isNew() {
		return listPath
	}
	return p.path("edit")
}

func (p Page) submitWord() string {
	if p.isNew() {
		return "Create flavor"
	}
	return "Save"
}

func (p Page) mayChange() bool { return policy.May(p.Actor, policy.InfraChange, "") }

func (p Page) actions() []kit.ActionButton {
	return []kit.ActionButton{
		kit.ActionButton{Icon: "trash-2", Word: "Delete flavor", Href: p.path("delete"), Dialog: true, Danger: true}.RequirePermission(p.Actor, policy.InfraChange),
	}
}

// publishedText is the projects that a flavor is published to, as far as the user may see them.
func publishedText(f flavor.Flavor) string {
	if len(f.Grants) == 0 {
		return "Nobody"
	}
	return f.PublishedToText()
}

func diskText(f flavor.Flavor) string {
	if f.DiskBytes == 0 {
		return "–"
	}
	return kit.Bytes(f.DiskBytes)
}

// GrantToAllProjects is the form value for "all projects".
const GrantToAllProjects = "all"

func grantValue(g fleet.ImageGrant) string {
	if g.ProjectID == "" {
		return GrantToAllProjects
	}
	return string(g.ProjectID)
}

func granteeName(g fleet.ImageGrant) string {
	if g.ProjectID == "" {
		return "All projects"
	}
	return g.ProjectName
}

func (p Page) grantActions(g fleet.ImageGrant) []kit.ActionButton {
	return []kit.ActionButton{{
		Icon: "trash-2", Word: "Withdraw; VMs keep their size", Danger: true, Post: p.path("grants"), ReplaceTarget: "#grants",
		PostValues: []kit.FormValue{{Name: "project", Value: grantValue(g)}, {Name: "revoke", Value: "yes"}},
	}}
}
