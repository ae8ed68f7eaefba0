package pages

import (
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/identity"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
	peopleview "quantix/views/people"
	"quantix/web/form"
)

// rulesForm is a submitted form of a project's rules for new VMs.
type rulesForm struct{ url.Values }

// ReadForm sets the form to the values that the browser sent.
func (in *rulesForm) ReadForm(sent url.Values) { in.Values = sent }

// locked returns the locked keys.
func (in rulesForm) locked() (out []string) {
	for _, r := range flavor.All {
		if in.Get(peopleview.RuleLockField+r.Key) != "" {
			out = append(out, r.Key)
		}
	}
	return out
}

// groups returns the chosen security groups, in the order of the choices.
func (in rulesForm) groups(choices []kit.Option) (out []string) {
	for _, o := range choices {
		if in.Get(peopleview.RuleGroupField+o.Value) != "" {
			out = append(out, o.Value)
		}
	}
	return out
}

// ShowProjectRules shows a project's rules for new VMs; to users who manage projects, as a form.
func (s *Site) ShowProjectRules(c echo.Context, a fleet.Actor, in rulesForm, how form.Display) error {
	ctx, id := c.Request().Context(), fleet.ProjectID(c.Param("id"))
	project, err := s.Control.GetProject(ctx, a, id)
	if err != nil {
		return err
	}
	p := peopleview.RulesPage{ProjectPage: peopleview.ProjectPage{Actor: a, Project: project}, Form: peopleview.NewRulesForm(project.VMRules)}
	if p.Rules, err = s.Control.VMRules(ctx, a, id); err != nil {
		return err
	}
	if policy.May(a, policy.Manage, "") {
		if p.Groups, err = s.groupChoices(c, a, id); err != nil {
			return err
		}
		published, err := s.Control.ListFlavors(ctx, a)
		if err != nil {
			return err
		}
		p.Published = flavor.CountPublished(published, id)
	}
	if how.WasRefused() {
		p.Form = peopleview.RulesForm{
			Approval: in.Get("approval") != "", FlavorsOnly: in.Get("flavorsOnly") != "", ExpiryStops: in.Get("expiryStops") != "", Pattern: in.Get("namePattern"), Firmware: in.Get("firmware"), Days: in.Get("expiryDays"),
			Groups: in.groups(p.Groups), Locked: in.locked(), Errors: how.Errors,
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, projectPageLayout(project), peopleview.RulesBody(p))
}

func (s *Site) groupChoices(c echo.Context, a fleet.Actor, id fleet.ProjectID) (out []kit.Option, err error) {
	groups, err := s.Control.SecurityGroupsForProject(c.Request().Context(), a, id)
	for _, g := range groups {
		text := g.Name
		if g.ProjectID == "" {
			text += " (all projects)"
		}
		out = append(out, kit.Option{Value: string(g.ID), Text: text})
	}
	return out, err
}

// EditProjectRules sets a project's rules for new VMs.
func (s *Site) EditProjectRules(c echo.Context, a fleet.Actor, in rulesForm) (form.Response, error) {
	ctx, id := c.Request().Context(), fleet.ProjectID(c.Param("id"))
	project, err := s.Control.GetProject(ctx, a, id)
	if err != nil {
		return nil, err
	}
	choices, err := s.groupChoices(c, a, id)
	if err != nil {
		return nil, err
	}
	var checks fleet.Checks
	rules := fleet.VMRules{
		Approval: in.Get("approval") != "", FlavorsOnly: in.Get("flavorsOnly") != "", NamePattern: strings.TrimSpace(in.Get("namePattern")), Firmware: fleet.Firmware(in.Get("firmware")),
		ExpiryDays: form.ParseField(&checks, "vmRules.expiryDays", in.Get("expiryDays"), form.ParseNumber), ExpiryStops: in.Get("expiryStops") != "", Locked: in.locked(),
	}
	for _, g := range in.groups(choices) {
		rules.SecurityGroups = append(rules.SecurityGroups, fleet.SecurityGroupID(g))
	}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	_, err = s.Control.UpdateProject(ctx, a, id, identity.ProjectInput{
		Name: project.Name, Description: project.Description, DefaultPoolID: project.DefaultPoolID, DefaultNetworkID: project.DefaultNetworkID, VMRules: &rules,
	})
	return form.RedirectTo(views.ProjectPath(id, "rules")), err
}
