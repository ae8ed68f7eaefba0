package web

import (
	"context"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	poolview "quantix/views/pool"
	"quantix/views/shell"
)

type poolForm struct {
	Name        string            `form:"name"`
	Kind        string            `form:"kind"`
	Path        string            `form:"path"`
	Source      map[string]string `form:"source"` // by the names of fleet's pool fields
	Secret      string            `form:"secret"` // no response repeats it
	Shared      string            `form:"shared"`
	Description string            `form:"description"`
	Hosts       []fleet.HostID    `form:"host"`
	Selector    string            `form:"selector"`
}

func (in poolForm) spec() fleet.PoolSpec {
	spec := fleet.PoolSpec{Kind: fleet.PoolKind(in.Kind), Path: strings.TrimSpace(in.Path), Description: in.Description, Shared: in.Shared != ""}
	for _, f := range fleet.PoolFields() {
		*f.At(&spec) = strings.TrimSpace(in.Source[f.Name])
	}
	return spec
}

func (s *Server) askPool(c echo.Context, a fleet.Actor, in poolForm, how formState) (err error) {
	f := poolview.Form{Name: in.Name, Spec: in.spec(), Errors: how.errors}
	if !how.again() {
		f.Spec.Kind = fleet.PoolDir
	}
	if f.Hosts, err = s.hostChoices(c.Request().Context(), a, in.Hosts, nil, func(h fleet.Host) []kit.Lack { return poolview.Lacks(h, "") }); err != nil {
		return err
	}
	if f.Labels, err = s.newLabels(c.Request().Context(), a, fleet.TypePool, in.Selector, how); err != nil {
		return err
	}
	return s.showAs(c, how.status, a, shell.Frame{Title: "New pool"}, poolview.New(f))
}

// hostChoices lists the hosts to select, except those that already have the object. Each host comes with its unmet
// requirements. have and lacks may be nil: no host has the object, or every host meets the requirements.
func (s *Server) hostChoices(ctx context.Context, a fleet.Actor, chosen []fleet.HostID, have func(fleet.HostID) bool, lacks func(fleet.Host) []kit.Lack) ([]kit.HostChoice, error) {
	hosts, err := query.Every(ctx, a, fleet.Query{}, s.Control.ListHosts)
	if err != nil {
		return nil, err
	}
	var out []kit.HostChoice
	for _, h := range hosts {
		if have != nil && have(h.ID) {
			continue
		}
		choice := kit.HostChoice{ID: h.ID, Name: h.Name, Phase: h.Phase, Chosen: slices.Contains(chosen, h.ID)}
		if lacks != nil {
			choice.Lacks = lacks(h.Host)
		}
		out = append(out, choice)
	}
	return out, nil
}

func (s *Server) createPool(c echo.Context, a fleet.Actor, in poolForm) (end, error) {
	want := control.CreatePool{Name: strings.TrimSpace(in.Name), Spec: in.spec().OfKind(), HostIDs: in.Hosts, Selector: in.Selector}
	if want.Spec.Kind.Is().Secret != nil { // a form without scripts shows the fields of all kinds
		want.Secret = in.Secret
	}
	pool, err := s.Control.CreatePool(c.Request().Context(), a, want)
	return redirect(views.PoolPath(pool.ID)), err
}
