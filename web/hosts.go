package web

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/browse"
	"quantix/internal/fleet"
	"quantix/views"
)

// hostTabs are the filters behind the list's tabs.
var hostTabs = map[string]string{"all": "", "attention": "-phase:online"}

func (s *Server) listHosts(c echo.Context, a fleet.Actor) error {
	q := queryOf(c)
	tab, err := tabFilter(c, hostTabs, "hosts", &q)
	if err != nil {
		return err
	}
	f := views.Filter{Label: "Filter hosts", Placeholder: "phase:online label:rack=4 name:h*"}
	p := &views.HostsPage{List: s.listOf(c, "hosts", "name", views.HostColumns, f), Actor: a, Tab: tab}
	if p.Hosts, err = fill(c, a, &p.List, q, s.Control.ListHosts); err != nil {
		return err
	}
	if target(c) == "" {
		all, err := s.Control.Overview(c.Request().Context(), a)
		if err != nil {
			return err
		}
		p.Total = all.Hosts
	}
	return s.showList(c, a, views.Frame{Title: "Hosts"}, p.List, views.Hosts(p))
}

var hostHead = []string{"id", "name", "phase", "vms", "committedCpus", "threads", "committedMemoryMiB", "memoryMiB", "hypervisor", "os", "labels", "description", "seen"}

func hostRow(h fleet.HostView) []string {
	var status fleet.HostStatus
	if h.Status != nil {
		status = *h.Status
	}
	return []string{
		string(h.ID), h.Name, string(h.Phase), strconv.Itoa(h.VMs), strconv.Itoa(h.CommittedCPUs), strconv.Itoa(status.Inventory.CPU.Threads),
		strconv.FormatInt(h.CommittedMiB, 10), strconv.FormatInt(status.Inventory.MemoryBytes>>20, 10), status.Hypervisor, status.Inventory.OS,
		strings.ReplaceAll(views.LabelText(h.Spec.Labels), "\n", " "), h.Spec.Description, moment(h.SeenAt),
	}
}

func (s *Server) exportHosts(c echo.Context, a fleet.Actor) error {
	q := queryOf(c)
	if _, err := tabFilter(c, hostTabs, "hosts", &q); err != nil {
		return err
	}
	return export(s, c, a, "hosts.csv", q, s.Control.ListHosts, hostHead, hostRow)
}

func hostFrame(h fleet.HostView) views.Frame {
	return views.Frame{Title: h.Name, Here: []string{"host:" + string(h.ID)}}
}

// tabOf reads which view of an object's page is asked for; the first of all is its own.
func tabOf(c echo.Context, all []string, noun string) (string, error) {
	tab := c.QueryParam("tab")
	switch {
	case tab == "":
		return all[0], nil
	case !slices.Contains(all, tab):
		return "", fleet.Errorf(fleet.NotFound, "The page of a %s has no view %q.", noun, tab)
	}
	return tab, nil
}

// linkOf is the address of an object's page as it is shown.
func linkOf(c echo.Context) views.Link {
	return views.Link{Path: c.Request().URL.Path, Query: c.QueryParams()}.Without("tree", "dock")
}

func (s *Server) hostPage(c echo.Context, a fleet.Actor) error {
	tab, err := tabOf(c, views.HostTabs(), "host")
	if err != nil {
		return err
	}
	h, err := s.Control.GetHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	p := views.HostPage{Actor: a, Link: linkOf(c), Tab: tab, Host: h, Now: time.Now(), Form: hostFormOf(h)}
	if target(c) != "host-head" {
		if err := s.fillHost(c, a, &p); err != nil {
			return err
		}
	}
	return s.show(c, a, hostFrame(h), views.Host(p))
}

// fillHost reads what only the page's tab shows.
func (s *Server) fillHost(c echo.Context, a fleet.Actor, p *views.HostPage) (err error) {
	ctx, q := c.Request().Context(), queryOf(c)
	q.Filter = "host:" + strconv.Quote(p.Host.Name)
	switch p.Tab {
	case "vms":
		vms, err := s.Control.ListVMs(ctx, a, q)
		if err != nil {
			return err
		}
		p.VMs, p.Prev, p.Next = vms.Items, vms.Prev, vms.Next
		p.Found, err = browse.Every(ctx, a, fleet.Query{Filter: q.Filter}, s.Control.ListFoundVMs)
		return err
	case "storage":
		p.Pools, err = browse.Every(ctx, a, fleet.Query{Filter: q.Filter}, s.Control.ListPools)
	case "networks":
		p.Networks, err = s.Control.NetworksOn(ctx, a, p.Host.ID)
	case "tasks":
		tasks, err := s.Control.ListTasks(ctx, a, q)
		p.Tasks, p.Prev, p.Next = tasks.Items, tasks.Prev, tasks.Next
		return err
	}
	return err
}

func (s *Server) hostMenu(c echo.Context, a fleet.Actor) error {
	h, err := s.Control.GetHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.part(c, a, h.Name, views.Acts(views.HostActs(a, h)))
}
