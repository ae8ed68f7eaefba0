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
