package web

import (
	"context"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/control/browse"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	poolview "quantix/views/pool"
	"quantix/views/shell"
)

type poolForm struct {
	Name        string         `form:"name"`
	Kind        string         `form:"kind"`
	Path        string         `form:"path"`
	Server      string         `form:"server"`
	Export      string         `form:"export"`
	Shared      string         `form:"shared"`
	Description string         `form:"description"`
	Hosts       []fleet.HostID `form:"host"`
}

// spec leaves out what belongs to the other kind: without scripts the form shows both.
func (in poolForm) spec() fleet.PoolSpec {
	spec := fleet.PoolSpec{Kind: fleet.PoolKind(in.Kind), Path: strings.TrimSpace(in.Path), Description: in.Description, Shared: in.Shared != ""}
	if spec.Kind == fleet.PoolNFS {
		spec.Server, spec.Export, spec.Shared = strings.TrimSpace(in.Server), strings.TrimSpace(in.Export), true
	}
	return spec
}

func (s *Server) askPool(c echo.Context, a fleet.Actor, in poolForm, how asked) (err error) {
	f := poolview.Form{
		Name: in.Name, Kind: in.Kind, Path: in.Path, Server: in.Server, Export: in.Export, Description: in.Description, Shared: in.Shared != "", Errors: how.errors,
	}
	if !how.again() {
		f.Kind = string(fleet.PoolDir)
	}
	if f.Hosts, err = s.hostChoices(c.Request().Context(), a, nil, in.Hosts); err != nil {
		return err
	}
	return s.showAs(c, how.status, a, shell.Frame{Title: "New pool"}, poolview.New(f))
}

// hostChoices are the hosts to tick, but those that have it already and keep it.
func (s *Server) hostChoices(ctx context.Context, a fleet.Actor, have func(fleet.HostID) bool, chosen []fleet.HostID) ([]kit.HostChoice, error) {
	hosts, err := browse.Every(ctx, a, fleet.Query{}, s.Control.ListHosts)
	if err != nil {
		return nil, err
	}
	var out []kit.HostChoice
	for _, h := range hosts {
		if have == nil || !have(h.ID) {
			out = append(out, kit.HostChoice{ID: h.ID, Name: h.Name, Phase: h.Phase, Chosen: slices.Contains(chosen, h.ID)})
		}
	}
	return out, nil
}

func (s *Server) createPool(c echo.Context, a fleet.Actor, in poolForm) (end, error) {
	pool, err := s.Control.CreatePool(c.Request().Context(), a, control.CreatePool{Name: strings.TrimSpace(in.Name), Spec: in.spec(), HostIDs: in.Hosts})
	return leave(views.PoolPath(pool.ID)), err
}
