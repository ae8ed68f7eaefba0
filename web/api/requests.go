package api

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"quantix/internal/control/requests"
	"quantix/internal/fleet"
	"quantix/internal/request"
)

// RequestPath holds the id of a request, from the request's path.
type RequestPath struct {
	ID request.ID `path:"id"`
}

type requestOutput struct {
	Location string `header:"Location"`
	Body     request.Request
}

func requestPath(r request.Request) string {
	return Base + fleet.TypeRequest.Info().PagePath(string(r.ID))
}

func requestAnswer(r request.Request, err error) (*requestOutput, error) {
	return &requestOutput{Body: r}, err
}

// newUserRequest is the body of a new request.
type newUserRequest struct {
	ProjectID fleet.ProjectID  `json:"projectId,omitempty" doc:"The project; of a VM, the VM's project"`
	Kind      request.Kind     `json:"kind" doc:"quota, pool, network or vm"`
	Reason    string           `json:"reason" doc:"Why it is needed, at most 500 characters"`
	Limits    map[string]int64 `json:"limits,omitempty" doc:"Of quota: the wished hard limits, such as cpus or memoryMiB"`
	Text      string           `json:"text,omitempty" doc:"Of a pool or network: what is needed"`
	VM        *CreateVM        `json:"vm,omitempty" doc:"Of a VM: the input of its creation"`
}

func (api *API) createRequest(ctx context.Context, a fleet.Actor, in *bodyInput[newUserRequest]) (*requestOutput, error) {
	var checks fleet.Checks
	isVM := in.Body.Kind == request.VM
	switch {
	case isVM && in.Body.VM == nil:
		checks.Add("vm", "Describe the VM.")
	case !isVM && in.Body.VM != nil:
		checks.Add("vm", "Only a request of the kind vm has a VM.")
	case isVM && in.Body.ProjectID != "" && in.Body.ProjectID != in.Body.VM.ProjectID:
		checks.Add("projectId", "The VM is for another project.")
	}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	var r request.Request
	var err error
	if isVM {
		r, err = api.Control.RequestVM(ctx, a, in.Body.VM.CreateVM, in.Body.Reason)
	} else {
		r, err = api.Control.CreateRequest(ctx, a, request.Input{
			ProjectID: in.Body.ProjectID, Kind: in.Body.Kind, Reason: in.Body.Reason, Limits: in.Body.Limits, Text: in.Body.Text,
		})
	}
	out, err := requestAnswer(r, err)
	out.Location = requestPath(r)
	return out, err
}

func (api *API) getRequest(ctx context.Context, a fleet.Actor, in *RequestPath) (*requestOutput, error) {
	return requestAnswer(api.Control.GetRequest(ctx, a, in.ID))
}

type approveRequestInput struct {
	RequestPath
	Body requests.Approval `required:"false"`
}

func (api *API) approveRequest(ctx context.Context, a fleet.Actor, in *approveRequestInput) (*requestOutput, error) {
	return requestAnswer(api.Control.ApproveRequest(ctx, a, in.ID, in.Body))
}

type refuseRequestInput struct {
	RequestPath
	Body struct{ requests.Refusal }
}

func (api *API) refuseRequest(ctx context.Context, a fleet.Actor, in *refuseRequestInput) (*requestOutput, error) {
	return requestAnswer(api.Control.RefuseRequest(ctx, a, in.ID, in.Body.Refusal))
}

func (api *API) withdrawRequest(ctx context.Context, a fleet.Actor, in *RequestPath) (*requestOutput, error) {
	return requestAnswer(api.Control.WithdrawRequest(ctx, a, in.ID))
}

// newVMOutput is the response to a new VM: the VM, or the request for it.
type newVMOutput struct {
	Status   int
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Task     string `header:"Quantix-Task" doc:"The task that applies the change on the host"`
	Body     any
}

// requestedVM asks for a VM that needs approval.
func (api *API) requestedVM(ctx context.Context, a fleet.Actor, in *newVMInput) (*newVMOutput, error) {
	r, err := api.Control.RequestVM(ctx, a, in.Body.CreateVM, in.Body.Reason)
	return &newVMOutput{Status: http.StatusAccepted, Location: requestPath(r), Body: r}, err
}

// describeVMOrRequest describes the bodies of both responses to a new VM, whose types the output does not tell.
func describeVMOrRequest(o operation) operation {
	register := o.register
	o.register = func(api *API, router huma.API, op huma.Operation) {
		body := func(t reflect.Type, name string) map[string]*huma.MediaType {
			return map[string]*huma.MediaType{"application/json": {Schema: router.OpenAPI().Components.Schemas.Schema(t, true, name)}}
		}
		op.Responses = map[string]*huma.Response{
			"201": {Description: "The VM", Content: body(reflect.TypeFor[vmBody](), "VMBody")},
			"202": {Description: "The request for the VM: new VMs of the project need approval", Content: body(reflect.TypeFor[request.Request](), "Request")},
		}
		register(api, router, op)
	}
	return o
}
