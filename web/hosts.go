package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
)

// hostFilters are the filters behind the list's tabs.
var hostFilters = map[string]string{"all": "", "attention": "-phase:online"}

func hostQuery(c echo.Context) (tab string, link views.Link, q fleet.Query, err error) {
	link, q = listOf(c)
	if tab = c.QueryParam("tab"); tab == "" {
		tab = "all"
	}
	own, ok := hostFilters[tab]
	if !ok {
		err = fleet.Errorf(fleet.NotFound, "The list of hosts has no view %q.", tab)
	}
	q.Filter = strings.TrimSpace(own + " " + q.Filter)
	return tab, link, q, err
}

func (s *Server) listHosts(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	tab, link, q, err := hostQuery(c)
	if err != nil {
		return err
	}
	p := views.HostsPage{
		Actor: a, Link: link, Tab: tab, Sort: sortOf(q, "name"), After: q.After, Now: time.Now(),
		Filter: views.Filter{Link: link, Noun: "hosts", Label: "Filter hosts", Value: c.QueryParam("filter"), Placeholder: "phase:online label:rack=4 name:h*"},
	}
	hosts, err := s.Control.ListHosts(ctx, a, q)
	if p.Filter.Error, err = wrongFilter(err); err != nil {
		return err
	}
	p.Hosts, p.Next = hosts.Items, hosts.Next
	if target(c) == "" {
		all, err := s.Control.Overview(ctx, a)
		if err != nil {
			return err
		}
		p.Total = all.Hosts
	}
	return s.showAs(c, listStatus(p.Filter), a, views.Frame{Title: "Hosts"}, views.Hosts(p))
}

// sortOf is the order that a list is shown in; own is that of a list that nobody sorted.
func sortOf(q fleet.Query, own string) string {
	if q.Sort == "" {
		return own
	}
	return q.Sort
}

// listStatus is the status of a list whose filter may be wrong.
func listStatus(f views.Filter) int {
	if f.Error != "" {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

var hostHead = []string{"id", "name", "phase", "vms", "committedCpus", "threads", "committedMemoryMiB", "memoryMiB", "hypervisor", "os", "labels", "description", "seen"}

func hostRow(h fleet.HostView) []string {
	var status fleet.HostStatus
	if h.Status != nil {
		status = *h.Status
	}
	seen := ""
	if h.SeenAt != nil {
		seen = h.SeenAt.UTC().Format(time.RFC3339)
	}
	return []string{
		string(h.ID), h.Name, string(h.Phase), strconv.Itoa(h.VMs), strconv.Itoa(h.CommittedCPUs), strconv.Itoa(status.Inventory.CPU.Threads),
		strconv.FormatInt(h.CommittedMiB, 10), strconv.FormatInt(status.Inventory.MemoryBytes>>20, 10), status.Hypervisor, status.Inventory.OS,
		strings.ReplaceAll(views.LabelText(h.Spec.Labels), "\n", " "), h.Spec.Description, seen,
	}
}

// exportHosts writes the list, all pages of it, as CSV.
func (s *Server) exportHosts(c echo.Context, a fleet.Actor) error {
	_, _, q, err := hostQuery(c)
	if err != nil {
		return err
	}
	q.Limit, q.After = exportPage, ""
	return export(c, a, "hosts.csv", q, s.Control.ListHosts, hostHead, hostRow)
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
	p := views.HostPage{Actor: a, Link: linkOf(c), Tab: tab, Host: h, Now: time.Now(), After: c.QueryParam("after"), Form: hostFormOf(h)}
	if target(c) != "host-head" {
		if err := s.fillHost(c, a, &p); err != nil {
			return err
		}
	}
	return s.show(c, a, hostFrame(h), views.Host(p))
}

// fillHost reads what only the page's tab shows.
func (s *Server) fillHost(c echo.Context, a fleet.Actor, p *views.HostPage) (err error) {
	ctx, q := c.Request().Context(), fleet.Query{Filter: "host:" + strconv.Quote(p.Host.Name), After: p.After}
	switch p.Tab {
	case "vms":
		vms, err := s.Control.ListVMs(ctx, a, q)
		if err != nil {
			return err
		}
		p.VMs, p.Next = vms.Items, vms.Next
		found, err := s.Control.ListFoundVMs(ctx, a, fleet.Query{Filter: q.Filter, Limit: mostOf})
		p.Found = found.Items
		return err
	case "storage":
		pools, err := s.Control.ListPools(ctx, a, fleet.Query{Filter: q.Filter, Limit: mostOf})
		p.Pools = pools.Items
		return err
	case "networks":
		p.Networks, err = s.Control.NetworksOn(ctx, a, p.Host.ID)
	case "tasks":
		tasks, err := s.Control.ListTasks(ctx, a, q)
		p.Tasks, p.Next = tasks.Items, tasks.Next
		return err
	}
	return err
}

// mostOf bounds lists that a page shows without paging.
const mostOf = 500

func (s *Server) hostMenu(c echo.Context, a fleet.Actor) error {
	h, err := s.Control.GetHost(c.Request().Context(), a, fleet.HostID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.part(c, a, h.Name, views.Acts(views.HostActs(a, h)))
}
