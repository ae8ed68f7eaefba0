package pages

import (
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
	poolview "quantix/views/pool"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/options"
	"quantix/web/render"
)

func poolPageLayout(v fleet.PoolView) shell.PageLayout {
	group := "storage:local"
	if v.Spec.Shared {
		group = "storage:shared"
	}
	return shell.PageLayout{Title: v.Name, ObjectKeys: []string{group, "pool:" + string(v.ID)}}
}

// PoolPage shows a pool. Its tab Published to has the form that publishes it to a project.
func (s *Site) PoolPage(c echo.Context, a fleet.Actor, _ grantForm, how form.Display) error {
	tab, err := requestedTab(c, poolview.Tabs(a), "pool")
	if err != nil {
		return err
	}
	return s.showPool(c, a, tab, how)
}

func (s *Site) ShowPoolGrants(c echo.Context, a fleet.Actor, _ grantForm, how form.Display) error {
	return s.showPool(c, a, "grants", how)
}

// SetPoolGrant publishes a pool to a project, or withdraws it.
func (s *Site) SetPoolGrant(c echo.Context, a fleet.Actor, in grantForm) (form.Response, error) {
	set := s.Control.GrantPool
	if in.Revoke != "" {
		set = s.Control.RevokePool
	}
	id := fleet.PoolID(c.Param("id"))
	err := setGrant(c, a, set, id, in.Project)
	return form.Redraw(views.TabPath(views.PoolPath(id), "grants"), func(c echo.Context) error { return s.ShowPoolGrants(c, a, in, form.FirstDisplay) }), err
}

func (s *Site) showPool(c echo.Context, a fleet.Actor, tab string, how form.Display) (err error) {
	ctx := c.Request().Context()
	p := poolview.Page{Actor: a, Link: render.LinkToCurrentPage(c), Tab: tab, Now: time.Now(), ChartRange: c.QueryParam("range")}
	id, q := fleet.PoolID(c.Param("id")), fleet.Query{Limit: kit.MaxHostStatusesShown}
	if tab == "health" {
		p.Statuses, err = readHostStatuses(c, fleet.SeverityCounts{}, func(q fleet.Query) (page fleet.Page[fleet.PoolHost], err error) {
			p.Pool, page, err = s.Control.PoolMatrix(ctx, a, id, q)
			return page, err
		})
		p.Statuses.SeverityCounts = p.Pool.Health.SeverityCounts
	} else {
		p.Pool, _, err = s.Control.PoolMatrix(ctx, a, id, q)
	}
	if err != nil {
		return err
	}
	counts, err := s.Control.PoolCounts(ctx, a, p.Pool.ID)
	if err != nil {
		return err
	}
	p.Counts = poolTabCounts(a, counts)
	if (tab == "health" || tab == "configure") && policy.May(a, policy.InfraSee, "") {
		if p.ByLabel, err = s.Control.ByLabel(ctx, a, fleet.SubjectPool(p.Pool.ID)); err != nil {
			return err
		}
	}
	if (tab == "health" || tab == "monitor") && policy.May(a, policy.InfraSee, "") {
		if p.Growth, err = s.Control.PoolGrowth(ctx, a, p.Pool.ID); err != nil {
			return err
		}
	}
	if tab == "health" && policy.May(a, policy.InfraSee, "") {
		if p.Drifted, err = s.Control.PoolDrift(ctx, a, p.Pool.ID); err != nil {
			return err
		}
	}
	if err := s.fillPoolTab(c, a, &p); err != nil {
		return err
	}
	p.Publish.Errors = how.Errors
	if p.Statuses.Error != "" {
		p.Filter.Error = p.Statuses.Error
	}
	f := poolPageLayout(p.Pool)
	if tab == "monitor" {
		f.Scripts = []string{kit.ChartScript}
		if p.Alarms, err = s.alarmsOf(c, a, fleet.SubjectPool(p.Pool.ID)); err != nil {
			return err
		}
	}
	if tab == "volumes" && policy.May(a, policy.InfraChange, "") {
		f.Scripts = []string{render.UploadScript}
	}
	return s.ShowPageWithStatus(c, max(how.Status, render.ListResponseStatus(p.Filter)), a, f, poolview.PoolPage(p))
}

