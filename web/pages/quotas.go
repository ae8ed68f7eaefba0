package pages

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/quota"
	"quantix/views"
	peopleview "quantix/views/people"
	"quantix/web/form"
	"quantix/web/options"
	"quantix/web/render"
)

// ProjectUsagePage shows what a project uses, beside its limits.
func (s *Site) ProjectUsagePage(c echo.Context, a fleet.Actor) error {
	ctx, id := c.Request().Context(), fleet.ProjectID(c.Param("id"))
	project, err := s.Control.GetProject(ctx, a, id)
	if err != nil {
		return err
	}
	use, err := s.Control.ProjectUsage(ctx, a, id)
	if err != nil {
		return err
	}
	names, err := s.poolNames(ctx, a, use)
	if err != nil {
		return err
	}
	days, err := s.Control.UsageHistory(ctx, a, id)
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, projectPageLayout(project), peopleview.ProjectUsageBody(peopleview.ProjectUsagePage{
		ProjectPage: peopleview.ProjectPage{Actor: a, Project: project}, Usage: use, PoolNames: names, Days: days,
	}))
}

// poolNames returns the names of the pools in a project's quota and usage that the actor may see.
func (s *Site) poolNames(ctx context.Context, a fleet.Actor, use quota.ProjectUsage) (map[fleet.PoolID]string, error) {
	ids := slices.Collect(maps.Keys(use.Quota.Pools))
	for id := range use.Usage.Pools {
		if _, limited := use.Quota.Pools[id]; !limited && id != "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return map[fleet.PoolID]string{}, nil
	}
	return s.Control.PoolNames(ctx, a, ids)
}

// quotaForm has the fields of the form as typed: "cpus.hard", "pools.<id>.soft", and "newPool" with its limits.
type quotaForm struct{ url.Values }

func (in *quotaForm) ReadForm(sent url.Values) { in.Values = sent }

// newPoolPrefix is the prefix of the fields for a pool that has no limit yet.
const newPoolPrefix = "newPool"

// quota returns the quota that the form asks for, without the limits that are no numbers.
func (in quotaForm) quota() (q quota.Quota, checks fleet.Checks) {
	limit := func(field string, u quota.Unit) (l quota.Limit) {
		for _, part := range []struct {
			name string
			at   **int64
		}{{"hard", &l.Hard}, {"soft", &l.Soft}} {
			name := field + "." + part.name
			n, err := peopleview.ParseLimit(u, in.Get(name))
			if err != nil {
				checks.Add(name, "%s", err)
			}
			*part.at = n
		}
		return l
	}
	for _, r := range quota.Resources {
		*r.Limit(&q) = limit(r.Key, r.Unit)
	}
	q.Pools = map[fleet.PoolID]quota.Limit{}
	for name := range in.Values {
		if id, hard := strings.CutSuffix(strings.TrimPrefix(name, quota.PoolsKey+"."), ".hard"); hard && strings.HasPrefix(name, quota.PoolsKey+".") {
			q.Pools[fleet.PoolID(id)] = limit(quota.PoolsKey+"."+id, quota.Bytes)
		}
	}
	if id := fleet.PoolID(in.Get(newPoolPrefix)); id != "" {
		q.Pools[id] = limit(newPoolPrefix, quota.Bytes)
	}
	return q, checks
}

// ShowQuotaForm shows the form of a project's limits.
func (s *Site) ShowQuotaForm(c echo.Context, a fleet.Actor, in quotaForm, how form.Display) error {
	ctx, id := c.Request().Context(), fleet.ProjectID(c.Param("id"))
	project, err := s.Control.GetProject(ctx, a, id)
	if err != nil {
		return err
	}
	use, err := s.Control.ProjectUsage(ctx, a, id)
	if err != nil {
		return err
	}
	names, err := s.poolNames(ctx, a, use)
	if err != nil {
		return err
	}
	out := peopleview.NewQuotaForm(project, use, names)
	out.Errors = how.Errors
	if how.WasRefused() {
		out.Typed = in.Values
	}
	pools := options.Query{Kind: "quota-pools", Chosen: []string{in.Get(newPoolPrefix)}, FormAddress: views.ProjectPath(id, "quota"), ShowAll: c.QueryParam("all") != ""}
	if out.Pools, err = s.Options.Choices(ctx, a, pools); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, projectPageLayout(project), peopleview.QuotaDialog(out))
}

// SetQuota replaces a project's limits.
func (s *Site) SetQuota(c echo.Context, a fleet.Actor, in quotaForm) (form.Response, error) {
	id := fleet.ProjectID(c.Param("id"))
	q, checks := in.quota()
	err := checks.Err()
	if err == nil {
		_, err = s.Control.SetQuota(c.Request().Context(), a, id, q)
	}
	return form.RedirectTo(views.ProjectPath(id, "usage")), err
}

// ExportProjectsCSV exports the projects with what they use, beside their limits.
func (s *Site) ExportProjectsCSV(c echo.Context, a fleet.Actor) error {
	read := func(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[peopleview.ProjectUse], error) {
		page, err := s.Control.ListProjects(ctx, a, q)
		if err != nil {
			return fleet.Page[peopleview.ProjectUse]{}, err
		}
		ids := make([]fleet.ProjectID, len(page.Items))
		for i, p := range page.Items {
			ids[i] = p.ID
		}
		uses, err := s.Control.ProjectUsages(ctx, a, ids)
		out := fleet.Page[peopleview.ProjectUse]{Items: make([]peopleview.ProjectUse, len(page.Items)), Next: page.Next, Prev: page.Prev}
		for i, p := range page.Items {
			out.Items[i] = peopleview.ProjectUse{Project: p, Use: uses[p.ID]}
		}
		return out, err
	}
	return render.ExportCSV(s.Renderer, c, a, "projects.csv", render.QueryFromURL(c), read, peopleview.ProjectsCSV())
}
