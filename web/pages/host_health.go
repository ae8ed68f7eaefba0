package pages

import (
	"context"
	"strconv"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/health"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	hostview "quantix/views/host"
	"quantix/web/form"
)

// fillHealthTab reads the host's health and a page of its history.
func (s *Site) fillHealthTab(c echo.Context, a fleet.Actor, p *hostview.Page) error {
	ctx := c.Request().Context()
	t := hostview.HealthTab{Severity: fleet.AlarmSeverity(c.QueryParam("severity")), Check: c.QueryParam("check")}
	q := health.EventQuery{Severity: t.Severity, Check: t.Check}
	var err error
	if q.After, err = parseEventID(c.QueryParam("after")); err != nil {
		return err
	}
	if q.Before, err = parseEventID(c.QueryParam("before")); err != nil {
		return err
	}
	if t.HostHealth, err = s.Control.HealthOfHost(ctx, a, p.Host.ID); err != nil {
		return err
	}
	events, err := s.Control.HostEvents(ctx, a, p.Host.ID, q)
	t.Events, t.Older, t.Newer = events.Items, events.Older, events.Newer
	p.Health = t
	return err
}

// parseEventID parses a cursor of the history; empty is 0.
func parseEventID(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 {
		return 0, fleet.Errorf(fleet.Malformed, "The address has no usable event ID. Open the tab Health again.")
	}
	return id, nil
}

// resolveForm names the condition to resolve.
type resolveForm struct {
	Check  string `form:"check"`
	Object string `form:"object"`
	Code   string `form:"code"`
}

// ResolveCondition resolves an occurrence of the host.
func (s *Site) ResolveCondition(c echo.Context, a fleet.Actor, in resolveForm) (form.Response, error) {
	id := fleet.HostID(c.Param("id"))
	err := s.Control.ResolveCondition(c.Request().Context(), a, id, healthevent.Key{Check: in.Check, Object: in.Object, Code: in.Code})
	return form.StayOnPage(hostview.HealthPath(id), "The condition is resolved."), err
}

// criticalHosts returns the causes for the dashboard of hosts with critical conditions.
func (s *Site) criticalHosts(ctx context.Context, a fleet.Actor) (out []fleet.AttentionCause, err error) {
	all, more, err := s.Control.CriticalConditions(ctx, a)
	if err != nil {
		return nil, err
	}
	place := map[fleet.HostID]int{}
	for _, c := range all {
		at, known := place[c.HostID]
		if !known {
			place[c.HostID] = len(out)
			out = append(out, fleet.AttentionCause{
				Kind: string(fleet.TypeHost), ID: string(c.HostID), Name: c.HostName, Severity: fleet.SeverityBad, Text: c.Text, Count: 1, At: &c.Since,
				Objects: []fleet.AttentionObject{{ID: string(c.HostID), Name: c.HostName}},
			})
			continue
		}
		out[at].Text += " " + c.Text
	}
	if more && len(out) > 0 {
		out[len(out)-1].Remedy = "More hosts have critical conditions: see the column Health of the host list."
	}
	return out, nil
}
