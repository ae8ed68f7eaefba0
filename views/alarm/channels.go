package alarm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/channel"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

const channelsPath = "/channels"

// ChannelsPage is the list of channels.
type ChannelsPage struct {
	Actor    fleet.Actor
	Channels []channel.Channel
	Now      time.Time
}

func newChannelAction() kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New channel", Href: channelsPath + "/new"}
}

// ownerText names whose alarms a channel sends.
func ownerText(c channel.Channel) string {
	switch {
	case c.ProjectID != "":
		return "Project " + c.ProjectName
	case c.UserID != "":
		return "User " + c.UserName
	}
	return "Fleet"
}

// channelState describes whether a channel works.
func channelState(c channel.Channel) (class, icon, text string) {
	switch {
	case c.Spec.Disabled:
		return "muted", "circle-pause", "Disabled"
	case c.LastError != "":
		return "bad", "triangle-alert", "Failing"
	case c.LastSentAt != nil:
		return "ok", "circle-check", "Working"
	}
	return "muted", "circle-dashed", "Nothing sent yet"
}

// sendsText describes which alarms a channel sends, and when.
func sendsText(s channel.Spec) string {
	events := s.SentEvents()
	words := make([]string, 0, len(events))
	for _, e := range channel.AllEvents {
		if slices.Contains(events, e) {
			words = append(words, strings.ToLower(channel.EventText(e)))
		}
	}
	out := strings.Join(words, ", ")
	if s.Severity != "" && s.Severity != fleet.AlarmInfo {
		out += "; from " + strings.ToLower(severityText(s.Severity))
	}
	if n := len(s.Rules); n > 0 {
		out += "; " + kit.CountText(n, "rule")
	}
	if n := len(s.Projects); n > 0 {
		out += "; " + kit.CountText(n, "project")
	}
	if s.DigestMinutes > 0 {
		out += fmt.Sprintf("; digest of %d min", s.DigestMinutes)
	}
	if q := s.Quiet; q != nil {
		out += fmt.Sprintf("; quiet %s to %s", q.From, q.To)
	}
	return out
}

// ChannelPage shows the form of a new or existing channel, and the messages of an existing one.
type ChannelPage struct {
	Channel    channel.Channel // empty ID: a new channel
	Deliveries []channel.Delivery
	Form       ChannelForm
	Kinds      []channel.KindInfo
	WhyNoMail  string       // why e-mail is not possible; empty: it is
	Owners     []kit.Option // of a new channel
	Projects   []kit.Option // that a channel of the fleet can choose
	Rules      []kit.Option // that the actor can choose
	WhyNot     string       // why the actor may not change the channel; empty: may
}

// ChannelForm holds a channel as typed.
type ChannelForm struct {
	Name, Owner, Kind, URL, Secret, To       string
	Raised, Escalated, Acknowledged, Cleared bool
	Requests                                 bool
	Severity, Rule, Project                  string
	Digest, QuietFrom, QuietTo, TimeZone     string
	CriticalAtOnce, Disabled                 bool
	Generation                               int64
	Errors                                   kit.Errors
}

// Values of ChannelForm.Owner besides IDs of projects.
const (
	OwnerFleet = "fleet"
	OwnerSelf  = "self"
)

// KeepListed is the choice that keeps several rules or projects, which only the API can set.
const KeepListed = "keep"

// NewChannelForm returns the form of a channel.
func NewChannelForm(c channel.Channel) ChannelForm {
	s := c.Spec
	events := s.SentEvents()
	has := func(e fleet.AlarmEventKind) bool { return slices.Contains(events, e) }
	f := ChannelForm{
		Name: c.Name, Kind: string(s.Kind), To: strings.Join(s.To, "\n"), Raised: has(fleet.AlarmRaised), Escalated: has(fleet.AlarmEscalated), Acknowledged: has(fleet.AlarmAcknowledged),
		Cleared: has(fleet.AlarmCleared), Requests: has(channel.RequestOpened), Severity: string(s.Severity), CriticalAtOnce: s.CriticalAtOnce, Disabled: s.Disabled, Generation: c.Generation,
	}
	if s.DigestMinutes > 0 {
		f.Digest = strconv.Itoa(s.DigestMinutes)
	}
	if q := s.Quiet; q != nil {
		f.QuietFrom, f.QuietTo, f.TimeZone = q.From, q.To, q.TimeZone
	}
	f.Rule, f.Project = oneOrKeep(s.Rules), oneOrKeep(s.Projects)
	return f
}

