// Package channel has the types and rules of notification channels: the alarms that a channel sends, the time, and the
// words. It is pure: no clock, no database, no network.
package channel

import (
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"quantix/internal/fleet"
)

// ID identifies a channel.
type ID string

// DeliveryID identifies one message of a channel. It ascends with time.
type DeliveryID string

// Kind is how a channel sends.
type Kind string

const (
	Webhook      Kind = "webhook"
	Slack        Kind = "slack"
	Teams        Kind = "teams"
	Alertmanager Kind = "alertmanager"
	Email        Kind = "email"
)

// KindInfo describes a kind for people.
type KindInfo struct {
	Kind Kind
	Text string
	Hint string // what the address is
}

var kinds = []KindInfo{
	{Webhook, "Webhook", "Receives a POST request with JSON."},
	{Slack, "Slack-compatible webhook", "The incoming webhook of Slack, Mattermost or Rocket.Chat."},
	{Teams, "Microsoft Teams", "The address of the workflow that posts to a Teams channel when it receives a webhook request."},
	{Alertmanager, "Prometheus Alertmanager", "The address of Alertmanager, such as http://alertmanager:9093."},
	{Email, "E-mail", ""},
}

// Kinds returns all kinds.
func Kinds() []KindInfo { return slices.Clone(kinds) }

// Info describes the kind; the zero value for an unknown kind.
func (k Kind) Info() KindInfo {
	if i := slices.IndexFunc(kinds, func(i KindInfo) bool { return i.Kind == k }); i >= 0 {
		return kinds[i]
	}
	return KindInfo{}
}

// Channel sends notifications of alarms to one receiver. A channel with a project sends the alarms of the project's
// objects. A channel with a user sends the alarms that the user may see. Any other channel is for the fleet.
type Channel struct {
	ID          ID              `json:"id"`
	Name        string          `json:"name"`
	ProjectID   fleet.ProjectID `json:"projectId,omitempty"`
	ProjectName string          `json:"projectName,omitempty"`
	UserID      fleet.UserID    `json:"userId,omitempty"`
	UserName    string          `json:"userName,omitempty"`
	Spec        Spec            `json:"spec"`             // without URL and Secret
	Target      string          `json:"target"`           // the receiver without secrets: "https://hooks.example.org/…"
	Signed      bool            `json:"signed,omitempty"` // requests are signed
	Generation  int64           `json:"generation"`
	CreatedAt   time.Time       `json:"createdAt"`
	Waiting     int             `json:"waiting"`              // messages that are not yet sent
	LastSentAt  *time.Time      `json:"lastSentAt,omitempty"` // nil: nothing was sent
	LastError   string          `json:"lastError,omitempty"`  // of the newest message; empty: it was sent
}

// Spec is the configuration of a channel by users.
type Spec struct {
	Kind     Kind `json:"kind"`
	Disabled bool `json:"disabled,omitempty"`
	// URL and Secret are encrypted when stored, and never returned. A change without them keeps them.
	URL    string   `json:"url,omitempty" doc:"Address of the receiver; write only"`
	Secret string   `json:"secret,omitempty" doc:"Key of the signature of webhook requests; write only"`
	To     []string `json:"to,omitempty" doc:"E-mail addresses"`

	Events   []fleet.AlarmEventKind `json:"events,omitempty" doc:"raised, severity, acknowledged, cleared, request.opened, request.decided; without it: all but acknowledged, and those of requests only if neither severity nor rules are set"`
	Severity fleet.AlarmSeverity    `json:"severity,omitempty" doc:"Lowest severity of alarms; without it: all"`
	Rules    []fleet.AlarmRuleID    `json:"rules,omitempty" doc:"Rules of alarms; without it: all"`
	Projects []fleet.ProjectID      `json:"projects,omitempty" doc:"Projects of alarms, only of a channel of the fleet; without it: all"`

	// Messages wait for the end of the quiet hours, and are collected for DigestMinutes.
	DigestMinutes  int         `json:"digestMinutes,omitempty" doc:"How long notifications are collected into one message; 0: 10 seconds"`
	Quiet          *QuietHours `json:"quiet,omitempty"`
	CriticalAtOnce bool        `json:"criticalAtOnce,omitempty" doc:"Critical alarms wait neither for the digest nor for the end of the quiet hours"`
}

