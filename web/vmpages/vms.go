package vmpages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/views/vmlist"
	"quantix/web/render"
)

// vmListTabFilters maps the tabs of the VM list to their filters.
var vmListTabFilters = map[string]string{
	"all": "", "found": "",
	"attention": "attention:yes",
	"restart":   "state:needsRestart",
}

func (s *Site) ListVMs(c echo.Context, a fleet.Actor) error {
	q := render.QueryFromURL(c)
	tab, err := render.ApplyTabFilter(c, vmListTabFilters, "VMs", &q)
	if err != nil {
		return err
	}
	f, columns := kit.Filter{Label: "Filter VMs", Placeholder: "state:running host:h1 memory>8G name:web* label:env=prod"}, vmlist.Columns
	if tab == "found" {
		f.Type, f.Placeholder, columns = "found", "name:web* host:h1 state:running", vmlist.DiscoveredVMColumns
	}
	if tab == "restart" {
		columns = vmlist.RestartColumns
	}
	if !policy.May(a, policy.InfraSee, "") {
		f.Placeholder, columns = "state:running name:web* label:env=prod", columns.WithoutHost()
	}
	p := &vmlist.ListPage{
		List: s.NewList(c, "vms", "name", columns, f), Tab: tab,
		MayCreate: policy.May(a, policy.VMChange, ""), MayChangeHosts: policy.May(a, policy.InfraChange, ""), MayUseVMs: policy.May(a, policy.VMUse, ""),
		IsRestricted: tab != "all" || q.Filter != "" || q.Project != "",
	}
	switch {
	case render.HTMXTarget(c) == "vms-head": // a refresh of the counts above the list
	case tab == "found":
		p.Found, err = render.FillList(c, a, &p.List, q, s.Control.ListDiscoveredVMs)
	default:
		p.VMs, err = render.FillList(c, a, &p.List, q, s.Control.ListVMRows)
	}
	if err != nil {
		return err
	}
	if id := render.HTMXTarget(c); (id == "" || id == "vms-head") && policy.SeesAllProjects(a) {
		if p.Total, err = s.Control.VMTotals(c.Request().Context(), a); err != nil {
			return err
		}
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Virtual machines", Project: q.Project}, p.List, vmlist.List(p))
}

// ExportVMsCSV writes all pages of the list as CSV.
func (s *Site) ExportVMsCSV(c echo.Context, a fleet.Actor) error {
	q := render.QueryFromURL(c)
	tab, err := render.ApplyTabFilter(c, vmListTabFilters, "VMs", &q)
	if err != nil {
		return err
	}
	if tab == "found" {
		return render.ExportCSV(s.Renderer, c, a, "discovered-vms.csv", q, s.Control.ListDiscoveredVMs, vmlist.DiscoveredVMCSV)
	}
	return render.ExportCSV(s.Renderer, c, a, "vms.csv", q, s.Control.ListVMsBriefly, vmlist.CSV)
}
