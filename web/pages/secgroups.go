package pages

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/network"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/secgroup"
	"quantix/views"
	"quantix/views/kit"
	groupview "quantix/views/secgroup"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/options"
	"quantix/web/render"
)

func securityGroupPageLayout(g secgroup.View) shell.PageLayout {
	return shell.PageLayout{Title: g.Name}
}

func (s *Site) ListSecurityGroups(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter security groups", Placeholder: "name:web*"}
	p := &groupview.ListPage{List: s.NewList(c, fleet.TypeSecurityGroup.Info().Plural, "name", groupview.ColumnsFor(a), f), Actor: a}
	if p.Groups, err = render.FillList(c, a, &p.List, render.QueryFromURL(c), s.Control.ListSecurityGroups); err != nil {
		return err
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Security groups"}, p.List, groupview.List(p))
}

func (s *Site) ExportSecurityGroupsCSV(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "security-groups.csv", render.QueryFromURL(c), s.Control.ListSecurityGroups, groupview.CSV)
}

type securityGroupForm struct {
	Name        string          `form:"name"`
	Project     fleet.ProjectID `form:"project"`
	Description string          `form:"description"`
}

func (s *Site) ShowSecurityGroupForm(c echo.Context, a fleet.Actor, in securityGroupForm, how form.Display) (err error) {
	f := groupview.Form{Name: in.Name, Project: string(in.Project), Description: in.Description, Errors: how.Errors}
	projects := options.Query{Kind: "projects", Chosen: []string{f.Project}, FormAddress: "/security-groups/new", ShowAll: c.QueryParam("all") != ""}
	if f.Projects, err = s.Options.Choices(c.Request().Context(), a, projects); err != nil {
		return err
	}
	if policy.May(a, policy.InfraChange, "") {
		f.Projects.Options = append(f.Projects.Options, kit.Option{Text: "Fleet-wide: every project may use it"})
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New security group"}, groupview.NewGroupForm(f))
}

func (s *Site) CreateSecurityGroup(c echo.Context, a fleet.Actor, in securityGroupForm) (form.Response, error) {
	g, err := s.Control.CreateSecurityGroup(c.Request().Context(), a, network.CreateSecurityGroup{
		ProjectID: in.Project, Name: strings.TrimSpace(in.Name), Spec: secgroup.Spec{Description: in.Description},
	})
	return form.RedirectTo(views.SecurityGroupPath(g.ID)), err
}

func (s *Site) ShowSecurityGroupEditForm(c echo.Context, a fleet.Actor, in securityGroupForm, how form.Display) error {
	g, err := s.Control.GetSecurityGroup(c.Request().Context(), a, securityGroupIDFromPath(c))
	if err != nil {
		return err
	}
	if !how.WasRefused() {
		in = securityGroupForm{Name: g.Name, Description: g.Spec.Description}
	}
	return s.ShowPageWithStatus(c, how.Status, a, securityGroupPageLayout(g), groupview.EditGroupForm(groupview.Form{ID: g.ID, Name: in.Name, Description: in.Description, Errors: how.Errors}))
}

func securityGroupIDFromPath(c echo.Context) fleet.SecurityGroupID {
	return fleet.SecurityGroupID(c.Param("id"))
}

func (s *Site) EditSecurityGroup(c echo.Context, a fleet.Actor, in securityGroupForm) (form.Response, error) {
	ctx := c.Request().Context()
	g, err := s.Control.GetSecurityGroup(ctx, a, securityGroupIDFromPath(c))
	if err != nil {
		return nil, err
	}
	name, spec := strings.TrimSpace(in.Name), g.Spec
	spec.Description = in.Description
	_, err = s.Control.UpdateSecurityGroup(ctx, a, g.ID, network.UpdateSecurityGroup{Name: &name, Spec: &spec, IfGeneration: g.Generation})
	return form.RedirectTo(views.SecurityGroupPath(g.ID)), err
}

func (s *Site) ConfirmDeleteSecurityGroup() form.Renderer[form.EmptyForm] {
	return form.ConfirmDialog(s.Renderer, s.Control.GetSecurityGroup, securityGroupPageLayout, groupview.DeleteGroupDialog)
}

func (s *Site) DeleteSecurityGroup(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/security-groups"), s.Control.DeleteSecurityGroup(c.Request().Context(), a, securityGroupIDFromPath(c))
}

func (s *Site) RetrySecurityGroup(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	id := securityGroupIDFromPath(c)
	return form.StayOnPage(views.SecurityGroupPath(id), "The hosts retry the security group."), s.Control.RetrySecurityGroup(c.Request().Context(), a, id)
}

// securityRuleForm is the form that adds a rule to a security group, and the form that removes a rule.
type securityRuleForm struct {
	Generation  int64              `form:"generation"`
	Direction   secgroup.Direction `form:"direction"`
	Protocol    secgroup.Protocol  `form:"protocol"`
	Ports       string             `form:"ports"`
	Remote      string             `form:"remote"` // "anybody", "cidr" or the id of a group
	CIDR        string             `form:"cidr"`
	Description string             `form:"description"`
	Remove      string             `form:"remove"` // the id of a rule
}

// rule returns the typed rule. Its error is at the field of the form.
func (in securityRuleForm) rule() (secgroup.Rule, error) {
	r := secgroup.Rule{Direction: in.Direction, Protocol: in.Protocol, Description: strings.TrimSpace(in.Description)}
	switch in.Remote {
	case "", "anybody":
	case "cidr":
		if r.CIDR = strings.TrimSpace(in.CIDR); r.CIDR == "" {
			return r, newFieldError("cidr", "Give addresses such as 10.0.0.0/24, 10.0.0.7 or 2001:db8::/64.")
		}
	default:
		r.GroupID = fleet.SecurityGroupID(in.Remote)
	}
	text := strings.TrimSpace(in.Ports)
	if text == "" {
		return r, nil
	}
	from, to, span := strings.Cut(strings.ReplaceAll(text, "–", "-"), "-")
	var err, bad error
	if r.FromPort, err = strconv.Atoi(strings.TrimSpace(from)); span {
		r.ToPort, bad = strconv.Atoi(strings.TrimSpace(to))
	}
	if err != nil || bad != nil || r.FromPort == 0 {
		return r, newFieldError("ports", "Give one port, such as 443, or a range, such as 8000-8100. Leave the field empty for all ports.")
	}
	return r, nil
}

func newFieldError(field, text string) error {
	var c fleet.Checks
	c.Add(field, "%s", text)
	return c.Err()
}

func (s *Site) SecurityGroupPage(c echo.Context, a fleet.Actor, in securityRuleForm, how form.Display) error {
	tab, err := requestedTab(c, groupview.Tabs(a), "security group")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	g, err := s.Control.GetSecurityGroup(ctx, a, securityGroupIDFromPath(c))
	if err != nil {
		return err
	}
	p := groupview.Page{Actor: a, Link: render.LinkToCurrentPage(c), Tab: tab, Group: g, Now: time.Now(), Rule: groupview.RuleForm{
		Direction: string(in.Direction), Protocol: string(in.Protocol), Ports: in.Ports, Remote: in.Remote, CIDR: in.CIDR, Description: in.Description, Errors: how.Errors,
	}}
	if tab == "rules" && render.HTMXTarget(c) != "secgroup-head" {
		if p.Groups, err = s.remoteGroupOptions(c, a, g); err != nil {
			return err
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, securityGroupPageLayout(g), groupview.GroupPage(p))
}

// remoteGroupOptions lists the groups that the rules of group g may refer to.
func (s *Site) remoteGroupOptions(c echo.Context, a fleet.Actor, g secgroup.View) ([]kit.Option, error) {
	out := []kit.Option{{Value: string(g.ID), Text: "members of this group"}}
	var all []secgroup.View
	var err error
	if g.ProjectID != "" {
		all, err = s.Control.SecurityGroupsForProject(c.Request().Context(), a, g.ProjectID)
	} else {
		all, err = s.Control.SharedSecurityGroups(c.Request().Context(), a)
	}
	for _, o := range all {
		if o.ID != g.ID {
			out = append(out, kit.Option{Value: string(o.ID), Text: "members of " + o.Name})
		}
	}
	return out, err
}

func (s *Site) ShowSecurityGroupRules(c echo.Context, a fleet.Actor, in securityRuleForm, how form.Display) error {
	return s.SecurityGroupPage(c, a, in, how)
}

// ChangeSecurityGroupRules adds the form's rule to the security group, or removes the rule that the form names.
func (s *Site) ChangeSecurityGroupRules(c echo.Context, a fleet.Actor, in securityRuleForm) (form.Response, error) {
	ctx := c.Request().Context()
	g, err := s.Control.GetSecurityGroup(ctx, a, securityGroupIDFromPath(c))
	if err != nil {
		return nil, err
	}
	spec, at := g.Spec, len(g.Spec.Rules)
	change := network.UpdateSecurityGroup{Spec: &spec, IfGeneration: g.Generation}
	if in.Remove != "" {
		spec.Rules = make([]secgroup.Rule, 0, at)
		for _, r := range g.Spec.Rules {
			if r.ID != in.Remove {
				spec.Rules = append(spec.Rules, r)
			}
		}
	} else {
		r, err := in.rule()
		if err != nil {
			return nil, err
		}
		spec.Rules = append(spec.Rules, r)
		if in.Generation != 0 {
			change.IfGeneration = in.Generation
		}
	}
	_, err = s.Control.UpdateSecurityGroup(ctx, a, g.ID, change)
	return form.Redraw(views.SecurityGroupPath(g.ID), func(c echo.Context) error { return s.SecurityGroupPage(c, a, securityRuleForm{}, form.FirstDisplay) }), moveErrorsToRuleForm(err, at)
}

// moveErrorsToRuleForm maps control's errors about the added rule, which has index at in the group, to the fields of
// the form.
func moveErrorsToRuleForm(err error, at int) error {
	var e *fleet.Error
	if !errors.As(err, &e) || e.Code != fleet.Invalid {
		return err
	}
	var c fleet.Checks
	prefix := fmt.Sprintf("spec.rules[%d]", at)
	for _, f := range e.Fields {
		field := strings.TrimPrefix(strings.TrimPrefix(f.Field, prefix), ".")
		if field == "fromPort" || field == "toPort" {
			field = "ports"
		}
		c.Add(field, "%s", f.Message)
	}
	return c.Err()
}
