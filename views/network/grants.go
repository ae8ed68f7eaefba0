package network

import (
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// GrantToAllProjects is the value for "all projects" in a grant's form and path.
const GrantToAllProjects = "all"

// GrantForm is the form that gives one more project access to the network. Projects are the projects without access.
type GrantForm struct {
	Projects kit.SelectChoices
	Errors   kit.Errors
}

func (p Page) grantsPath() string { return views.NetworkPath(p.Network.ID, "grants") }

func (p Page) mayGrant() bool { return policy.May(p.Actor, policy.InfraChange, "") }

func granteeName(g fleet.ProjectGrant) string {
	if g.ProjectID == "" {
		return "All projects"
	}
	return g.ProjectName
}

func grantValue(g fleet.ProjectGrant) string {
	if g.ProjectID == "" {
		return GrantToAllProjects
	}
	return string(g.ProjectID)
}

func (p Page) grantActions(g fleet.ProjectGrant) []kit.ActionButton {
	return []kit.ActionButton{{
		Icon: "trash-2", Word: "Stop sharing; connected VMs stay", Danger: true, Post: p.grantsPath(), ReplaceTarget: "#grants",
		PostValues: []kit.FormValue{{Name: "project", Value: grantValue(g)}, {Name: "revoke", Value: "yes"}},
	}}
}
