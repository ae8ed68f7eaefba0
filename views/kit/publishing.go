package kit

import "quantix/internal/fleet"

// GrantToAllProjects is the value for "all projects" in a grant's form and path.
const GrantToAllProjects = "all"

// PublishingPanel lists the projects that an object, such as a pool, is published to, with a form for one more.
type PublishingPanel struct {
	Noun       string // "pool"
	Grants     []fleet.ProjectGrant
	Path       string        // address of the form
	MayPublish bool          // otherwise there is neither the form nor the action Withdraw
	Projects   SelectChoices // projects that the object is not published to; none: it is published to all
	Errors     Errors
	StayText   string // what stays after a withdrawal: "VMs keep their disks"
}

// GranteeName returns the name of the project in the grant, or "All projects".
func GranteeName(g fleet.ProjectGrant) string {
	if g.ProjectID == "" {
		return "All projects"
	}
	return g.ProjectName
}

// GrantValue returns the form value of the project in the grant.
func GrantValue(g fleet.ProjectGrant) string {
	if g.ProjectID == "" {
		return GrantToAllProjects
	}
	return string(g.ProjectID)
}

func (p PublishingPanel) actions(g fleet.ProjectGrant) []ActionButton {
	return []ActionButton{{
		Icon: "trash-2", Word: "Withdraw; " + p.StayText, Danger: true, Post: p.Path, ReplaceTarget: "#grants",
		PostValues: []FormValue{{Name: "project", Value: GrantValue(g)}, {Name: "revoke", Value: "yes"}},
	}}
}
