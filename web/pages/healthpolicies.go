package pages

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/channel"
	"quantix/internal/control/healthpolicies"
	"quantix/internal/fleet"
	"quantix/internal/healthpolicy"
	"quantix/internal/healthpolicy/expression"
	"quantix/views"
	policyview "quantix/views/healthpolicy"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/form"
)

// shownMatches is the number of matches on the page of a policy.
const shownMatches = 100

// ListHealthPolicies shows all health policies.
func (s *Site) ListHealthPolicies(c echo.Context, a fleet.Actor) error {
	all, err := s.Control.ListHealthPolicies(c.Request().Context(), a)
	if err != nil {
		return err
	}
	settings, err := s.Control.GetHealthPolicySettings(c.Request().Context(), a)
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Health policies"}, policyview.List(policyview.ListPage{Actor: a, Policies: all, MaxHosts: settings.MaxHosts, Now: time.Now()}))
}

// policyForm is a submitted form of a health policy.
type policyForm struct {
	ID          string `form:"id"`
	Name        string `form:"name"`
	Description string `form:"description"`
	Enabled     bool   `form:"enabled"`
	DryRun      bool   `form:"dryRun"`
	Order       string `form:"order"`
	Expression  string `form:"expression"`
	Severity    string `form:"severity"`
	Alarm       bool   `form:"alarm"`
	Taint       string `form:"taint"`
	Cordon      bool   `form:"cordon"`
	Drain       bool   `form:"drain"`
	Notify      string `form:"notify"`
	Confirm     bool   `form:"confirm"`
	Generation  string `form:"generation"`

	trial *healthpolicy.Trial // of the typed expression; nil: not tried
}

func parseOrder(text string) (int, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fleet.Errorf(fleet.Invalid, "Enter a whole number, such as 10.")
	}
	return n, nil
}

// input parses the form.
func (in policyForm) input() (healthpolicies.PolicyInput, error) {
	var checks fleet.Checks
	spec := healthpolicy.Spec{
		Description: in.Description, Expression: strings.ReplaceAll(in.Expression, "\r\n", "\n"), Severity: fleet.AlarmSeverity(in.Severity), DryRun: in.DryRun, Disabled: !in.Enabled,
		Order:   form.ParseField(&checks, "spec.order", in.Order, parseOrder),
		Actions: healthpolicy.Actions{Alarm: in.Alarm, Taint: strings.TrimSpace(in.Taint), Cordon: in.Cordon, Drain: in.Drain, Notify: channel.ID(in.Notify)},
	}
	return healthpolicies.PolicyInput{Name: strings.TrimSpace(in.Name), Spec: spec, Confirm: in.Confirm, IfGeneration: form.ParseGeneration(in.Generation)}, checks.Err()
}

// typed returns the form as typed.
func (in policyForm) typed(errs kit.Errors) policyview.Form {
	return policyview.Form{
		ID: healthpolicy.ID(in.ID), Name: in.Name, Description: in.Description, Expression: in.Expression, Severity: in.Severity, Taint: in.Taint, Notify: in.Notify, Order: in.Order,
		Alarm: in.Alarm, Cordon: in.Cordon, Drain: in.Drain, DryRun: in.DryRun, Disabled: !in.Enabled, Generation: form.ParseGeneration(in.Generation), Errors: errs,
	}
}

// fleetChannels returns the channels that a policy can notify.
func (s *Site) fleetChannels(ctx context.Context, a fleet.Actor) (out []kit.Option, err error) {
	all, err := s.Control.ListChannels(ctx, a)
	for _, c := range all {
		if c.ProjectID == "" && c.UserID == "" && c.Spec.Kind != channel.Alertmanager {
			out = append(out, kit.Option{Value: string(c.ID), Text: c.Name})
		}
	}
	return out, err
}

// ShowNewPolicyForm shows the form of a new policy.
func (s *Site) ShowNewPolicyForm(c echo.Context, a fleet.Actor, in policyForm, how form.Display) (err error) {
	p := policyview.Page{Actor: a, Form: in.typed(how.Errors), Trial: in.trial, Now: time.Now()}
	if !how.WasRefused() && in.trial == nil {
		p.Form = policyview.NewForm(healthpolicy.Policy{Spec: healthpolicy.Spec{Severity: fleet.AlarmWarning, Actions: healthpolicy.Actions{Alarm: true}}})
	}
	if p.Channels, err = s.fleetChannels(c.Request().Context(), a); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New health policy"}, policyview.PolicyPage(p))
}

// CreateHealthPolicy creates a policy from the form.
func (s *Site) CreateHealthPolicy(c echo.Context, a fleet.Actor, in policyForm) (form.Response, error) {
	want, err := in.input()
	if err != nil {
		return nil, err
	}
	v, err := s.Control.CreateHealthPolicy(c.Request().Context(), a, want)
	return form.RedirectTo(views.HealthPolicyPath(v.ID)), err
}

func policyLayout(p healthpolicy.Policy) shell.PageLayout { return shell.PageLayout{Title: p.Name} }

// HealthPolicyPage shows a policy with its matches and its form.
func (s *Site) HealthPolicyPage(c echo.Context, a fleet.Actor) error {
	return s.ShowPolicyForm(c, a, policyForm{ID: c.Param("id")}, form.FirstDisplay)
}

