package api

import (
	"context"

	"quantix/internal/control/identity"
	"quantix/internal/fleet"
)

// ProjectPath holds the id of a project, from the request's path.
type ProjectPath struct {
	ID fleet.ProjectID `path:"id"`
}

type projectOutput struct {
	Location string `header:"Location"`
	Body     projectBody
}

type projectBody struct {
	fleet.Project
	OfferedActions
}

func projectAnswer(a fleet.Actor, p fleet.Project) *projectOutput {
	return &projectOutput{Body: projectBody{p, offeredActions(a, "project", p.Actions())}}
}

func (api *API) createProject(ctx context.Context, a fleet.Actor, in *struct{ Body identity.ProjectInput }) (*projectOutput, error) {
	p, err := api.Control.CreateProject(ctx, a, in.Body)
	out := projectAnswer(a, p)
	out.Location = Base + "/projects/" + string(p.ID)
	return out, err
}

func (api *API) getProject(ctx context.Context, a fleet.Actor, in *ProjectPath) (*projectOutput, error) {
	p, err := api.Control.GetProject(ctx, a, in.ID)
	return projectAnswer(a, p), err
}

type updateProjectInput struct {
	ProjectPath
	Body mergePatch[identity.ProjectInput]
}

func (api *API) updateProject(ctx context.Context, a fleet.Actor, in *updateProjectInput) (*projectOutput, error) {
	old, err := api.Control.GetProject(ctx, a, in.ID)
	if err != nil {
		return nil, err
	}
	to, err := in.Body.applyTo(identity.ProjectInput{
		Name: old.Name, Description: old.Description, DefaultPoolID: old.DefaultPoolID, DefaultNetworkID: old.DefaultNetworkID, VMRules: &old.VMRules,
	})
	if err != nil {
		return nil, err
	}
	if to.VMRules == nil { // the patch removes them
		to.VMRules = &fleet.VMRules{}
	}
	p, err := api.Control.UpdateProject(ctx, a, in.ID, to)
	return projectAnswer(a, p), err
}

func (api *API) listMembers(ctx context.Context, a fleet.Actor, in *ProjectPath) (*pageOutput[identity.Member], error) {
	return asSinglePage(api.Control.ListMembers(ctx, a, in.ID))
}

// MemberPath holds the ids of a project and a user, from the request's path.
type MemberPath struct {
	ProjectPath
	User fleet.UserID `path:"user"`
}

type setMemberInput struct {
	MemberPath
	Body struct {
		Role fleet.Role `json:"role" doc:"a project role, such as member or viewer"`
	}
}

func (api *API) setMember(ctx context.Context, a fleet.Actor, in *setMemberInput) (*emptyOutput, error) {
	if in.Body.Role == fleet.RoleNone {
		// control removes a member whose role is empty. In this request, an empty role only means that the field is
		// missing, so it is replaced by an invalid role, which control refuses.
		in.Body.Role = "none"
	}
	return nil, api.Control.SetMember(ctx, a, in.ID, in.User, in.Body.Role)
}

func (api *API) removeMember(ctx context.Context, a fleet.Actor, in *MemberPath) (*emptyOutput, error) {
	return nil, api.Control.SetMember(ctx, a, in.ID, in.User, fleet.RoleNone)
}

// ParseGrantProjectID returns the project id for the project in a form or path. The text "all" becomes the empty id, which
// means all projects. Empty text becomes an invalid id, which control refuses.
func ParseGrantProjectID(text string) fleet.ProjectID {
	switch text {
	case "all":
		return ""
	case "":
		return "none"
	}
	return fleet.ProjectID(text)
}
