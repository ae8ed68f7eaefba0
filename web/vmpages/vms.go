package vmpages

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

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

// managedFilterTabs maps the tabs of the VM list to the filter term for VMs of the other kind, and to the tab that lists
// those.
var managedFilterTabs = map[string]struct{ term, tab string }{
	"all":   {"managed:no", "found"},
	"found": {"managed:yes", "all"},
}

// tabOfManagedFilter returns the tab of the VM list that the filter's term "managed" asks for; empty: the current tab.
func tabOfManagedFilter(tab, filter string) string {
	other, has := managedFilterTabs[cmp.Or(tab, "all")]
	if has && slices.ContainsFunc(strings.Fields(filter), func(term string) bool { return strings.EqualFold(term, other.term) }) {
		return other.tab
	}
	return ""
}

func (s *Site) ListVMs(c echo.Context, a fleet.Actor) error {
	q := render.QueryFromURL(c)
	if tab := tabOfManagedFilter(c.QueryParam("tab"), q.Filter); tab != "" {
		return c.Redirect(http.StatusSeeOther, kit.Link{Path: "/vms"}.With("tab", tab).With("filter", q.Filter).String())
	}
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
		List: s.NewList(c, "vms", "name", columns, f), Tab: tab, Actor: a,
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
	if err == nil && p.ShowsLastHour() && len(p.VMs) > 0 {
		ids := make([]fleet.VMID, len(p.VMs))
		for i, v := range p.VMs {
			ids[i] = v.ID
		}
		p.Recent, err = s.Control.RecentVMUse(c.Request().Context(), a, ids)
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
