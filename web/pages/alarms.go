package pages

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/alarms"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/views"
	alarmview "quantix/views/alarm"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/render"
)

// ListAlarms shows the open alarms in groups, or with the tab "all" the list of all alarms.
func (s *Site) ListAlarms(c echo.Context, a fleet.Actor) (err error) {
	switch c.QueryParam("tab") {
	case "":
		p, err := s.openAlarms(c.Request().Context(), a)
		if err != nil {
			return err
		}
		return s.ShowPage(c, a, shell.PageLayout{Title: "Alarms"}, alarmview.Open(p))
	case "all":
		f := kit.Filter{Label: "Filter alarms", Placeholder: "state:open severity:critical object:web*"}
		p := &alarmview.ListPage{List: s.NewList(c, "alarms", "-raised", alarmview.Columns, f), Actor: a, Now: time.Now()}
		if p.Alarms, err = render.FillList(c, a, &p.List, render.QueryFromURL(c), s.Control.ListAlarms); err != nil {
			return err
		}
		return s.ShowList(c, a, shell.PageLayout{Title: "Alarms"}, p.List, alarmview.List(p))
	}
	return fleet.Errorf(fleet.NotFound, "The list of alarms has no such view.")
}

func (s *Site) openAlarms(ctx context.Context, a fleet.Actor) (p alarmview.OpenPage, err error) {
	p = alarmview.OpenPage{Actor: a, Now: time.Now()}
	if p.Groups, p.More, err = s.Control.AlarmGroups(ctx, a); err != nil {
		return p, err
	}
	p.Counts, err = s.Control.AlarmCounts(ctx, a)
	return p, err
}

// ExportAlarms sends the list of alarms as CSV.
func (s *Site) ExportAlarms(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "alarms.csv", render.QueryFromURL(c), s.Control.ListAlarms, alarmview.CSV)
}

// AlarmPage shows one alarm.
func (s *Site) AlarmPage(c echo.Context, a fleet.Actor) error {
	v, err := s.Control.GetAlarm(c.Request().Context(), a, fleet.AlarmID(c.Param("id")))
	if err != nil {
		return err
	}
	p := alarmview.Page{Actor: a, Link: render.LinkToCurrentPage(c), Alarm: v, Now: time.Now()}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Alarm"}, alarmview.AlarmPage(p))
}

// alarmForm names one alarm or a group, and holds the fields of the dialogs.
type alarmForm struct {
	ID    string `form:"id"`
	Rule  string `form:"rule"`
	Cause string `form:"cause"`
	Note  string `form:"note"`
	For   string `form:"for"`
}

func (in alarmForm) selection() alarms.AlarmSelection {
	return alarms.AlarmSelection{ID: fleet.AlarmID(in.ID), RuleID: fleet.AlarmRuleID(in.Rule), Cause: in.Cause}
}

// shownSelection returns the selection for a dialog. Without a typed form, the address names it.
func (s *Site) shownSelection(c echo.Context, a fleet.Actor, in alarmForm, how form.Display) (alarmview.Selection, error) {
	if !how.WasRefused() {
		in.ID, in.Rule, in.Cause = c.QueryParam("id"), c.QueryParam("rule"), c.QueryParam("cause")
	}
	out := alarmview.Selection{ID: fleet.AlarmID(in.ID), RuleID: fleet.AlarmRuleID(in.Rule), Cause: in.Cause, Note: in.Note, For: cmp.Or(in.For, "14400"), Text: in.Cause, Errors: how.Errors}
	if in.ID != "" {
		v, err := s.Control.GetAlarm(c.Request().Context(), a, out.ID)
		out.Text = v.SubjectName + ": " + v.Text
		return out, err
	}
	return out, nil
}

func (s *Site) ShowAcknowledgeForm(c echo.Context, a fleet.Actor, in alarmForm, how form.Display) error {
	which, err := s.shownSelection(c, a, in, how)
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "Acknowledge"}, alarmview.AcknowledgeDialog(which))
}

func (s *Site) AcknowledgeAlarms(c echo.Context, a fleet.Actor, in alarmForm) (form.Response, error) {
	n, err := s.Control.AcknowledgeAlarms(c.Request().Context(), a, in.selection(), strings.TrimSpace(in.Note))
	return form.StayOnPage("/alarms", "Acknowledged "+kit.CountText(n, "alarm")+"."), err
}

