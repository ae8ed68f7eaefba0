package web

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// TemplatePath holds the id of a template, from the request's path.
type TemplatePath struct {
	ID fleet.TemplateID `path:"id"`
}

// TemplateVersionPath holds the ids of a template and its version, from the request's path.
type TemplateVersionPath struct {
	TemplatePath
	Version fleet.TemplateVersionID `path:"version"`
}

func (in TemplateVersionPath) templateVersion() control.TemplateVersion {
	return control.TemplateVersion{TemplateID: in.ID, VersionID: in.Version}
}

type templateOutput struct {
	Location string `header:"Location"`
	Task     string `header:"Quantix-Task" doc:"The task that creates the template's images; empty: no image is created"`
	Body     templateBody
}

type templateBody struct {
	fleet.TemplateView
	Offered
}

func (s *Server) templateAnswer(ctx context.Context, a fleet.Actor, id fleet.TemplateID, task fleet.TaskID) (*templateOutput, error) {
	v, err := s.Control.GetTemplate(ctx, a, id)
	return &templateOutput{Location: apiBase + "/templates/" + string(id), Task: string(task), Body: templateBody{v, Offered{policy.RestrictTemplateActions(a, v.ProjectID, v.Actions())}}}, err
}

func (s *Server) apiAddTemplate(ctx context.Context, a fleet.Actor, in *struct{ Body control.NewTemplate }) (*templateOutput, error) {
	id, task, err := s.Control.AddTemplate(ctx, a, in.Body)
	if err != nil {
		return nil, err
	}
	return s.templateAnswer(ctx, a, id, task.ID)
}

func (s *Server) apiGetTemplate(ctx context.Context, a fleet.Actor, in *TemplatePath) (*templateOutput, error) {
	return s.templateAnswer(ctx, a, in.ID, "")
}

type editTemplateInput struct {
	TemplatePath
	Body control.EditTemplate
}

func (s *Server) apiEditTemplate(ctx context.Context, a fleet.Actor, in *editTemplateInput) (*templateOutput, error) {
	if err := s.Control.EditTemplate(ctx, a, in.ID, in.Body); err != nil {
		return nil, err
	}
	return s.templateAnswer(ctx, a, in.ID, "")
}

type deleteTemplateInput struct {
	TemplatePath
	Confirm string `query:"confirm" doc:"The template's name"`
}

func (s *Server) apiDeleteTemplate(ctx context.Context, a fleet.Actor, in *deleteTemplateInput) (*queuedTasksOutput, error) {
	tasks, err := s.Control.DeleteTemplate(ctx, a, in.ID, in.Confirm)
	return queuedDeletionOutput(tasks), err
}

// queuedDeletionOutput returns the response with the ids of the tasks that delete files.
func queuedDeletionOutput(tasks []fleet.TaskID) *queuedTasksOutput {
	out := &queuedTasksOutput{}
	out.Body.Tasks = append([]fleet.TaskID{}, tasks...)
	return out
}

type templateVersionInput struct {
	TemplatePath
	Body control.TemplateSource
}

func (s *Server) apiAddTemplateVersion(ctx context.Context, a fleet.Actor, in *templateVersionInput) (*templateOutput, error) {
	task, err := s.Control.AddTemplateVersion(ctx, a, in.ID, in.Body)
	if err != nil {
		return nil, err
	}
	return s.templateAnswer(ctx, a, in.ID, task.ID)
}

type deprecateInput struct {
	TemplateVersionPath
	Body struct {
		Deprecated bool `json:"deprecated" doc:"false: VMs can be created from the version again"`
	}
}

func (s *Server) apiDeprecateVersion(ctx context.Context, a fleet.Actor, in *deprecateInput) (*emptyOutput, error) {
	return nil, s.Control.DeprecateTemplateVersion(ctx, a, in.templateVersion(), in.Body.Deprecated)
}

type deleteTemplateVersionInput struct {
	TemplateVersionPath
	Confirm string `query:"confirm" doc:"The template's name"`
}

func (s *Server) apiDeleteTemplateVersion(ctx context.Context, a fleet.Actor, in *deleteTemplateVersionInput) (*queuedTasksOutput, error) {
	tasks, err := s.Control.DeleteTemplateVersion(ctx, a, in.templateVersion(), in.Confirm)
	return queuedDeletionOutput(tasks), err
}

// TemplateGrantPath holds the ids of a template and a project with access to the template, from the request's path.
type TemplateGrantPath struct {
	TemplatePath
	Project string `path:"project" doc:"A project's id, or all"`
}

func (s *Server) apiGrantTemplate(ctx context.Context, a fleet.Actor, in *TemplateGrantPath) (*emptyOutput, error) {
	return nil, s.Control.GrantTemplate(ctx, a, in.ID, grantProjectID(in.Project))
}

func (s *Server) apiRevokeTemplate(ctx context.Context, a fleet.Actor, in *TemplateGrantPath) (*emptyOutput, error) {
	return nil, s.Control.RevokeTemplate(ctx, a, in.ID, grantProjectID(in.Project))
}

func (s *Server) apiCreateVMs(ctx context.Context, a fleet.Actor, in *struct{ Body control.CreateVMs }) (*taskOutput, error) {
	task, err := s.Control.CreateVMs(ctx, a, in.Body)
	return &taskOutput{task}, err
}
