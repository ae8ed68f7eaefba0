package pages

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/channel"
	"quantix/internal/control/channels"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	alarmview "quantix/views/alarm"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/form"
)

// ListChannels shows the channels that the actor may see.
func (s *Site) ListChannels(c echo.Context, a fleet.Actor) error {
	all, err := s.Control.ListChannels(c.Request().Context(), a)
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Channels"}, alarmview.Channels(alarmview.ChannelsPage{Actor: a, Channels: all, Now: time.Now()}))
}

// channelForm is a submitted form of a channel.
type channelForm struct {
	Name           string `form:"name"`
	Owner          string `form:"owner"`
	Kind           string `form:"kind"`
	URL            string `form:"url"`
	Secret         string `form:"secret"`
	To             string `form:"to"`
	Enabled        bool   `form:"enabled"`
	Severity       string `form:"severity"`
	Rule           string `form:"rule"`
	Project        string `form:"project"`
	Raised         bool   `form:"raised"`
	Escalated      bool   `form:"escalated"`
	Acknowledged   bool   `form:"acknowledged"`
	Cleared        bool   `form:"cleared"`
	Requests       bool   `form:"requests"`
	Digest         string `form:"digest"`
	QuietFrom      string `form:"quietFrom"`
	QuietTo        string `form:"quietTo"`
	TimeZone       string `form:"timeZone"`
	CriticalAtOnce bool   `form:"criticalAtOnce"`
	Generation     string `form:"generation"`
}

func parseMinutes(text string) (int, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fleet.Errorf(fleet.Invalid, "Enter a whole number of minutes, such as 15.")
	}
	return n, nil
}

// input parses the form. had is the spec before, whose several rules and projects the form can keep.
func (in channelForm) input(a fleet.Actor, had channel.Spec) (channels.ChannelInput, error) {
	var checks fleet.Checks
	spec := channel.Spec{
		Kind: channel.Kind(in.Kind), Disabled: !in.Enabled, Severity: fleet.AlarmSeverity(in.Severity), CriticalAtOnce: in.CriticalAtOnce,
		DigestMinutes: form.ParseField(&checks, "spec.digestMinutes", in.Digest, parseMinutes),
		Rules:         chosen(in.Rule, had.Rules), Projects: chosen(in.Project, had.Projects),
	}
	if spec.Kind == channel.Email {
		spec.To = strings.FieldsFunc(in.To, func(r rune) bool { return strings.ContainsRune(" \t\r\n,;", r) })
	} else {
		spec.URL = strings.TrimSpace(in.URL)
	}
	if spec.Kind == channel.Webhook {
		spec.Secret = strings.TrimSpace(in.Secret)
	}
	for _, e := range []struct {
		kind fleet.AlarmEventKind
		on   bool
	}{{fleet.AlarmRaised, in.Raised}, {fleet.AlarmEscalated, in.Escalated}, {fleet.AlarmAcknowledged, in.Acknowledged}, {fleet.AlarmCleared, in.Cleared}, {channel.RequestOpened, in.Requests}, {channel.RequestDecided, in.Requests}} {
		if e.on {
			spec.Events = append(spec.Events, e.kind)
		}
	}
	if len(spec.Events) == 0 {
		checks.Add("spec.events", "Choose at least one event.")
	}
	if in.QuietFrom != "" || in.QuietTo != "" {
		spec.Quiet = &channel.QuietHours{From: strings.TrimSpace(in.QuietFrom), To: strings.TrimSpace(in.QuietTo), TimeZone: strings.TrimSpace(in.TimeZone)}
	}
	out := channels.ChannelInput{Name: strings.TrimSpace(in.Name), Spec: spec, IfGeneration: form.ParseGeneration(in.Generation)}
	switch in.Owner {
	case alarmview.OwnerSelf:
		out.UserID = a.UserID
	case alarmview.OwnerFleet:
	default:
		out.ProjectID = fleet.ProjectID(in.Owner)
	}
	if out.ProjectID != "" || out.UserID != "" {
		out.Spec.Projects = nil // the form hides the field
	}
	return out, checks.Err()
}

// chosen returns the objects that a choice of the form names.
func chosen[T ~string](value string, had []T) []T {
	switch value {
	case "":
		return nil
	case alarmview.KeepListed:
		return slices.Clone(had)
	}
	return []T{T(value)}
}

// typed returns the form as typed, without the signing key.
func (in channelForm) typed(errs kit.Errors) alarmview.ChannelForm {
	return alarmview.ChannelForm{
		Name: in.Name, Owner: in.Owner, Kind: in.Kind, URL: in.URL, To: in.To, Raised: in.Raised, Escalated: in.Escalated, Acknowledged: in.Acknowledged, Cleared: in.Cleared, Requests: in.Requests,
		Severity: in.Severity, Rule: in.Rule, Project: in.Project, Digest: in.Digest, QuietFrom: in.QuietFrom, QuietTo: in.QuietTo, TimeZone: in.TimeZone,
		CriticalAtOnce: in.CriticalAtOnce, Disabled: !in.Enabled, Generation: form.ParseGeneration(in.Generation), Errors: errs,
	}
}