// poolTabCounts returns the numbers shown on the tabs as text. A user who may not see all projects gets no number of
// volumes.
func poolTabCounts(a fleet.Actor, n query.PoolCounts) poolview.TabCounts {
	out := poolview.TabCounts{VMs: strconv.Itoa(n.VMs)}
	if n.VMs == query.MaxCountedVMs {
		out.VMs += "+"
	}
	if policy.SeesAllProjects(a) {
		out.Volumes = strconv.Itoa(n.Volumes)
	}
	return out
}

// fillPoolTab reads the data of the page's current tab.
func (s *Site) fillPoolTab(c echo.Context, a fleet.Actor, p *poolview.Page) error {
	ctx := c.Request().Context()
	q := render.QueryFromURL(c)
	switch p.Tab {
	case "vms":
		p.Filter = kit.Filter{Link: p.Link, Type: "vms", Label: "Filter VMs", Value: q.Filter, Placeholder: "host:h1 state:running name:web*"}
		vms, err := s.Control.PoolVMs(ctx, a, p.Pool.ID, q)
		p.Filter.Error, err = render.SplitFilterError(err)
		p.VMs, p.Prev, p.Next = vms.Items, vms.Prev, vms.Next
		return err
	case "volumes":
		volumes, err := s.Control.PoolVolumes(ctx, a, p.Pool.ID)
		if err != nil {
			return err
		}
		if policy.May(a, policy.InfraChange, "") {
			if p.Uploads, err = s.Control.ListUploads(ctx, a, p.Pool.ID); err != nil {
				return err
			}
		}
		p.Volumes = poolview.NewVolumesTab(volumeRows(volumes), c.QueryParam("only") == "orphans")
		p.Counts.Volumes = strconv.Itoa(p.Volumes.All)
		from, _ := strconv.Atoi(c.QueryParam("from")) // text that is no number counts as 0
		p.First = min(max(0, from), len(p.Volumes.Rows))
		p.Last = min(p.First+poolview.MaxVolumesShown, len(p.Volumes.Rows))
	case "grants":
		if !policy.May(a, policy.InfraChange, "") {
			return nil
		}
		projects := options.Query{
			Kind: "pool-grants", ParentID: string(p.Pool.ID), Chosen: []string{kit.GrantToAllProjects}, FormAddress: views.TabPath(views.PoolPath(p.Pool.ID), "grants"), ShowAll: c.QueryParam("all") != "", Pools: []fleet.PoolView{p.Pool},
		}
		var err error
		p.Publish.Projects, err = s.Options.Choices(ctx, a, projects)
		return err
	case "tasks":
		q.Filter = "target:" + strconv.Quote(string(fleet.SubjectPool(p.Pool.ID))) + `,volume:` + string(p.Pool.ID) + "/*"
		tasks, err := s.Control.ListTasks(ctx, a, q)
		p.Tasks, p.Prev, p.Next = tasks.Items, tasks.Prev, tasks.Next
		return err
	}
	return nil
}

// volumeRows returns the rows of the volume table.
func volumeRows(volumes []query.VolumeOn) (rows []poolview.VolumeRow) {
	for _, v := range volumes {
		r := poolview.VolumeRow{Volume: v.Volume, Shared: v.Shared, WhyUnpublishable: v.Unfit, Orphan: v.Orphan, FetchUntil: v.FetchUntil, ActionStates: v.Actions}
		if !v.Shared && len(v.Hosts) > 0 {
			r.Host = v.Hosts[0].ID
		}
		if v.Published != nil {
			r.Published = &poolview.VolumePublication{By: v.Published.By, At: v.Published.At, WhyUnusable: v.Published.Stale}
		}
		for _, h := range v.Hosts {
			r.Hosts = append(r.Hosts, kit.NamedLink{Name: h.Name, Href: views.HostPath(h.ID)})
		}
		switch {
		case v.VM == nil:
		case v.VM.HostID != "":
			r.VM, r.Discovered = &kit.NamedLink{Name: v.VM.Name, Href: views.DiscoveredVMPath(v.VM.HostID, v.VM.ID)}, true
		default:
			r.VM = &kit.NamedLink{Name: v.VM.Name, Href: views.VMPath(v.VM.ID)}
		}
		rows = append(rows, r)
	}
	return rows
}

// PoolMenu returns the handler of the pool's action menu.
func (s *Site) PoolMenu() func(echo.Context, fleet.Actor) error {
	return actionMenu(s, s.Control.GetPool, poolPageLayout, poolview.Actions)
}
