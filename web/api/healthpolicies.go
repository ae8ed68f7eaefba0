package api

import (
	"cmp"
	"context"

	"quantix/internal/control/healthpolicies"
	"quantix/internal/fleet"
	"quantix/internal/healthpolicy"
)

// PolicyPath holds the id of a health policy, from the request's path.
type PolicyPath struct {
	ID healthpolicy.ID `path:"id"`
}

type policyOutput struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     healthpolicy.Policy
}

func policyAnswer(v healthpolicy.Policy, err error) (*policyOutput, error) {
	return &policyOutput{ETag: etag(v.Generation), Body: v}, err
}

type policyList struct {
	Body struct {
		Items []healthpolicy.Policy `json:"items"`
	}
}

func (api *API) listPolicies(ctx context.Context, a fleet.Actor, _ *struct{}) (*policyList, error) {
	all, err := api.Control.ListHealthPolicies(ctx, a)
	var out policyList
	out.Body.Items = all
	return &out, err
}

// policyEdit holds the editable fields of a policy.
type policyEdit struct {
	Name    string            `json:"name"`
	Spec    healthpolicy.Spec `json:"spec"`
	Confirm bool              `json:"confirm,omitempty" doc:"Save although the policy changes many hosts at once, or undoes what it did to hosts"`
}

func (in policyEdit) input() healthpolicies.PolicyInput {
	return healthpolicies.PolicyInput{Name: in.Name, Spec: in.Spec, Confirm: in.Confirm}
}

func (api *API) createPolicy(ctx context.Context, a fleet.Actor, in *bodyInput[policyEdit]) (*policyOutput, error) {
	v, err := api.Control.CreateHealthPolicy(ctx, a, in.Body.input())
	out, err := policyAnswer(v, err)
	out.Location = Base + fleet.TypeHealthPolicy.Info().PagePath(string(v.ID))
	return out, err
}

func (api *API) getPolicy(ctx context.Context, a fleet.Actor, in *PolicyPath) (*policyOutput, error) {
	return policyAnswer(api.Control.GetHealthPolicy(ctx, a, in.ID))
}

type putPolicyInput struct {
	PolicyPath
	IfMatchHeader
	Body policyEdit
}

func (api *API) putPolicy(ctx context.Context, a fleet.Actor, in *putPolicyInput) (*policyOutput, error) {
	return retryPatch(in.IfMatchHeader, func(wanted int64) (*policyOutput, error) {
		old, err := api.Control.GetHealthPolicy(ctx, a, in.ID)
		if err != nil {
			return nil, err
		}
		want := in.Body.input()
		want.IfGeneration = cmp.Or(wanted, old.Generation)
		return policyAnswer(api.Control.UpdateHealthPolicy(ctx, a, in.ID, want))
	})
}

type deletePolicyInput struct {
	PolicyPath
	Confirm bool `query:"confirm" doc:"Delete although this undoes what the policy did to hosts"`
}

func (api *API) deletePolicy(ctx context.Context, a fleet.Actor, in *deletePolicyInput) (*emptyOutput, error) {
	return nil, api.Control.DeleteHealthPolicy(ctx, a, in.ID, in.Confirm)
}

type tryPolicyInput struct {
	Body struct {
		Expression string `json:"expression" doc:"CEL expression over event and host"`
	}
}

type trialOutput struct{ Body healthpolicy.Trial }

func (api *API) tryPolicy(ctx context.Context, a fleet.Actor, in *tryPolicyInput) (*trialOutput, error) {
	t, err := api.Control.TryHealthPolicy(ctx, a, in.Body.Expression)
	return &trialOutput{t}, err
}

type policyMatchesInput struct {
	PolicyPath
	Before int64 `query:"before" doc:"Only matches with lower IDs"`
	Limit  int   `query:"limit" default:"100" minimum:"1" maximum:"500"`
}

type policyMatchesOutput struct {
	Body struct {
		Items []healthpolicy.Match `json:"items"`
	}
}

func (api *API) policyMatches(ctx context.Context, a fleet.Actor, in *policyMatchesInput) (*policyMatchesOutput, error) {
	all, err := api.Control.HealthMatchesOfPolicy(ctx, a, in.ID, in.Before, in.Limit)
	var out policyMatchesOutput
	out.Body.Items = all
	return &out, err
}

type hostMatchesOutput struct{ Body healthpolicy.OfHost }

func (api *API) hostHealthMatches(ctx context.Context, a fleet.Actor, in *HostPath) (*hostMatchesOutput, error) {
	of, err := api.Control.HealthMatchesOfHost(ctx, a, in.ID)
	return &hostMatchesOutput{of}, err
}

type matchInput struct {
	Match int64 `path:"match"`
}

func (api *API) releaseHealthMatch(ctx context.Context, a fleet.Actor, in *matchInput) (*emptyOutput, error) {
	return nil, api.Control.ReleaseHealthMatch(ctx, a, in.Match)
}

type policySettingsOutput struct {
	Body healthpolicies.HealthPolicySettings
}

func (api *API) getPolicySettings(ctx context.Context, a fleet.Actor, _ *struct{}) (*policySettingsOutput, error) {
	s, err := api.Control.GetHealthPolicySettings(ctx, a)
	return &policySettingsOutput{s}, err
}

func (api *API) putPolicySettings(ctx context.Context, a fleet.Actor, in *bodyInput[healthpolicies.HealthPolicySettings]) (*policySettingsOutput, error) {
	return &policySettingsOutput{in.Body}, api.Control.SetHealthPolicySettings(ctx, a, in.Body)
}
