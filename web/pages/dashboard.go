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
	return s.ShowPage(c, a, shell.PageLayout{Title: "Dashboard"}, home.Dashboard(home.DashboardPage{Overview: all, Alarms: open, Requests: asked, More: more, Top: top, Actor: a, Now: time.Now()}))
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
