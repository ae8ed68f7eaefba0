package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
	networkview "quantix/views/network"
	"quantix/views/shell"
)

func (s *Server) listNetworks(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter networks", Placeholder: "kind:bridge host:h1 name:br*"}
	p := &networkview.ListPage{List: s.listOf(c, "networks", "name", networkview.Columns, f)}
	if p.Networks, err = fill(c, a, &p.List, queryOf(c), s.Control.ListNetworks); err != nil {
		return err
	}
	return s.showList(c, a, shell.Frame{Title: "Networks"}, p.List, networkview.List(p))
}

var networkHead = []string{"id", "name", "kind", "hosts", "active", "hostNames", "created"}

func networkRow(n fleet.NetworkView) []string {
	hosts := make([]string, len(n.Hosts))
	for i, h := range n.Hosts {
		hosts[i] = h.HostName
	}
	return []string{
		string(n.ID), n.Name, string(n.Kind), strconv.Itoa(len(n.Hosts)), strconv.Itoa(n.Healthy(time.Now())), strings.Join(hosts, " "),
		n.CreatedAt.UTC().Format(time.RFC3339),
	}
}

func (s *Server) exportNetworks(c echo.Context, a fleet.Actor) error {
	return export(s, c, a, "networks.csv", queryOf(c), s.Control.ListNetworks, networkHead, networkRow)
}

func (s *Server) networkPage(c echo.Context, a fleet.Actor) error {
	tab, err := tabOf(c, networkview.Tabs(), "network")
	if err != nil {
		return err
	}
	return s.showNetwork(c, a, http.StatusOK, tab, kit.Errors{})
}

func (s *Server) showNetwork(c echo.Context, a fleet.Actor, status int, tab string, e kit.Errors) error {
	ctx := c.Request().Context()
	n, err := s.Control.GetNetwork(ctx, a, fleet.NetworkID(c.Param("id")))
	if err != nil {
		return err
	}
	p := networkview.Page{Actor: a, Link: linkOf(c), Tab: tab, Network: n, Now: time.Now()}
	if tab == "vms" && target(c) != "network-head" {
		q := queryOf(c)
		q.Filter = "network:" + strconv.Quote(n.Name)
		vms, err := s.Control.ListVMs(ctx, a, q)
		if err != nil {
			return err
		}
		p.VMs, p.Prev, p.Next = vms.Items, vms.Prev, vms.Next
	}
	if tab == "grants" && n.Restricted && policy.May(a, policy.InfraChange, "") {
		p.Grant.Errors = e
		projects := pick{
			noun: "grants", of: string(n.ID), now: []string{networkview.GrantAll}, page: "/networks/" + string(n.ID) + "?tab=grants", all: c.QueryParam("all") != "",
		}
		if p.Grant.Projects, err = s.choose(ctx, a, projects); err != nil {
			return err
		}
	}
	f := shell.Frame{Title: n.Name, Here: []string{"net:" + string(n.ID)}}
	return s.showAs(c, status, a, f, networkview.Show(p))
}

type grantForm struct {
	Project string `form:"project"`
	Revoke  string `form:"revoke"`
}

// setGrant opens a network to a project, or closes it again.
func (s *Server) setGrant(c echo.Context, a fleet.Actor) error {
	in, err := decode[grantForm](c)
	if err != nil {
		return err
	}
	set := s.Control.GrantNetwork
	if in.Revoke != "" {
		set = s.Control.RevokeNetwork
	}
	id := fleet.NetworkID(c.Param("id"))
	err = set(c.Request().Context(), a, id, grantedTo(in.Project))
	if e, status, ok := formErrors(err); ok {
		return s.showNetwork(c, a, formStatus(c, status), "grants", e)
	}
	if err != nil {
		return err
	}
	if target(c) == "" {
		return c.Redirect(http.StatusSeeOther, views.TabPath(views.NetworkPath(id), "grants"))
	}
	return s.showNetwork(c, a, http.StatusOK, "grants", kit.Errors{})
}

// grantedTo is the project that a form or a path names; empty: all. What names none is no project's id.
func grantedTo(text string) fleet.ProjectID {
	switch text {
	case networkview.GrantAll:
		return ""
	case "":
		return "none"
	}
	return fleet.ProjectID(text)
}

func (s *Server) networkMenu(c echo.Context, a fleet.Actor) error {
	n, err := s.Control.GetNetwork(c.Request().Context(), a, fleet.NetworkID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.part(c, a, n.Name, kit.Acts(networkview.Acts(a, n)))
}
