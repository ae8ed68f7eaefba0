package api

import (
	"context"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
)

func restartAgent(api *API, ctx context.Context, a fleet.Actor, in *actOnHostInput, out *hostOutput) error {
	task, err := api.Control.RestartAgent(ctx, a, in.ID, in.Body.Force)
	out.Body.Task = &task
	return err
}

type diagnosticsOutput struct {
	Body struct {
		Items []hostcommand.Artifact `json:"items"`
	}
}

func (api *API) listDiagnostics(ctx context.Context, a fleet.Actor, in *HostPath) (*diagnosticsOutput, error) {
	out := &diagnosticsOutput{}
	var err error
	out.Body.Items, err = api.Control.ListArtifacts(ctx, a, in.ID, hostcommand.Diagnostics)
	return out, err
}

type runDiagnosticsInput struct {
	HostPath
	Body struct {
		Site []string `json:"site,omitempty" nullable:"false" doc:"Names of the site's own diagnostics to run besides, as the host reports them in status.settings.diagnostics"`
	}
}

func (api *API) runDiagnostics(ctx context.Context, a fleet.Actor, in *runDiagnosticsInput) (*taskOutput, error) {
	task, err := api.Control.RunDiagnostics(ctx, a, in.ID, in.Body.Site)
	return &taskOutput{task}, err
}

// ArtifactPath names diagnostics of a host, from the request's path.
type ArtifactPath struct {
	HostPath
	Artifact hostcommand.ArtifactID `path:"artifact"`
}

type archiveOutput struct {
	ContentType        string `header:"Content-Type"`
	ContentDisposition string `header:"Content-Disposition"`
	Body               []byte
}

// describeArchive describes the response, whose type the output does not tell.
func describeArchive(o operation) operation {
	register := o.register
	o.register = func(api *API, router huma.API, op huma.Operation) {
		op.Responses = map[string]*huma.Response{"200": {
			Description: "A zip with a file for each item, and summary.json",
			Content:     map[string]*huma.MediaType{"application/zip": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
		}}
		register(api, router, op)
	}
	return o
}

func (api *API) getDiagnostics(ctx context.Context, a fleet.Actor, in *ArtifactPath) (*archiveOutput, error) {
	found, archive, err := api.Control.GetArtifact(ctx, a, in.ID, in.Artifact)
	name := fmt.Sprintf("attachment; filename=%q", string(found.Kind)+"-"+found.At.UTC().Format("20060102-150405")+".zip")
	return &archiveOutput{"application/zip", name, archive}, err
}

type agentLogOutput struct{ Body agentLogBody }

type agentLogBody struct {
	At    *time.Time            `json:"at,omitempty" doc:"When the log was read; absent: never"`
	By    string                `json:"by,omitempty" doc:"Who requested it"`
	Lines []hostcommand.LogLine `json:"lines"`
}

func (api *API) getAgentLog(ctx context.Context, a fleet.Actor, in *HostPath) (*agentLogOutput, error) {
	log, err := api.Control.AgentLog(ctx, a, in.ID)
	out := &agentLogOutput{agentLogBody{Lines: hostcommand.ParseLog(log.Text)}}
	if log.Artifact != nil {
		out.Body.At, out.Body.By = &log.Artifact.At, log.Artifact.By
	}
	return out, err
}

func (api *API) readAgentLog(ctx context.Context, a fleet.Actor, in *HostPath) (*taskOutput, error) {
	task, err := api.Control.RequestAgentLog(ctx, a, in.ID)
	return &taskOutput{task}, err
}