// QuietHours is a time of each day when a channel sends nothing.
type QuietHours struct {
	From     string `json:"from" doc:"Begin, such as 22:00"`
	To       string `json:"to" doc:"End, such as 07:00"`
	TimeZone string `json:"timeZone,omitempty" doc:"Such as Europe/Berlin; without it: UTC"`
}

// DefaultEvents are the events of alarms that a channel without Events sends.
var DefaultEvents = []fleet.AlarmEventKind{fleet.AlarmRaised, fleet.AlarmEscalated, fleet.AlarmCleared}

// AllEvents are the events that a channel can send.
var AllEvents = []fleet.AlarmEventKind{fleet.AlarmRaised, fleet.AlarmEscalated, fleet.AlarmAcknowledged, fleet.AlarmCleared, RequestOpened, RequestDecided}

const (
	maxURL         = 2000
	minSecret      = 16
	maxSecret      = 200
	maxReceivers   = 20
	maxListed      = 200 // rules or projects
	maxDigest      = 24 * 60
	clockFormat    = "15:04"
	alertmanagerV2 = "/api/v2/alerts"
)

// Check adds an error for each invalid field of a channel. ofFleet: the channel has neither a project nor a user.
func (s Spec) Check(c *fleet.Checks, ofFleet bool) {
	if s.Kind.Info().Kind == "" {
		c.Add("spec.kind", "Choose a kind of channel: webhook, slack, teams, alertmanager or email.")
		return
	}
	s.checkReceiver(c)
	if len(s.Events) > len(AllEvents) {
		c.Add("spec.events", "List each event once.")
	}
	for _, e := range s.Events {
		if !slices.Contains(AllEvents, e) {
			c.Add("spec.events", "%q is no event that a channel sends. Choose raised, severity, acknowledged or cleared.", e)
			break
		}
	}
	if s.Severity != "" && severityRank(s.Severity) < 0 {
		c.Add("spec.severity", "Choose critical, warning or info.")
	}
	if len(s.Rules) > maxListed || slices.ContainsFunc(s.Rules, func(id fleet.AlarmRuleID) bool { return !fleet.IsID(string(id)) }) {
		c.Add("spec.rules", "List the UUIDs of at most %d alarm rules.", maxListed)
	}
	if len(s.Projects) > maxListed || slices.ContainsFunc(s.Projects, func(id fleet.ProjectID) bool { return !fleet.IsID(string(id)) }) {
		c.Add("spec.projects", "List the UUIDs of at most %d projects.", maxListed)
	} else if len(s.Projects) > 0 && !ofFleet {
		c.Add("spec.projects", "Only a channel of the fleet chooses projects.")
	}
	if s.DigestMinutes < 0 || s.DigestMinutes > maxDigest {
		c.Add("spec.digestMinutes", "Choose 0 to %d minutes.", maxDigest)
	}
	if s.Quiet != nil {
		s.Quiet.check(c)
	}
}

func (s Spec) checkReceiver(c *fleet.Checks) {
	if s.Kind == Email {
		if s.URL != "" || s.Secret != "" {
			c.Add("spec.url", "An e-mail channel has addresses in \"to\", and neither \"url\" nor \"secret\".")
		}
		if len(s.To) == 0 || len(s.To) > maxReceivers {
			c.Add("spec.to", "Enter 1 to %d e-mail addresses.", maxReceivers)
		}
		for _, to := range s.To {
			if a, err := mail.ParseAddress(to); err != nil || a.Address != to || len(to) > 254 || !fleet.IsPlainText(to) || strings.ContainsFunc(to, isInvisible) || strings.ContainsAny(to, " \"<>,;") {
				c.Add("spec.to", "%q is not an e-mail address, such as ops@example.org.", to[:min(len(to), 100)])
				break
			}
		}
		return
	}
	if len(s.To) > 0 {
		c.Add("spec.to", "Only an e-mail channel has e-mail addresses.")
	}
	if _, err := ParseURL(s.URL); err != nil {
		c.Add("spec.url", "%s", err.Error())
	}
	switch {
	case s.Secret == "":
	case s.Kind != Webhook:
		c.Add("spec.secret", "Only requests of a webhook are signed.")
	case len(s.Secret) < minSecret || len(s.Secret) > maxSecret || !fleet.IsPlainText(s.Secret):
		c.Add("spec.secret", "Enter a key of %d to %d characters.", minSecret, maxSecret)
	}
}

