package web

import (
	"context"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// sendFirstBoot sends a host the first-boot data (cloud-init and the like) of one of its VMs.
func (s *Server) sendFirstBoot(c echo.Context, a fleet.Actor, in wire.FirstBootRequest) (*wire.FirstBoot, error) {
	out, err := s.Control.FirstBootFor(c.Request().Context(), a, fleet.VMID(c.Param("id")), in)
	return &out, err
}

type firstBootOutput struct{ Body control.FirstBootDetails }

func (s *Server) apiGetFirstBoot(ctx context.Context, a fleet.Actor, in *VMPath) (*firstBootOutput, error) {
	out, err := s.Control.FirstBoot(ctx, a, in.ID)
	return &firstBootOutput{out}, err
}

type setFirstBootInput struct {
	VMPath
	Body control.FirstBootInput
}

func (s *Server) apiSetFirstBoot(ctx context.Context, a fleet.Actor, in *setFirstBootInput) (*vmOutput, error) {
	vm, task, err := s.Control.SetFirstBoot(ctx, a, in.ID, in.Body)
	if err == nil && task == "" { // nothing to remove
		vm, err = s.Control.GetVM(ctx, a, in.ID)
	}
	out := vmAnswer(a, vm)
	out.Task = string(task)
	return out, err
}

// CustomizationPath holds the id of a customization spec, from the request's path.
type CustomizationPath struct {
	ID fleet.CustomizationID `path:"id"`
}

type customizationOutput struct{ Body fleet.Customization }

type customizationInput struct{ Body control.CustomizationInput }

type updateCustomizationInput struct {
	CustomizationPath
	Body control.CustomizationInput
}

func (s *Server) apiCreateCustomization(ctx context.Context, a fleet.Actor, in *customizationInput) (*customizationOutput, error) {
	out, err := s.Control.CreateCustomization(ctx, a, in.Body)
	return &customizationOutput{out}, err
}

func (s *Server) apiGetCustomization(ctx context.Context, a fleet.Actor, in *CustomizationPath) (*customizationOutput, error) {
	out, err := s.Control.GetCustomization(ctx, a, in.ID)
	return &customizationOutput{out}, err
}

func (s *Server) apiUpdateCustomization(ctx context.Context, a fleet.Actor, in *updateCustomizationInput) (*customizationOutput, error) {
	out, err := s.Control.UpdateCustomization(ctx, a, in.ID, in.Body)
	return &customizationOutput{out}, err
}

func (s *Server) apiDeleteCustomization(ctx context.Context, a fleet.Actor, in *CustomizationPath) (*struct{}, error) {
	return nil, s.Control.DeleteCustomization(ctx, a, in.ID)
}

type customizationsOutput struct {
	Body struct {
		Items []fleet.Customization `json:"items"`
	}
}

func (s *Server) apiListCustomizations(ctx context.Context, a fleet.Actor, _ *struct{}) (*customizationsOutput, error) {
	all, err := s.Control.ListCustomizations(ctx, a)
	out := &customizationsOutput{}
	out.Body.Items = all
	return out, err
}
