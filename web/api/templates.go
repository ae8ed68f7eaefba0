package api

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/template"
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
	template.View
	OfferedActions
}

func (api *API) templateAnswer(ctx context.Context, a fleet.Actor, id fleet.TemplateID, task fleet.TaskID) (*templateOutput, error) {
	v, err := api.Control.GetTemplate(ctx, a, id)
	return &templateOutput{Location: Base + "/templates/" + string(id), Task: string(task), Body: templateBody{v, OfferedActions{policy.RestrictTemplateActions(a, v.ProjectID, v.Actions())}}}, err
}

func (api *API) addTemplate(ctx context.Context, a fleet.Actor, in *struct{ Body control.NewTemplate }) (*templateOutput, error) {
	id, task, err := api.Control.AddTemplate(ctx, a, in.Body)
	if err != nil {
		return nil, err
	}
	return api.templateAnswer(ctx, a, id, task.ID)
}

func (api *API) getTemplate(ctx context.Context, a fleet.Actor, in *TemplatePath) (*templateOutput, error) {
	return api.templateAnswer(ctx, a, in.ID, "")
}

type editTemplateInput struct {
	TemplatePath
	Body control.EditTemplate
}

func (api *API) editTemplate(ctx context.Context, a fleet.Actor, in *editTemplateInput) (*templateOutput, error) {
	if err := api.Control.EditTemplate(ctx, a, in.ID, in.Body); err != nil {
		return nil, err
	}
	return api.templateAnswer(ctx, a, in.ID, "")
}

type deleteTemplateInput struct {
	TemplatePath
	Confirm string `query:"confirm" doc:"The template's name"`
}

func (api *API) deleteTemplate(ctx context.Context, a fleet.Actor, in *deleteTemplateInput) (*queuedTasksOutput, error) {
	tasks, err := api.Control.DeleteTemplate(ctx, a, in.ID, in.Confirm)
	return queuedDeletionOutput(tasks), err
}

// queuedDeletionOutput returns the response with the ids of the tasks that delete the files.
func queuedDeletionOutput(tasks []fleet.TaskID) *queuedTasksOutput {
	out := &queuedTasksOutput{}
	out.Body.Tasks = append([]fleet.TaskID{}, tasks...)
	return out
}

type templateVersionInput struct {
	TemplatePath
	Body control.TemplateSource
}

func (api *API) addTemplateVersion(ctx context.Context, a fleet.Actor, in *templateVersionInput) (*templateOutput, error) {
	task, err := api.Control.AddTemplateVersion(ctx, a, in.ID, in.Body)
	if err != nil {
		return nil, err
	}
	return api.templateAnswer(ctx, a, in.ID, task.ID)
}

type deprecateInput struct {
	TemplateVersionPath
	Body struct {
		Deprecated bool `json:"deprecated" doc:"false: VMs can be created from the version again"`
	}
}

func (api *API) deprecateTemplateVersion(ctx context.Context, a fleet.Actor, in *deprecateInput) (*emptyOutput, error) {
	return nil, api.Control.DeprecateTemplateVersion(ctx, a, in.templateVersion(), in.Body.Deprecated)
}

type deleteTemplateVersionInput struct {
	TemplateVersionPath
	Confirm string `query:"confirm" doc:"The template's name"`
}

func (api *API) deleteTemplateVersion(ctx context.Context, a fleet.Actor, in *deleteTemplateVersionInput) (*queuedTasksOutput, error) {
	tasks, err := api.Control.DeleteTemplateVersion(ctx, a, in.templateVersion(), in.Confirm)
	return queuedDeletionOutput(tasks), err
}

// TemplateGrantPath holds the ids of a template and a project with access to the template, from the request's path.
type TemplateGrantPath struct {
	TemplatePath
	Project string `path:"project" doc:"A project's id, or all"`
}

func (api *API) grantTemplate(ctx context.Context, a fleet.Actor, in *TemplateGrantPath) (*emptyOutput, error) {
	return nil, api.Control.GrantTemplate(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}

func (api *API) revokeTemplate(ctx context.Context, a fleet.Actor, in *TemplateGrantPath) (*emptyOutput, error) {
	return nil, api.Control.RevokeTemplate(ctx, a, in.ID, ParseGrantProjectID(in.Project))
}

func (api *API) createVMs(ctx context.Context, a fleet.Actor, in *struct{ Body control.CreateVMs }) (*taskOutput, error) {
	task, err := api.Control.CreateVMs(ctx, a, in.Body)
	return &taskOutput{task}, err
}
