package pages

import (
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/home"
	"quantix/views/shell"
)

func (s *Site) DashboardPage(c echo.Context, a fleet.Actor) error {
	all, err := s.Control.Overview(c.Request().Context(), a)
	if err != nil {
		return err
	}
	all.Attention = slices.DeleteFunc(all.Attention, func(x fleet.AttentionCause) bool { return x.HasAlarm }) // the alarms show it
	if policy.May(a, policy.Manage, "") {
		all.Attention = append(s.certificateWarnings(time.Now()), all.Attention...)
	}
	if policy.May(a, policy.InfraSee, "") {
		critical, err := s.criticalHosts(c.Request().Context(), a)
		if err != nil {
			return err
		}
		all.Attention = append(critical, all.Attention...)
	}
	open, err := s.openAlarms(c.Request().Context(), a)
	if err != nil {
		return err
	}
	top, err := s.Control.TopConsumers(c.Request().Context(), a)
	if err != nil {
		return err
	}
	asked, more, err := s.Control.RequestsToDecide(c.Request().Context(), a)
	if err != nil {
		return err
	}
	p := home.DashboardPage{Overview: all, Alarms: open, Requests: asked, More: more, Top: top, Actor: a, Now: time.Now()}
	if !policy.May(a, policy.InfraSee, "") {
		if p.Tenant, err = s.readTenantDashboard(c, a); err != nil {
			return err
		}
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Dashboard"}, home.Dashboard(p))
}

const (
	maxDashboardProjects = 6
	maxDashboardTasks    = 6
)

// readTenantDashboard reads the parts of a tenant's dashboard that others do not have.
func (s *Site) readTenantDashboard(c echo.Context, a fleet.Actor) (*home.TenantDashboard, error) {
	ctx := c.Request().Context()
	projects, err := s.Control.ListProjects(ctx, a, fleet.Query{Limit: maxDashboardProjects})
	if err != nil {
		return nil, err
	}
	out := home.TenantDashboard{MoreProjects: projects.Next != ""}
	ids := make([]fleet.ProjectID, len(projects.Items))
	for i, p := range projects.Items {
		ids[i] = p.ID
	}
	uses, err := s.Control.ProjectUsages(ctx, a, ids)
	if err != nil {
		return nil, err
	}
	for _, p := range projects.Items {
		names, err := s.poolNames(ctx, a, uses[p.ID])
		if err != nil {
			return nil, err
		}
		out.Projects = append(out.Projects, home.TenantProject{Project: p, Usage: uses[p.ID], PoolNames: names})
	}
	if out.Expiring, err = s.Control.ExpiringVMs(ctx, a); err != nil {
		return nil, err
	}
	tasks, err := s.Control.ListTasks(ctx, a, fleet.Query{Limit: maxDashboardTasks})
	out.Tasks = tasks.Items
	return &out, err
}

// certificateWarnings returns warnings for the portal's certificates that have expired or expire soon.
func (s *Site) certificateWarnings(now time.Time) (warnings []fleet.AttentionCause) {
	for _, v := range s.Certificates() {
		if text := v.Warning(now); text != "" {
			tone := fleet.SeverityWarn
			if now.After(v.Until) {
				tone = fleet.SeverityBad
			}
			warnings = append(warnings, fleet.AttentionCause{
				Kind: "certificate", ID: v.Use, Name: "TLS certificate", Severity: tone, Text: text, Count: 1, Objects: []fleet.AttentionObject{{ID: v.Use, Name: "TLS certificate"}},
			})
		}
	}
	return warnings
}