// ParseURL parses the address of a receiver, or returns why it is refused. Basic authentication is allowed, because the
// address is stored encrypted.
func ParseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case len(address) > maxURL:
		return nil, fleet.Errorf(fleet.Invalid, "An address has at most %d characters.", maxURL)
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http" || !fleet.IsPlainText(address) || strings.ContainsAny(address, " \\") || strings.ContainsFunc(address, isInvisible):
		return nil, fleet.Errorf(fleet.Invalid, "Enter the complete address, such as https://hooks.example.org/alarms.")
	case strings.Contains(address, "#"):
		return nil, fleet.Errorf(fleet.Invalid, "Remove the part from # on: receivers do not get it.")
	}
	return u, nil
}

func isInvisible(r rune) bool { return !unicode.IsGraphic(r) }

// PostURL returns the address to which a channel posts.
func (s Spec) PostURL() (*url.URL, error) {
	u, err := ParseURL(s.URL)
	if err == nil && s.Kind == Alertmanager && !strings.HasSuffix(u.Path, alertmanagerV2) {
		u = u.JoinPath(alertmanagerV2)
	}
	return u, err
}

// TargetOf names the receiver without secrets: paths, queries and passwords of addresses can be secret.
func (s Spec) TargetOf() string {
	if s.Kind == Email {
		if len(s.To) > 3 {
			return strings.Join(s.To[:3], ", ") + ", …"
		}
		return strings.Join(s.To, ", ")
	}
	u, err := ParseURL(s.URL)
	switch {
	case err != nil:
		return ""
	case strings.Trim(u.Path, "/") == "" && u.RawQuery == "":
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + "://" + u.Host + "/…"
}

func (q QuietHours) check(c *fleet.Checks) {
	from, err := time.Parse(clockFormat, q.From)
	if err != nil {
		c.Add("spec.quiet.from", "Enter a time, such as 22:00.")
	}
	to, failed := time.Parse(clockFormat, q.To)
	if failed != nil {
		c.Add("spec.quiet.to", "Enter a time, such as 07:00.")
	}
	if err == nil && failed == nil && from.Equal(to) {
		c.Add("spec.quiet.to", "The quiet hours must end at another time than they begin.")
	}
	if _, err := q.location(); err != nil {
		c.Add("spec.quiet.timeZone", "%q is not a time zone. Enter a name such as Europe/Berlin, or nothing for UTC.", q.TimeZone)
	}
}

func (q QuietHours) location() (*time.Location, error) {
	if q.TimeZone == "Local" || len(q.TimeZone) > 64 {
		return nil, fleet.Errorf(fleet.Invalid, "not a time zone")
	}
	return time.LoadLocation(q.TimeZone)
}

// End returns the end of the quiet hours that contain now; now outside the quiet hours. It goes by the clock on the wall:
// a change to or from daylight saving time makes them shorter or longer.
func (q QuietHours) End(now time.Time) time.Time {
	place, err := q.location()
	from, errFrom := time.Parse(clockFormat, q.From)
	to, errTo := time.Parse(clockFormat, q.To)
	if err != nil || errFrom != nil || errTo != nil {
		return now
	}
	local := now.In(place)
	at := func(day int, clock time.Time) time.Time {
		return time.Date(local.Year(), local.Month(), local.Day()+day, clock.Hour(), clock.Minute(), 0, 0, place)
	}
	for _, day := range []int{-1, 0} {
		begin, end := at(day, from), at(day, to)
		if !to.After(from) {
			end = at(day+1, to)
		}
		if !now.Before(begin) && now.Before(end) {
			return end
		}
	}
	return now
}

// DeliveryState is what became of a message.
type DeliveryState string

const (
	Waiting DeliveryState = "waiting" // for its time, or for another attempt
	Sent    DeliveryState = "sent"
	Failed  DeliveryState = "failed" // there is no further attempt
)

// Delivery is one message of a channel.
type Delivery struct {
	ID        DeliveryID    `json:"id"`
	ChannelID ID            `json:"channelId"`
	Summary   string        `json:"summary"`
	Events    int           `json:"events"` // number of events
	State     DeliveryState `json:"state"`
	CreatedAt time.Time     `json:"createdAt"`
	DueAt     time.Time     `json:"dueAt"` // of the next attempt
	Attempts  int           `json:"attempts"`
	Error     string        `json:"error,omitempty"` // of the newest attempt
	EndedAt   *time.Time    `json:"endedAt,omitempty"`
}