func (s *Site) ShowSilenceForm(c echo.Context, a fleet.Actor, in alarmForm, how form.Display) error {
	which, err := s.shownSelection(c, a, in, how)
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "Silence"}, alarmview.SilenceDialog(which))
}

func (s *Site) SilenceAlarms(c echo.Context, a fleet.Actor, in alarmForm) (form.Response, error) {
	seconds, err := strconv.Atoi(in.For)
	if err != nil || !alarmview.HasSilence(in.For) {
		var checks fleet.Checks
		checks.Add("until", "Choose a duration.")
		return nil, checks.Err()
	}
	n, err := s.Control.SilenceAlarms(c.Request().Context(), a, in.selection(), time.Now().Add(time.Duration(seconds)*time.Second))
	return form.StayOnPage("/alarms", "Silenced "+kit.CountText(n, "alarm")+"."), err
}

func (s *Site) UnsilenceAlarms(c echo.Context, a fleet.Actor, in alarmForm) (form.Response, error) {
	n, err := s.Control.SilenceAlarms(c.Request().Context(), a, in.selection(), time.Time{})
	return form.StayOnPage("/alarms", "Ended the silence of "+kit.CountText(n, "alarm")+"."), err
}

func (s *Site) ListAlarmRules(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter alarm rules", Placeholder: "severity:critical enabled:yes name:host*"}
	p := &alarmview.RuleListPage{List: s.NewList(c, "alarm-rules", "name", alarmview.RuleColumns, f), Actor: a}
	if p.Rules, err = render.FillList(c, a, &p.List, render.QueryFromURL(c), s.Control.ListAlarmRules); err != nil {
		return err
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Alarm rules"}, p.List, alarmview.RuleList(p))
}

// ExportAlarmRules sends the list of alarm rules as CSV.
func (s *Site) ExportAlarmRules(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "alarm-rules.csv", render.QueryFromURL(c), s.Control.ListAlarmRules, alarmview.RuleCSV)
}

// scopeNames returns the clusters and projects that a rule's scope can name.
func (s *Site) scopeNames(ctx context.Context, a fleet.Actor) (out alarmview.ScopeNames, err error) {
	clusters, err := s.Control.AllClusters(ctx, a)
	if err != nil {
		return out, err
	}
	for _, v := range clusters {
		out.Clusters = append(out.Clusters, kit.Option{Value: string(v.ID), Text: v.Name})
	}
	projects, err := query.ReadAllPages(ctx, a, fleet.Query{}, s.Control.ListProjects)
	for _, v := range projects {
		out.Projects = append(out.Projects, kit.Option{Value: string(v.ID), Text: v.Name})
	}
	return out, err
}

type alarmRuleForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	Enabled     bool   `form:"enabled"`
	Severity    string `form:"severity"`
	Condition   string `form:"condition"`
	Threshold   string `form:"threshold"`
	Critical    string `form:"critical"`
	Clear       string `form:"clear"`
	Below       bool   `form:"below"`
	ForMinutes  string `form:"forMinutes"`
	Cluster     string `form:"cluster"`
	Project     string `form:"project"`
	Labels      string `form:"labels"`
	Subject     string `form:"subject"`
	Generation  string `form:"generation"`
}

func parseAlarmNumber(text string) (*float64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", "."), 64)
	if err != nil {
		return nil, fleet.Errorf(fleet.Invalid, "Enter a number, such as 90 or 0.5.")
	}
	return &v, nil
}

// input parses the form.
func (in alarmRuleForm) input() (alarms.AlarmRuleInput, error) {
	var checks fleet.Checks
	spec := fleet.AlarmRuleSpec{
		Description: in.Description, Disabled: !in.Enabled, Severity: fleet.AlarmSeverity(in.Severity),
		Threshold: form.ParseField(&checks, "spec.threshold", in.Threshold, parseAlarmNumber),
		Critical:  form.ParseField(&checks, "spec.critical", in.Critical, parseAlarmNumber),
		Clear:     form.ParseField(&checks, "spec.clear", in.Clear, parseAlarmNumber),
		Scope: fleet.AlarmScope{
			ClusterID: fleet.ClusterID(in.Cluster), ProjectID: fleet.ProjectID(in.Project), Labels: strings.TrimSpace(in.Labels), Subject: fleet.Subject(strings.TrimSpace(in.Subject)),
		},
	}
	if minutes := form.ParseField(&checks, "spec.forSeconds", in.ForMinutes, parseAlarmNumber); minutes != nil {
		spec.ForSeconds = int(min(max(*minutes*60, -1), 1<<30))
	}
	spec.Condition, spec.Metric = alarmview.ParseCondition(in.Condition)
	if spec.Metric != nil {
		spec.Metric.Below = in.Below
	}
	if c, ok := fleet.AlarmConditionOf(spec.Condition); ok && c.Unit == "" {
		spec.Threshold, spec.Critical, spec.Clear = nil, nil, nil // the form hides these fields
	}
	return alarms.AlarmRuleInput{Name: strings.TrimSpace(in.Name), Spec: spec, IfGeneration: form.ParseGeneration(in.Generation)}, checks.Err()
}