// fillChoices reads what the form of a channel offers.
func (s *Site) fillChoices(ctx context.Context, a fleet.Actor, p *alarmview.ChannelPage) (err error) {
	if p.Kinds, p.WhyNoMail, err = s.Control.ChannelKinds(ctx, a); err != nil {
		return err
	}
	projects, err := query.ReadAllPages(ctx, a, fleet.Query{}, s.Control.ListProjects)
	if err != nil {
		return err
	}
	for _, v := range projects {
		p.Projects = append(p.Projects, kit.Option{Value: string(v.ID), Text: v.Name})
	}
	p.Owners = alarmview.ChannelOwners(a, p.Projects)
	if !policy.May(a, policy.InfraSee, "") {
		p.Projects = nil
		return nil
	}
	rules, err := query.ReadAllPages(ctx, a, fleet.Query{}, s.Control.ListAlarmRules)
	for _, v := range rules {
		p.Rules = append(p.Rules, kit.Option{Value: string(v.ID), Text: v.Name})
	}
	return err
}

// ShowNewChannelForm shows the form of a new channel.
func (s *Site) ShowNewChannelForm(c echo.Context, a fleet.Actor, in channelForm, how form.Display) error {
	p := alarmview.ChannelPage{Form: in.typed(how.Errors)}
	if !how.WasRefused() {
		p.Form = alarmview.NewChannelForm(channel.Channel{Spec: channel.Spec{Kind: channel.Webhook}})
	}
	if err := s.fillChoices(c.Request().Context(), a, &p); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New channel"}, alarmview.ChannelFormPage(p))
}

func (s *Site) CreateChannel(c echo.Context, a fleet.Actor, in channelForm) (form.Response, error) {
	want, err := in.input(a, channel.Spec{})
	if err != nil {
		return nil, err
	}
	v, err := s.Control.CreateChannel(c.Request().Context(), a, want)
	return form.RedirectTo(views.ChannelPath(v.ID)), err
}

func channelLayout(v channel.Channel) shell.PageLayout { return shell.PageLayout{Title: v.Name} }

// ChannelPage shows a channel with its messages and its form.
func (s *Site) ChannelPage(c echo.Context, a fleet.Actor) error {
	return s.ShowChannelForm(c, a, channelForm{}, form.FirstDisplay)
}

// ShowChannelForm shows the page of a channel, with the form as stored or as typed.
func (s *Site) ShowChannelForm(c echo.Context, a fleet.Actor, in channelForm, how form.Display) error {
	ctx := c.Request().Context()
	id := channel.ID(c.Param("id"))
	v, err := s.Control.GetChannel(ctx, a, id)
	if err != nil {
		return err
	}
	p := alarmview.ChannelPage{Channel: v, Form: in.typed(how.Errors), WhyNot: channels.WhyChannelUnchangeable(a, v)}
	if !how.WasRefused() {
		p.Form = alarmview.NewChannelForm(v)
	}
	if p.Deliveries, err = s.Control.ListDeliveries(ctx, a, id); err != nil {
		return err
	}
	if err := s.fillChoices(ctx, a, &p); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, channelLayout(v), alarmview.ChannelFormPage(p))
}

func (s *Site) EditChannel(c echo.Context, a fleet.Actor, in channelForm) (form.Response, error) {
	ctx := c.Request().Context()
	id := channel.ID(c.Param("id"))
	had, err := s.Control.GetChannel(ctx, a, id)
	if err != nil {
		return nil, err
	}
	in.Owner = cmp.Or(string(had.ProjectID), alarmview.OwnerFleet)
	want, err := in.input(a, had.Spec)
	if err != nil {
		return nil, err
	}
	want.ProjectID, want.UserID = "", ""
	_, err = s.Control.UpdateChannel(ctx, a, id, want)
	return form.RedirectTo(views.ChannelPath(id)), err
}

func (s *Site) TestChannel(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	id := channel.ID(c.Param("id"))
	_, err := s.Control.TestChannel(c.Request().Context(), a, id)
	return form.StayOnPage(views.ChannelPath(id), "The test message is on its way."), err
}

func (s *Site) ConfirmDeleteChannel() form.Renderer[form.EmptyForm] {
	return form.ConfirmDialog(s.Renderer, s.Control.GetChannel, channelLayout, alarmview.DeleteChannelDialog)
}

func (s *Site) DeleteChannel(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/channels"), s.Control.DeleteChannel(c.Request().Context(), a, channel.ID(c.Param("id")))
}
