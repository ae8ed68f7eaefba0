package channel_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/channel"
	"quantix/internal/fleet"
)

func TestQuietHoursEndOnTheClockOfTheirTimeZone(t *testing.T) {
	t.Parallel()
	night := channel.QuietHours{From: "22:00", To: "07:00", TimeZone: "Europe/Berlin"}
	noon := channel.QuietHours{From: "12:00", To: "13:00"}
	for name, c := range map[string]struct {
		quiet     channel.QuietHours
		now, want string
	}{
		"before the night":      {night, "2026-11-29T20:59:59Z", "2026-11-29T20:59:59Z"},
		"in the evening":        {night, "2026-11-29T21:00:00Z", "2026-11-30T06:00:00Z"},
		"after midnight":        {night, "2026-11-30T05:59:59Z", "2026-11-30T06:00:00Z"},
		"at the end":            {night, "2026-11-30T06:00:00Z", "2026-11-30T06:00:00Z"},
		"a night one hour less": {night, "2026-03-28T23:00:00Z", "2026-03-29T05:00:00Z"},
		"a night one hour more": {night, "2026-10-24T21:00:00Z", "2026-10-25T06:00:00Z"},
		"at noon":               {noon, "2026-11-29T12:30:00Z", "2026-11-29T13:00:00Z"},
		"after noon":            {noon, "2026-11-29T13:00:00Z", "2026-11-29T13:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.quiet.End(now).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func event(kind fleet.AlarmEventKind, severity fleet.AlarmSeverity, object string) channel.Event {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	return channel.Event{
		Event: kind, At: at.Add(time.Minute), AlarmID: fleet.AlarmID("alarm-" + object), RuleID: "rule", Rule: "host-lost", Severity: severity, Subject: fleet.Subject("host:" + object), Object: object,
		Cause: "Its agent is offline.", Text: object + "'s agent is offline.", Remedy: "Start the agent.", RaisedAt: at,
	}
}

func TestMessageIsDueAfterDigestAndQuietHoursUnlessCritical(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 21, 50, 0, 0, time.UTC)
	s := channel.Spec{DigestMinutes: 30, Quiet: &channel.QuietHours{From: "22:00", To: "07:00"}, CriticalAtOnce: true}
	warning, critical := event(fleet.AlarmRaised, fleet.AlarmWarning, "a"), event(fleet.AlarmRaised, fleet.AlarmCritical, "a")
	if got, want := s.Due(warning, now), time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("a warning: %s, want %s", got, want)
	}
	if got, want := s.Due(critical, now), now.Add(10*time.Second); !got.Equal(want) {
		t.Errorf("a critical alarm: %s, want %s", got, want)
	}
	s.CriticalAtOnce = false
	if got := s.Due(critical, now); got.Hour() != 7 {
		t.Errorf("a critical alarm that waits: %s", got)
	}
	if got := (channel.Spec{}).Due(warning, now); !got.Equal(now.Add(10 * time.Second)) {
		t.Errorf("without digest and quiet hours: %s", got)
	}
}

