package api

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

type migrateInput struct {
	VMPath
	Body control.MigrateVM
}

func (api *API) migrateVM(ctx context.Context, a fleet.Actor, in *migrateInput) (*taskOutput, error) {
	task, err := api.Control.MigrateVM(ctx, a, in.ID, in.Body)
	return &taskOutput{task}, err
}

type migrationTargetsOutput struct {
	Body struct {
		Items []fleet.MigrationTarget `json:"items"`
	}
}

func (api *API) listMigrationTargets(ctx context.Context, a fleet.Actor, in *VMPath) (*migrationTargetsOutput, error) {
	out := &migrationTargetsOutput{}
	var err error
	out.Body.Items, err = api.Control.MigrationTargets(ctx, a, in.ID)
	return out, err
}

type migrateVMsInput struct {
	Body struct {
		IDs []fleet.VMID `json:"ids" doc:"IDs of the VMs, 500 at most"`
		control.MigrateVM
	}
}

func (api *API) migrateVMs(ctx context.Context, a fleet.Actor, in *migrateVMsInput) (*taskOutput, error) {
	task, err := api.Control.MigrateVMs(ctx, a, in.Body.IDs, in.Body.MigrateVM)
	return &taskOutput{task}, err
}

type planMigrationsInput struct {
	IDs []string `query:"ids" required:"true" doc:"IDs of the VMs, 100 at most, separated by commas"`
}

type migrationPlansOutput struct {
	Body struct {
		Items []fleet.MigrationPlan `json:"items"`
	}
}

func (api *API) planMigrations(ctx context.Context, a fleet.Actor, in *planMigrationsInput) (*migrationPlansOutput, error) {
	ids := make([]fleet.VMID, len(in.IDs))
	for i, id := range in.IDs {
		ids[i] = fleet.VMID(id)
	}
	out := &migrationPlansOutput{}
	var err error
	out.Body.Items, err = api.Control.PlanMigrations(ctx, a, ids)
	return out, err
}