func oneOrKeep[T ~string](ids []T) string {
	switch len(ids) {
	case 0:
		return ""
	case 1:
		return string(ids[0])
	}
	return KeepListed
}

func (p ChannelPage) isNew() bool { return p.Channel.ID == "" }

func (p ChannelPage) path(below ...string) string { return views.ChannelPath(p.Channel.ID, below...) }

func (p ChannelPage) formAction() string {
	if p.isNew() {
		return channelsPath
	}
	return p.path("edit")
}

func (p ChannelPage) submitWord() string {
	if p.isNew() {
		return "Create channel"
	}
	return "Save"
}

func (p ChannelPage) actions() []kit.ActionButton {
	test := kit.ActionButton{Icon: "play", Word: "Send test message", Post: p.path("test"), Why: p.WhyNot}
	if p.Channel.Spec.Disabled && test.Why == "" {
		test.Why = "The channel is disabled."
	}
	return []kit.ActionButton{test, {Icon: "trash-2", Word: "Delete channel", Href: p.path("delete"), Dialog: true, Danger: true, Why: p.WhyNot}}
}

// kindOptions are the kinds. E-mail without a mail server can only be kept.
func (p ChannelPage) kindOptions() (out []kit.Option) {
	for _, k := range p.Kinds {
		if k.Kind != channel.Email || p.WhyNoMail == "" || p.Channel.Spec.Kind == channel.Email {
			out = append(out, kit.Option{Value: string(k.Kind), Text: k.Text})
		}
	}
	return out
}

func forKinds(kinds ...channel.Kind) templ.Attributes {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return templ.Attributes{"data-show-when": "kind=" + strings.Join(words, "|")}
}

// requestKinds are the kinds that send requests to an address.
var requestKinds = []channel.Kind{channel.Webhook, channel.Slack, channel.Teams, channel.Alertmanager}

func (p ChannelPage) urlHint() string {
	if p.isNew() || p.Channel.Spec.Kind == channel.Email {
		return "Stored encrypted."
	}
	return "Stored encrypted; now " + p.Channel.Target + ". Empty: it stays."
}

func (p ChannelPage) secretHint() string {
	if p.Channel.Signed {
		return "Empty: the key stays."
	}
	return "16 to 200 characters. Empty: requests are not signed."
}

// withKeep adds a choice that keeps several chosen objects.
func withKeep(options []kit.Option, chosen int, what string) []kit.Option {
	if chosen > 1 {
		options = append(slices.Clone(options), kit.Option{Value: KeepListed, Text: kit.CountText(chosen, what) + " (chosen by the API)"})
	}
	return options
}

func (p ChannelPage) ofFleet() bool { return p.Channel.ProjectID == "" && p.Channel.UserID == "" }

func severityFloorOptions() []kit.Option {
	return []kit.Option{{Text: "All"}, {Value: string(fleet.AlarmWarning), Text: "Warning and critical"}, {Value: string(fleet.AlarmCritical), Text: "Critical"}}
}

func deliveryState(d channel.Delivery) (class, icon, text string) {
	switch d.State {
	case channel.Sent:
		return "ok", "circle-check", "Sent"
	case channel.Failed:
		return "bad", "circle-x", "Failed"
	}
	if d.Attempts > 0 {
		return "warn", "rotate-cw", "Trying again"
	}
	return "muted", "clock", "Waiting"
}

// ChannelOwners returns who a new channel of the actor can belong to, among the projects.
func ChannelOwners(a fleet.Actor, projects []kit.Option) (out []kit.Option) {
	if policy.May(a, policy.InfraChange, "") {
		out = append(out, kit.Option{Value: OwnerFleet, Text: "Fleet: all alarms"})
	}
	if a.UserID != "" {
		out = append(out, kit.Option{Value: OwnerSelf, Text: "Only me: the alarms that I may see"})
	}
	for _, p := range projects {
		if policy.May(a, policy.VMChange, fleet.ProjectID(p.Value)) {
			out = append(out, kit.Option{Value: p.Value, Text: "Project " + p.Text})
		}
	}
	return out
}

// forFleet shows a field only if the owner is the fleet.
func (p ChannelPage) forFleet() templ.Attributes {
	if !p.isNew() {
		return nil
	}
	return templ.Attributes{"data-show-when": "owner=" + OwnerFleet}
}
