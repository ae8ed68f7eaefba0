package pages

import (
	"context"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	poolview "quantix/views/pool"
	"quantix/views/shell"
	"quantix/web/form"
)

type poolForm struct {
	Name        string            `form:"name"`
	Kind        string            `form:"kind"`
	Path        string            `form:"path"`
	Source      map[string]string `form:"source"` // values by field name in fleet's table of pool fields
	Secret      string            `form:"secret"` // no response may repeat the secret
	Shared      string            `form:"shared"`
	Description string            `form:"description"`
	Hosts       []fleet.HostID    `form:"host"`
	Selector    string            `form:"selector"`
	publishForm
}

func (in poolForm) spec() fleet.PoolSpec {
	spec := fleet.PoolSpec{Kind: fleet.PoolKind(in.Kind), Path: strings.TrimSpace(in.Path), Description: in.Description, Shared: in.Shared != ""}
	for _, f := range fleet.PoolFields() {
		*f.At(&spec) = strings.TrimSpace(in.Source[f.Name])
	}
	return spec
}

func (s *Site) ShowPoolForm(c echo.Context, a fleet.Actor, in poolForm, how form.Display) (err error) {
	f := poolview.Form{Name: in.Name, Spec: in.spec(), Errors: how.Errors}
	if !how.WasRefused() {
		f.Spec.Kind = fleet.PoolDir
	}
	if f.Hosts, err = s.assignableHosts(c.Request().Context(), a, in.Hosts, nil, func(h fleet.Host) []kit.MissingCapability { return poolview.MissingCapabilities(h, "") }); err != nil {
		return err
	}
	if f.Labels, err = s.newLabelSelectorForm(c.Request().Context(), a, fleet.TypePool, in.Selector, how); err != nil {
		return err
	}
	if f.Publish, err = s.publishFields(c.Request().Context(), a, in.publishForm, "pool", how); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New pool"}, poolview.NewPoolForm(f))
}

// assignableHosts lists the hosts that an object can be assigned to, each with its unmet requirements. It omits hosts
// that already have the object, as isAssigned reports. A nil isAssigned means that no host has the object, a nil
// unmetRequirements that hosts need to meet none.
func (s *Site) assignableHosts(ctx context.Context, a fleet.Actor, chosen []fleet.HostID, isAssigned func(fleet.HostID) bool, unmetRequirements func(fleet.Host) []kit.MissingCapability) ([]kit.HostChoice, error) {
	hosts, err := query.ReadAllPages(ctx, a, fleet.Query{}, s.Control.ListHosts)
	if err != nil {
		return nil, err
	}
	var out []kit.HostChoice
	for _, h := range hosts {
		if isAssigned != nil && isAssigned(h.ID) {
			continue
		}
		choice := kit.HostChoice{ID: h.ID, Name: h.Name, Phase: h.Phase, Chosen: slices.Contains(chosen, h.ID)}
		if unmetRequirements != nil {
			choice.MissingCapabilities = unmetRequirements(h.Host)
		}
		out = append(out, choice)
	}
	return out, nil
}

func (s *Site) CreatePool(c echo.Context, a fleet.Actor, in poolForm) (form.Response, error) {
	want := storage.CreatePool{Name: strings.TrimSpace(in.Name), Spec: in.spec().WithoutFieldsOfOtherKinds(), HostIDs: in.Hosts, Selector: in.Selector}
	if want.Spec.Kind.Info().Secret != nil { // without JavaScript the form sends this field for all kinds of pool
		want.Secret = in.Secret
	}
	var err error
	if want.Publish, err = s.publishTo(c.Request().Context(), a, in.publishForm); err != nil {
		return nil, err
	}
	pool, err := s.Control.CreatePool(c.Request().Context(), a, want)
	return form.RedirectTo(views.PoolPath(pool.ID)), err
}
