package web

import (
	"context"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

type appliancesOutput struct {
	Body struct {
		Items []query.VolumeOn `json:"items"`
	}
}

func (s *Server) apiListAppliances(ctx context.Context, a fleet.Actor, _ *struct{}) (*appliancesOutput, error) {
	out := &appliancesOutput{}
	var err error
	out.Body.Items, err = s.Control.ListAppliances(ctx, a)
	return out, err
}

type convertVolumeInput struct {
	VolumePath
	Body struct {
		Name       string `json:"name" doc:"Name of the new qcow2 volume"`
		Overcommit bool   `json:"overcommit,omitempty" doc:"Allow overcommit of the pool"`
	}
}

func (s *Server) apiConvertVolume(ctx context.Context, a fleet.Actor, in *convertVolumeInput) (*taskOutput, error) {
	task, err := s.Control.ConvertVolume(ctx, a, in.volume(), in.Body.Name, in.Body.Overcommit)
	return &taskOutput{task}, err
}

// ExportPath holds the id of an export, from the request's path.
type ExportPath struct {
	ID fleet.ExportID `path:"id"`
}

type exportOutput struct{ Body fleet.Export }

type exportsOutput struct {
	Body struct {
		Items []fleet.Export `json:"items"`
	}
}

type exportVMInput struct {
	VMPath
	Body control.NewExport
}

func (s *Server) apiExportVM(ctx context.Context, a fleet.Actor, in *exportVMInput) (*exportOutput, error) {
	e, err := s.Control.ExportVM(ctx, a, in.ID, in.Body)
	return &exportOutput{e}, err
}

func (s *Server) apiListExports(ctx context.Context, a fleet.Actor, in *VMPath) (*exportsOutput, error) {
	out := &exportsOutput{}
	var err error
	out.Body.Items, err = s.Control.ListExports(ctx, a, in.ID)
	return out, err
}

func (s *Server) apiGetExport(ctx context.Context, a fleet.Actor, in *ExportPath) (*exportOutput, error) {
	e, err := s.Control.GetExport(ctx, a, in.ID)
	return &exportOutput{e}, err
}

func (s *Server) apiDeleteExport(ctx context.Context, a fleet.Actor, in *ExportPath) (*emptyOutput, error) {
	return nil, s.Control.DeleteExport(ctx, a, in.ID)
}
