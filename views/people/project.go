package people

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// ProjectPage shows one project with its members.
type ProjectPage struct {
	Actor      fleet.Actor
	Project    fleet.Project
	Members    []MemberRow
	MemberForm MemberForm
}

func (p ProjectPage) path(below ...string) string { return views.ProjectPath(p.Project.ID, below...) }

// tabPath is the address of a tab.
func (p ProjectPage) tabPath(tab string) string {
	if tab == "members" {
		return p.path()
	}
	return p.path(tab)
}

func (p ProjectPage) tabs(here string) []kit.Tab {
	members := kit.Tab{Text: "Members", Href: p.path(), Here: here == "members"}
	if members.Here {
		members.Count = strconv.Itoa(len(p.Members))
	}
	return []kit.Tab{members, {Text: "Usage", Href: p.tabPath("usage"), Here: here == "usage"}, {Text: "Rules for new VMs", Href: p.tabPath("rules"), Here: here == "rules"}, {Text: "Requests", Href: views.ProjectListPath(fleet.TypeRequest, p.Project.ID)}}
}

func (p ProjectPage) actions() []kit.ActionButton {
	can := policy.RestrictActions(p.Actor, "project", "", p.Project.Actions())
	return []kit.ActionButton{
		{Icon: "monitor", Word: "VMs of this project", Href: views.ProjectListPath(fleet.TypeVM, p.Project.ID)},
		{Icon: "list-checks", Word: "Tasks of this project", Href: views.ProjectListPath(fleet.TypeTask, p.Project.ID)},
		{Icon: "trash-2", Word: "Recycle bin of this project", Href: views.ProjectListPath(fleet.TypeRecycled, p.Project.ID)},
		kit.ActionButton{Icon: "wrench", Word: "Recycle bin settings", Href: p.path("recycle-bin"), Dialog: true}.RequirePermission(p.Actor, policy.Manage),
		kit.ActionButton{Icon: "pencil", Word: "Edit project", Href: p.path("edit"), Dialog: true}.WithReasonFrom(can, fleet.ActEdit),
		kit.ActionButton{Icon: "trash-2", Word: "Delete project", Href: p.path("delete"), Dialog: true, Danger: true}.WithReasonFrom(can, fleet.ActDelete),
	}
}
