package web

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	"quantix/views/shell"
	vmview "quantix/views/vm"
)

// vmListTabFilters maps the tabs of the VM list to their filters.
var vmListTabFilters = map[string]string{
	"all": "", "found": "",
	"attention": "attention:yes",
	"restart":   "state:needsRestart",
}

func (s *Server) listVMs(c echo.Context, a fleet.Actor) error {
	q := queryFromURL(c)
	tab, err := applyTabFilter(c, vmListTabFilters, "VMs", &q)
	if err != nil {
		return err
	}
	f, columns := kit.Filter{Label: "Filter VMs", Placeholder: "state:running host:h1 memory>8G name:web* label:env=prod"}, vmview.Columns
	if tab == "found" {
		f.Type, f.Placeholder, columns = "found", "name:web* host:h1 state:running", vmview.DiscoveredVMColumns
	}
	if tab == "restart" {
		columns = vmview.RestartColumns
	}
	if !policy.May(a, policy.InfraSee, "") {
		f.Placeholder, columns = "state:running name:web* label:env=prod", columns.WithoutHost()
	}
	p := &vmview.ListPage{
		List: s.newList(c, "vms", "name", columns, f), Tab: tab,
		MayCreate: policy.May(a, policy.VMChange, ""), MayChangeHosts: policy.May(a, policy.InfraChange, ""), MayUseVMs: policy.May(a, policy.VMUse, ""),
		IsRestricted: tab != "all" || q.Filter != "" || q.Project != "",
	}
	switch {
	case htmxTarget(c) == "vms-head": // a refresh of the counts above the list
	case tab == "found":
		p.Found, err = fillList(c, a, &p.List, q, s.Control.ListDiscoveredVMs)
	default:
		p.VMs, err = fillList(c, a, &p.List, q, s.Control.ListVMRows)
	}
	if err != nil {
		return err
	}
	if id := htmxTarget(c); (id == "" || id == "vms-head") && policy.AllProjects(a) {
		if p.Total, err = s.Control.VMTotals(c.Request().Context(), a); err != nil {
			return err
		}
	}
	return s.showList(c, a, shell.PageLayout{Title: "Virtual machines", Project: q.Project}, p.List, vmview.List(p))
}

// exportVMs writes all pages of the list as CSV.
func (s *Server) exportVMs(c echo.Context, _ fleet.Actor) error {
	q := queryFromURL(c)
	tab, err := applyTabFilter(c, vmListTabFilters, "VMs", &q)
	if err != nil {
		return err
	}
	if tab == "found" {
		return exportCSV(s, c, "discovered-vms.csv", q, s.Control.ListDiscoveredVMs, vmview.DiscoveredVMCSV)
	}
	return exportCSV(s, c, "vms.csv", q, s.Control.ListVMsBriefly, vmview.CSV)
}