// ShowPolicyForm shows the page of a policy, with the form as stored or as typed. Without an ID it is a new policy.
func (s *Site) ShowPolicyForm(c echo.Context, a fleet.Actor, in policyForm, how form.Display) error {
	ctx := c.Request().Context()
	id := healthpolicy.ID(c.Param("id"))
	if id == "" {
		id = healthpolicy.ID(in.ID)
	}
	if id == "" {
		return s.ShowNewPolicyForm(c, a, in, how)
	}
	v, err := s.Control.GetHealthPolicy(ctx, a, id)
	if err != nil {
		return err
	}
	p := policyview.Page{Actor: a, Policy: v, Form: in.typed(how.Errors), Trial: in.trial, Now: time.Now()}
	if !how.WasRefused() && in.trial == nil {
		p.Form = policyview.NewForm(v)
	}
	if p.Matches, err = s.Control.HealthMatchesOfPolicy(ctx, a, id, 0, shownMatches); err != nil {
		return err
	}
	if p.Channels, err = s.fleetChannels(ctx, a); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, policyLayout(v), policyview.PolicyPage(p))
}

// EditHealthPolicy changes a policy.
func (s *Site) EditHealthPolicy(c echo.Context, a fleet.Actor, in policyForm) (form.Response, error) {
	want, err := in.input()
	if err != nil {
		return nil, err
	}
	id := healthpolicy.ID(c.Param("id"))
	_, err = s.Control.UpdateHealthPolicy(c.Request().Context(), a, id, want)
	return form.RedirectTo(views.HealthPolicyPath(id)), err
}

// CheckExpression says below the field whether the typed expression is valid.
func (s *Site) CheckExpression(_ echo.Context, _ fleet.Actor, in policyForm) (form.Response, error) {
	refusal, valid := "", "The expression is valid."
	if _, err := expression.Compile(strings.TrimSpace(strings.ReplaceAll(in.Expression, "\r\n", "\n"))); err != nil {
		refusal, valid = err.Error(), ""
	}
	return func(c echo.Context) error {
		return s.WritePage(c, http.StatusOK, policyview.ExpressionCheck(refusal, valid))
	}, nil
}

// TryHealthPolicy shows which stored events the typed expression matches.
func (s *Site) TryHealthPolicy(c echo.Context, a fleet.Actor, in policyForm) (form.Response, error) {
	t, err := s.Control.TryHealthPolicy(c.Request().Context(), a, strings.ReplaceAll(in.Expression, "\r\n", "\n"))
	if err != nil {
		return nil, err
	}
	in.trial = &t
	return func(c echo.Context) error { return s.ShowPolicyForm(c, a, in, form.FirstDisplay) }, nil
}

type deletePolicyForm struct {
	Confirm bool `form:"confirm"`
}

// ConfirmDeletePolicy shows the dialog that deletes a policy, with what is undone then.
func (s *Site) ConfirmDeletePolicy(c echo.Context, a fleet.Actor, _ deletePolicyForm, how form.Display) error {
	ctx, id := c.Request().Context(), healthpolicy.ID(c.Param("id"))
	v, err := s.Control.GetHealthPolicy(ctx, a, id)
	if err != nil {
		return err
	}
	undone, err := s.Control.UndoneWithoutHealthPolicy(ctx, a, id)
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, policyLayout(v), policyview.DeleteDialog(v, undone, how.Errors))
}

// DeleteHealthPolicy deletes a policy.
func (s *Site) DeleteHealthPolicy(c echo.Context, a fleet.Actor, in deletePolicyForm) (form.Response, error) {
	return form.RedirectTo("/policies"), s.Control.DeleteHealthPolicy(c.Request().Context(), a, healthpolicy.ID(c.Param("id")), in.Confirm)
}

type policySettingsForm struct {
	MaxHosts string `form:"maxHosts"`
}

// ShowPolicySettings shows the settings of all policies.
func (s *Site) ShowPolicySettings(c echo.Context, a fleet.Actor, in policySettingsForm, how form.Display) error {
	if !how.WasRefused() {
		now, err := s.Control.GetHealthPolicySettings(c.Request().Context(), a)
		if err != nil {
			return err
		}
		in.MaxHosts = strconv.Itoa(now.MaxHosts)
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "Settings of health policies"}, policyview.SettingsDialog(in.MaxHosts, how.Errors))
}

// SetPolicySettings changes the settings of all policies.
func (s *Site) SetPolicySettings(c echo.Context, a fleet.Actor, in policySettingsForm) (form.Response, error) {
	var checks fleet.Checks
	n := form.ParseField(&checks, "maxHosts", in.MaxHosts, parseOrder)
	if err := checks.Err(); err != nil {
		return nil, err
	}
	return form.StayOnPage("/policies", "Saved."), s.Control.SetHealthPolicySettings(c.Request().Context(), a, healthpolicies.HealthPolicySettings{MaxHosts: n})
}

// ReleaseHealthMatch undoes what a match did to its host.
func (s *Site) ReleaseHealthMatch(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	id, err := strconv.ParseInt(c.Param("match"), 10, 64)
	if err != nil {
		return nil, fleet.Errorf(fleet.NotFound, "There is no such match.")
	}
	return form.StayOnPage("/policies", "Released."), s.Control.ReleaseHealthMatch(c.Request().Context(), a, id)
}

// hostPolicies returns what policies do on a host, for its page.
func (s *Site) hostPolicies(c echo.Context, a fleet.Actor, id fleet.HostID) (policyview.HostView, error) {
	of, err := s.Control.HealthMatchesOfHost(c.Request().Context(), a, id)
	of.Acts = slices.DeleteFunc(of.Acts, func(x healthpolicy.Act) bool { return x.State == healthpolicy.Removed })
	return policyview.HostView{Actor: a, Of: of, Back: views.HostPath(id), Now: time.Now()}, err
}
