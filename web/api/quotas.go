package api

import (
	"context"

	"quantix/internal/fleet"
	"quantix/internal/quota"
)

type quotaOutput struct{ Body quota.Quota }

func (api *API) getQuota(ctx context.Context, a fleet.Actor, in *ProjectPath) (*quotaOutput, error) {
	p, err := api.Control.ProjectUsage(ctx, a, in.ID)
	return &quotaOutput{p.Quota}, err
}

type setQuotaInput struct {
	ProjectPath
	Body quota.Quota
}

func (api *API) setQuota(ctx context.Context, a fleet.Actor, in *setQuotaInput) (*quotaOutput, error) {
	p, err := api.Control.SetQuota(ctx, a, in.ID, in.Body)
	return &quotaOutput{p.Quota}, err
}

type projectUsageOutput struct{ Body quota.ProjectUsage }

func (api *API) projectUsage(ctx context.Context, a fleet.Actor, in *ProjectPath) (*projectUsageOutput, error) {
	p, err := api.Control.ProjectUsage(ctx, a, in.ID)
	return &projectUsageOutput{p}, err
}

type usageHistoryOutput struct {
	Body struct {
		Items []quota.Day `json:"items" nullable:"false"`
	}
}

func (api *API) usageHistory(ctx context.Context, a fleet.Actor, in *ProjectPath) (*usageHistoryOutput, error) {
	var out usageHistoryOutput
	var err error
	out.Body.Items, err = api.Control.UsageHistory(ctx, a, in.ID)
	return &out, err
}
