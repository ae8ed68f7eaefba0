package api

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/export"
	"quantix/internal/fleet"
)

type appliancesOutput struct {
	Body struct {
		Items []query.VolumeOn `json:"items"`
	}
}

func (api *API) listAppliances(ctx context.Context, a fleet.Actor, _ *struct{}) (*appliancesOutput, error) {
	out := &appliancesOutput{}
	var err error
	out.Body.Items, err = api.Control.ListAppliances(ctx, a)
	return out, err
}

type convertVolumeInput struct {
	VolumePath
	Body struct {
		Name       string `json:"name" doc:"Name of the new qcow2 volume"`
		Overcommit bool   `json:"overcommit,omitempty" doc:"Allow overcommit of the pool"`
	}
}

func (api *API) convertVolume(ctx context.Context, a fleet.Actor, in *convertVolumeInput) (*taskOutput, error) {
	task, err := api.Control.ConvertVolume(ctx, a, in.volume(), in.Body.Name, in.Body.Overcommit)
	return &taskOutput{task}, err
}

type exportOutput struct{ Body export.File }

type exportsOutput struct {
	Body struct {
		Items []export.File `json:"items"`
	}
}

type exportVMInput struct {
	VMPath
	Body control.NewExport
}

func (api *API) exportVM(ctx context.Context, a fleet.Actor, in *exportVMInput) (*exportOutput, error) {
	e, err := api.Control.ExportVM(ctx, a, in.ID, in.Body)
	return &exportOutput{e}, err
}

func (api *API) listExports(ctx context.Context, a fleet.Actor, in *VMPath) (*exportsOutput, error) {
	out := &exportsOutput{}
	var err error
	out.Body.Items, err = api.Control.ListExports(ctx, a, in.ID)
	return out, err
}
