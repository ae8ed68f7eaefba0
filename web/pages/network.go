package pages

import (
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
	networkview "quantix/views/network"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/options"
	"quantix/web/render"
)

func networkPageLayout(n fleet.NetworkView) shell.PageLayout {
	return shell.PageLayout{Title: n.Name, ObjectKeys: []string{"net:" + string(n.ID)}}
}

type grantForm struct {
	Project string `form:"project"`
	Revoke  string `form:"revoke"`
}

// NetworkPage shows a network. Its tab Published to has the form that publishes it to a project.
func (s *Site) NetworkPage(c echo.Context, a fleet.Actor, _ grantForm, how form.Display) error {
	tab, err := requestedTab(c, networkview.Tabs(a), "network")
	if err != nil {
		return err
	}
	return s.showNetwork(c, a, tab, how)
}

func (s *Site) ShowNetworkGrants(c echo.Context, a fleet.Actor, _ grantForm, how form.Display) error {
	return s.showNetwork(c, a, "grants", how)
}

func (s *Site) showNetwork(c echo.Context, a fleet.Actor, tab string, how form.Display) error {
	ctx := c.Request().Context()
	n, err := s.Control.NetworkBrief(ctx, a, fleet.NetworkID(c.Param("id")))
	if err != nil {
		return err
	}
	p := networkview.Page{Actor: a, Link: render.LinkToCurrentPage(c), Tab: tab, Network: n, Now: time.Now()}
	if tab == "hosts" && render.HTMXTarget(c) != "network-head" && policy.May(a, policy.InfraSee, "") {
		if p.Statuses, err = readHostStatuses(c, n.Health.SeverityCounts, func(q fleet.Query) (fleet.Page[fleet.NetworkHost], error) {
			return s.Control.NetworkHosts(ctx, a, n.ID, q)
		}); err != nil {
			return err
		}
		if p.Drifted, err = s.Control.NetworkDrift(ctx, a, n.ID); err != nil {
			return err
		}
	}
	if (tab == "hosts" || tab == "summary") && n.Spec != nil && render.HTMXTarget(c) != "network-head" && policy.May(a, policy.InfraSee, "") {
		if p.ByLabel, err = s.Control.ByLabel(ctx, a, fleet.SubjectNetwork(n.ID)); err != nil {
			return err
		}
	}
	if tab == "addresses" && n.Spec != nil && render.HTMXTarget(c) != "network-head" && policy.May(a, policy.InfraSee, "") {
		if p.Book, err = s.readAddressesTab(c, a, n.ID); err != nil {
			return err
		}
	}
	if tab == "groups" && n.Spec != nil && render.HTMXTarget(c) != "network-head" {
		if p.Groups, err = s.readPortGroupsTab(c, a, n.ID); err != nil {
			return err
		}
	}
	if tab == "topology" && render.HTMXTarget(c) != "network-head" {
		if p.Picture, err = s.Control.NetworkTopology(ctx, a, n.ID); err != nil {
			return err
		}
	}
	if tab == "vms" && render.HTMXTarget(c) != "network-head" {
		q := render.QueryFromURL(c)
		q.Filter = "network:" + strconv.Quote(n.Name)
		vms, err := s.Control.ListVMs(ctx, a, q)
		if err != nil {
			return err
		}
		p.VMs, p.Prev, p.Next = vms.Items, vms.Prev, vms.Next
	}
	if tab == "grants" && policy.May(a, policy.InfraChange, "") {
		p.Grant.Errors = how.Errors
		projects := options.Query{
			Kind: "grants", ParentID: string(n.ID), Chosen: []string{kit.GrantToAllProjects}, FormAddress: "/networks/" + string(n.ID) + "?tab=grants", ShowAll: c.QueryParam("all") != "",
		}
		if p.Grant.Projects, err = s.Options.Choices(ctx, a, projects); err != nil {
			return err
		}
	}
	status := how.Status
	if p.Statuses.Error != "" {
		status = http.StatusUnprocessableEntity
	}
	return s.ShowPageWithStatus(c, status, a, networkPageLayout(n), networkview.NetworkPage(p))
}

// SetNetworkGrant publishes a network to a project, or withdraws it.
func (s *Site) SetNetworkGrant(c echo.Context, a fleet.Actor, in grantForm) (form.Response, error) {
	set := s.Control.GrantNetwork
	if in.Revoke != "" {
		set = s.Control.RevokeNetwork
	}
	id := fleet.NetworkID(c.Param("id"))
	err := setGrant(c, a, set, id, in.Project)
	return form.Redraw(views.TabPath(views.NetworkPath(id), "grants"), func(c echo.Context) error { return s.ShowNetworkGrants(c, a, in, form.FirstDisplay) }), err
}

// NetworkMenu returns the handler of the network's action menu.
func (s *Site) NetworkMenu() func(echo.Context, fleet.Actor) error {
	return actionMenu(s, s.Control.GetNetwork, networkPageLayout, networkview.Actions)
}
