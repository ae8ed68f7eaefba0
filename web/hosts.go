package web

import (
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	hostview "quantix/views/host"
	"quantix/views/kit"
	"quantix/views/shell"
)

// hostListTabFilters maps the tabs of the host list to their filters.
var hostListTabFilters = map[string]string{"all": "", "attention": "-state:online"}

func (s *Server) listHosts(c echo.Context, a fleet.Actor) error {
	q := queryFromURL(c)
	tab, err := applyTabFilter(c, hostListTabFilters, "hosts", &q)
	if err != nil {
		return err
	}
	f := kit.Filter{Label: "Filter hosts", Placeholder: "state:online vms>20 label:rack=4 name:h*"}
	p := &hostview.ListPage{List: s.newList(c, "hosts", "name", hostview.Columns, f), Actor: a, Tab: tab}
	if p.Hosts, err = fillList(c, a, &p.List, q, s.Control.ListHosts); err != nil {
		return err
	}
	if htmxTarget(c) == "" {
		if p.Total, err = s.Control.HostTotals(c.Request().Context(), a); err != nil {
			return err
		}
	}
	return s.showList(c, a, shell.PageLayout{Title: "Hosts"}, p.List, hostview.List(p))
}

var hostCSVHeader = []string{"id", "name", "phase", "vms", "committedCpus", "threads", "committedMemoryMiB", "memoryMiB", "hypervisor", "os", "labels", "description", "seen"}

func hostCSVRow(h fleet.HostView) []string {
	var status fleet.HostStatus
	if h.Status != nil {
		status = *h.Status
	}
	return []string{
		string(h.ID), h.Name, string(h.Phase), strconv.Itoa(h.VMs), strconv.Itoa(h.CommittedCPUs), strconv.Itoa(status.Inventory.CPU.Threads),
		strconv.FormatInt(h.CommittedMiB, 10), strconv.FormatInt(status.Inventory.MemoryBytes>>20, 10), status.Hypervisor, status.Inventory.OS,
		strings.ReplaceAll(kit.LabelLines(h.Spec.Labels), "\n", " "), h.Spec.Description, csvTime(h.SeenAt),
	}
}

func (s *Server) exportHosts(c echo.Context, a fleet.Actor) error {
	q := queryFromURL(c)
	if _, err := applyTabFilter(c, hostListTabFilters, "hosts", &q); err != nil {
		return err
	}
	return exportCSV(s, c, a, "hosts.csv", q, s.Control.ListHosts, hostCSVHeader, hostCSVRow)
}