func TestChannelWantsItsEventsOnly(t *testing.T) {
	t.Parallel()
	raised := event(fleet.AlarmRaised, fleet.AlarmWarning, "a")
	raised.Project = "p"
	for name, c := range map[string]struct {
		spec channel.Spec
		e    channel.Event
		want bool
	}{
		"the default":                 {channel.Spec{}, raised, true},
		"no acknowledgement":          {channel.Spec{}, event(fleet.AlarmAcknowledged, fleet.AlarmWarning, "a"), false},
		"a wanted acknowledgement":    {channel.Spec{Events: []fleet.AlarmEventKind{fleet.AlarmAcknowledged}}, event(fleet.AlarmAcknowledged, fleet.AlarmWarning, "a"), true},
		"a silence":                   {channel.Spec{}, event(fleet.AlarmSilenced, fleet.AlarmWarning, "a"), false},
		"a lower severity":            {channel.Spec{Severity: fleet.AlarmCritical}, raised, false},
		"the severity itself":         {channel.Spec{Severity: fleet.AlarmWarning}, raised, true},
		"another rule":                {channel.Spec{Rules: []fleet.AlarmRuleID{"other"}}, raised, false},
		"the project":                 {channel.Spec{Projects: []fleet.ProjectID{"p"}}, raised, true},
		"an object without a project": {channel.Spec{Projects: []fleet.ProjectID{"p"}}, event(fleet.AlarmRaised, fleet.AlarmWarning, "a"), false},
	} {
		if got := c.spec.Wants(c.e); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestInvalidChannelsAreRefusedAtTheirField(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0", 8) + "-0000-7000-8000-000000000001"
	hook := channel.Spec{Kind: channel.Webhook, URL: "https://hooks.example.org/x"}
	for name, c := range map[string]struct {
		change func(*channel.Spec)
		owned  bool
		field  string
	}{
		"valid":                        {func(*channel.Spec) {}, false, ""},
		"no kind":                      {func(s *channel.Spec) { s.Kind = "" }, false, "spec.kind"},
		"no address":                   {func(s *channel.Spec) { s.URL = "" }, false, "spec.url"},
		"a file":                       {func(s *channel.Spec) { s.URL = "file:///etc/passwd" }, false, "spec.url"},
		"a fragment":                   {func(s *channel.Spec) { s.URL += "#a" }, false, "spec.url"},
		"a line break":                 {func(s *channel.Spec) { s.URL += "\nHost: a" }, false, "spec.url"},
		"text from right to left":      {func(s *channel.Spec) { s.URL = "https://hooks.example.org\u202e/x" }, false, "spec.url"},
		"an event many times":          {func(s *channel.Spec) { s.Events = slices.Repeat(channel.AllEvents, 1000) }, false, "spec.events"},
		"a short key":                  {func(s *channel.Spec) { s.Secret = "short" }, false, "spec.secret"},
		"a key of a chat":              {func(s *channel.Spec) { s.Kind, s.Secret = channel.Slack, strings.Repeat("k", 20) }, false, "spec.secret"},
		"an address of a person":       {func(s *channel.Spec) { s.To = []string{"a@example.org"} }, false, "spec.to"},
		"an unknown event":             {func(s *channel.Spec) { s.Events = []fleet.AlarmEventKind{"silenced"} }, false, "spec.events"},
		"an unknown severity":          {func(s *channel.Spec) { s.Severity = "loud" }, false, "spec.severity"},
		"a rule's name":                {func(s *channel.Spec) { s.Rules = []fleet.AlarmRuleID{"host-lost"} }, false, "spec.rules"},
		"a project of a fleet channel": {func(s *channel.Spec) { s.Projects = []fleet.ProjectID{fleet.ProjectID(id)} }, false, ""},
		"a project of a user":          {func(s *channel.Spec) { s.Projects = []fleet.ProjectID{fleet.ProjectID(id)} }, true, "spec.projects"},
		"a digest of two days":         {func(s *channel.Spec) { s.DigestMinutes = 2880 }, false, "spec.digestMinutes"},
		"an hour of 25":                {func(s *channel.Spec) { s.Quiet = &channel.QuietHours{From: "25:00", To: "07:00"} }, false, "spec.quiet.from"},
		"an empty night":               {func(s *channel.Spec) { s.Quiet = &channel.QuietHours{From: "07:00", To: "07:00"} }, false, "spec.quiet.to"},
		"a path as time zone": {func(s *channel.Spec) {
			s.Quiet = &channel.QuietHours{From: "22:00", To: "07:00", TimeZone: "../../etc/passwd"}
		}, false, "spec.quiet.timeZone"},
		"mail":           {func(s *channel.Spec) { *s = channel.Spec{Kind: channel.Email, To: []string{"ops@example.org"}} }, false, ""},
		"mail to nobody": {func(s *channel.Spec) { *s = channel.Spec{Kind: channel.Email} }, false, "spec.to"},
		"mail with a header": {func(s *channel.Spec) {
			*s = channel.Spec{Kind: channel.Email, To: []string{"a@example.org\r\nBcc: b@example.org"}}
		}, false, "spec.to"},
		"mail with a name": {func(s *channel.Spec) { *s = channel.Spec{Kind: channel.Email, To: []string{"Ann <a@example.org>"}} }, false, "spec.to"},
	} {
		s := hook
		c.change(&s)
		var checks fleet.Checks
		s.Check(&checks, !c.owned)
		var got string
		if err, ok := errors.AsType[*fleet.Error](checks.Err()); ok {
			got = err.Fields[0].Field
		}
		if got != c.field {
			t.Errorf("%s: refused at %q, want %q", name, got, c.field)
		}
	}
}

func TestManyAlarmsOfOneCauseAreOneParagraph(t *testing.T) {
	t.Parallel()
	var m channel.Message
	for i := range 10_000 {
		m.Add(event(fleet.AlarmRaised, fleet.AlarmCritical, fmt.Sprintf("host-%d", i)))
	}
	m.Add(event(fleet.AlarmCleared, fleet.AlarmCritical, "late"))
	if len(m.Events) != 200 || m.More != 9801 {
		t.Errorf("%d events, %d omitted", len(m.Events), m.More)
	}
	want := `Critical: host-0, host-1, host-2, host-3, host-4 and 195 more: Its agent is offline.
  Remedy: Start the agent.
  Rule: host-lost
  Since: 2026-11-29 12:00:00 UTC

9801 further events are not listed.

https://q.example/alarms
`
	if diff := cmp.Diff(want, m.Text("ops", "https://q.example")); diff != "" {
		t.Error(diff)
	}
	if got := m.Summary(); len(got) > 200 || !strings.HasPrefix(got, "Critical: host-0") {
		t.Errorf("summary %q", got)
	}
}

func TestBodiesOfEachKindAreBoundedJSON(t *testing.T) {
	t.Parallel()
	var m channel.Message
	for i := range 300 {
		e := event(fleet.AlarmRaised, fleet.AlarmWarning, fmt.Sprintf("vm-%d", i))
		e.Cause, e.Text, e.Remedy = fmt.Sprintf("cause %d <!channel> & *bold*", i), strings.Repeat("é", 2000), strings.Repeat("r\n", 1000)
		m.Add(e)
	}
	for _, k := range channel.Kinds() {
		if k.Kind == channel.Email {
			continue
		}
		body, err := m.Body(k.Kind, channel.Envelope{ID: "id", Channel: "ops", At: time.Now(), Portal: "https://q.example"})
		if err != nil || !json.Valid(body) || len(body) > 4<<20 {
			t.Errorf("%s: %d bytes, %v", k.Kind, len(body), err)
		}
		if chat := k.Kind == channel.Slack || k.Kind == channel.Teams; chat && len(body) > 16_000 {
			t.Errorf("%s: %d bytes are too many for a chat", k.Kind, len(body))
		}
		if k.Kind == channel.Slack && strings.Contains(string(body), "<!channel>") {
			t.Error("an alarm's text mentions all people of a chat")
		}
	}
}

func TestAlertmanagerGetsBeginAndEndOfAlerts(t *testing.T) {
	t.Parallel()
	read := func(e channel.Event) (out []struct {
		Labels           map[string]string
		StartsAt, EndsAt time.Time
	},
	) {
		var m channel.Message
		m.Add(e)
		body, err := m.Body(channel.Alertmanager, channel.Envelope{})
		if err == nil {
			err = json.Unmarshal(body, &out)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	raised, cleared := read(event(fleet.AlarmRaised, fleet.AlarmWarning, "a"))[0], read(event(fleet.AlarmCleared, fleet.AlarmWarning, "a"))[0]
	if diff := cmp.Diff(raised.Labels, cleared.Labels); diff != "" || !cleared.EndsAt.Equal(event(fleet.AlarmCleared, "", "").At) || raised.EndsAt.Before(raised.StartsAt.AddDate(0, 0, 29)) {
		t.Errorf("raised %v, cleared %v", raised, cleared)
	}
	ends := map[string]bool{}
	for _, a := range read(event(fleet.AlarmEscalated, fleet.AlarmCritical, "a")) {
		ends[a.Labels["severity"]] = a.EndsAt.Equal(event(fleet.AlarmEscalated, "", "").At)
	}
	if diff := cmp.Diff(map[string]bool{"critical": false, "warning": true, "info": true}, ends); diff != "" {
		t.Errorf("ended alerts after a change of severity: %s", diff)
	}
	if got := read(event(fleet.AlarmAcknowledged, fleet.AlarmWarning, "a")); len(got) != 0 {
		t.Errorf("an acknowledgement changes alerts: %v", got)
	}
}

func TestTargetsContainNoSecrets(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://hooks.slack.example/services/T0/B0/secret": "https://hooks.slack.example/…",
		"https://user:secret@hooks.example/":                "https://hooks.example",
		"http://alertmanager:9093":                          "http://alertmanager:9093",
		"https://hooks.example/?token=secret":               "https://hooks.example/…",
	} {
		if got := (channel.Spec{Kind: channel.Webhook, URL: address}).TargetOf(); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

func TestNamesAndNotesCannotForgeMessages(t *testing.T) {
	t.Parallel()
	var m channel.Message
	e := event(fleet.AlarmAcknowledged, fleet.AlarmWarning, "vm\r\n*Critical: all hosts\u202e @Channel [x](http://evil.example)")
	e.Cause, e.Text, e.Actor, e.Note = e.Object, e.Object, "bob", "a\r\x1b[31m\u2066 <!here> @all"
	m.Add(e)
	for _, k := range channel.Kinds() {
		if k.Kind == channel.Webhook {
			continue // programs escape names themselves
		}
		text := m.Summary() + m.Text("ops", "")
		if k.Kind != channel.Email {
			body, err := m.Body(k.Kind, channel.Envelope{ID: "id", Channel: "ops", At: time.Now()})
			var decoded any
			if err != nil || json.Unmarshal(body, &decoded) != nil {
				t.Fatal(err)
			}
			text = fmt.Sprint(decoded)
		}
		if strings.ContainsAny(text, "\r\x1b\u202e\u2066") || strings.Contains(text, "\n*Critical") {
			t.Errorf("%s: %q", k.Kind, text)
		}
		if k.Kind == channel.Slack && (strings.Contains(text, "@Channel") || strings.Contains(text, "@all") || strings.Contains(text, "<!") || strings.Contains(text, "](")) {
			t.Errorf("%s: %q", k.Kind, text)
		}
	}
}