// typed returns the form as typed.
func (in alarmRuleForm) typed(errs kit.Errors) alarmview.RuleForm {
	return alarmview.RuleForm{
		Name: in.Name, Description: in.Description, Severity: in.Severity, Condition: in.Condition, Threshold: in.Threshold, Critical: in.Critical, Clear: in.Clear,
		Below: in.Below, Disabled: !in.Enabled, ForMinutes: in.ForMinutes, Cluster: in.Cluster, Project: in.Project, Labels: in.Labels, Subject: in.Subject,
		Generation: form.ParseGeneration(in.Generation), Errors: errs,
	}
}

// ShowNewAlarmRuleForm shows the form of a new rule.
func (s *Site) ShowNewAlarmRuleForm(c echo.Context, a fleet.Actor, in alarmRuleForm, how form.Display) (err error) {
	p := alarmview.RulePage{Actor: a, Form: in.typed(how.Errors)}
	if !how.WasRefused() {
		p.Form = alarmview.NewRuleForm(fleet.AlarmRule{Spec: fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "pool.full"}})
	}
	if p.Names, err = s.scopeNames(c.Request().Context(), a); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New alarm rule"}, alarmview.RuleFormPage(p))
}

func (s *Site) CreateAlarmRule(c echo.Context, a fleet.Actor, in alarmRuleForm) (form.Response, error) {
	want, err := in.input()
	if err != nil {
		return nil, err
	}
	_, err = s.Control.CreateAlarmRule(c.Request().Context(), a, want)
	return form.RedirectTo("/alarm-rules"), err
}

func alarmRuleLayout(v fleet.AlarmRuleView) shell.PageLayout { return shell.PageLayout{Title: v.Name} }

// AlarmRulePage shows the form of a rule.
func (s *Site) AlarmRulePage(c echo.Context, a fleet.Actor) error {
	return s.ShowAlarmRuleForm(c, a, alarmRuleForm{}, form.FirstDisplay)
}

// ShowAlarmRuleForm shows the form of a rule, as stored or as typed.
func (s *Site) ShowAlarmRuleForm(c echo.Context, a fleet.Actor, in alarmRuleForm, how form.Display) error {
	ctx := c.Request().Context()
	v, err := s.Control.GetAlarmRule(ctx, a, fleet.AlarmRuleID(c.Param("id")))
	if err != nil {
		return err
	}
	p := alarmview.RulePage{Actor: a, Rule: v, Form: in.typed(how.Errors)}
	if !how.WasRefused() {
		p.Form = alarmview.NewRuleForm(v.AlarmRule)
	}
	if p.Names, err = s.scopeNames(ctx, a); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, alarmRuleLayout(v), alarmview.RuleFormPage(p))
}

func (s *Site) EditAlarmRule(c echo.Context, a fleet.Actor, in alarmRuleForm) (form.Response, error) {
	want, err := in.input()
	if err != nil {
		return nil, err
	}
	id := fleet.AlarmRuleID(c.Param("id"))
	_, err = s.Control.UpdateAlarmRule(c.Request().Context(), a, id, want)
	return form.RedirectTo(views.AlarmRulePath(id)), err
}

func (s *Site) ConfirmDeleteAlarmRule() form.Renderer[form.EmptyForm] {
	return form.ConfirmDialog(s.Renderer, s.Control.GetAlarmRule, alarmRuleLayout, alarmview.DeleteRuleDialog)
}

func (s *Site) DeleteAlarmRule(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/alarm-rules"), s.Control.DeleteAlarmRule(c.Request().Context(), a, fleet.AlarmRuleID(c.Param("id")))
}

// alarmsOf returns the open alarms of an object for its page.
func (s *Site) alarmsOf(c echo.Context, a fleet.Actor, subject fleet.Subject) ([]fleet.Alarm, error) {
	return s.Control.AlarmsOf(c.Request().Context(), a, subject)
}
