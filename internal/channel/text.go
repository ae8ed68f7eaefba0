package channel

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"quantix/internal/fleet"
)

var eventWords = map[fleet.AlarmEventKind]string{
	fleet.AlarmRaised: "Raised", fleet.AlarmEscalated: "Severity changed", fleet.AlarmAcknowledged: "Acknowledged", fleet.AlarmCleared: "Cleared",
	RequestOpened: "New request", RequestDecided: "Request decided", PolicyMatched: "Health policy",
}

// EventText names an event for people: "Raised".
func EventText(k fleet.AlarmEventKind) string { return eventWords[k] }

// severityText names a severity for people: "Critical".
func severityText(s fleet.AlarmSeverity) string {
	if i := severityRank(s); i >= 0 {
		return fleet.AlarmSeverities[i].Text
	}
	return string(s)
}

// maxNamedObjects is the number of objects that a line names.
const maxNamedObjects = 5

// objectsText names the objects of a group: "a, b and 38 more".
func (g *group) objectsText() string {
	names := g.objects
	if len(names) <= maxNamedObjects {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamedObjects], ", "), len(names)-maxNamedObjects)
}

// line describes the group in one line without the object.
func (g *group) line() string {
	text := g.first.Text
	if len(g.objects) > 1 {
		text = g.first.Cause
	}
	return text
}

// title is the group's heading: "Critical: host-1: Host lost.".
func (g *group) title() string {
	prefix := severityText(g.severity)
	if k := g.first.Event; k != fleet.AlarmRaised {
		prefix = EventText(k)
	}
	return fmt.Sprintf("%s: %s: %s", prefix, g.objectsText(), g.line())
}

// Summary describes the message in one line, at most 200 bytes: the subject of an e-mail.
func (m Message) Summary() string {
	if m.Test {
		return "Test message"
	}
	groups := m.groups()
	if len(groups) == 0 {
		return "No alarms"
	}
	out := truncate(oneLine(groups[0].title()), 160)
	if n := len(groups) - 1; n == 1 {
		out += " (and 1 more)"
	} else if n > 1 {
		out += fmt.Sprintf(" (and %d more)", n)
	}
	return out
}

// visible removes characters that cannot be seen, such as those that change the direction of text. Names and notes come from
// users and hosts.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || unicode.IsGraphic(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, text)
}

// oneLine returns the text as one line of visible characters.
func oneLine(text string) string { return strings.Join(strings.Fields(visible(text)), " ") }

// truncate cuts the text at a character boundary to at most n bytes.
func truncate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-len("…")], "") + "…"
}

const testText = "This is a test message of Quantix. Alarms will arrive here."

// block is one paragraph of a message for people.
type block struct {
	title string
	lines []string
}

// blocks returns the paragraphs of the message.
func (m Message) blocks(channelName string) (out []block) {
	if m.Test {
		return []block{{title: testText, lines: []string{"Channel: " + channelName}}}
	}
	for _, g := range m.groups() {
		b := block{title: oneLine(g.title())}
		add := func(label, text string) {
			if text != "" {
				b.lines = append(b.lines, label+visible(text))
			}
		}
		e := g.first
		if e.isRequest() {
			add("By ", e.Actor)
			add(map[bool]string{true: "Reason: ", false: "Comment: "}[e.Event == RequestOpened], e.Note)
			out = append(out, b)
			continue
		}
		if e.Event == fleet.AlarmAcknowledged {
			add("By ", strings.TrimSpace(e.Actor+": "+e.Note))
		}
		if e.Event == fleet.AlarmRaised || e.Event == fleet.AlarmEscalated {
			add("Remedy: ", e.Remedy)
		}
		add("Host: ", e.Host)
		add("Rule: ", e.Rule)
		add("Since: ", e.RaisedAt.UTC().Format("2006-01-02 15:04:05 UTC"))
		out = append(out, b)
	}
	if m.More > 0 {
		out = append(out, block{title: fmt.Sprintf("%d further events are not listed.", m.More)})
	}
	return out
}

// Text returns the message as plain text. portal is the address of the portal; empty: unknown.
func (m Message) Text(channelName, portal string) string {
	var b strings.Builder
	for _, p := range m.blocks(channelName) {
		b.WriteString(p.title + "\n")
		for _, l := range p.lines {
			b.WriteString("  " + strings.ReplaceAll(l, "\n", "\n  ") + "\n")
		}
		b.WriteString("\n")
	}
	if portal != "" {
		b.WriteString(portal + "/alarms\n")
	}
	return b.String()
}

// chatSize limits a message in a chat.
type chatSize struct {
	blocks int // paragraphs
	text   int // bytes of a line
}

// chatSizes are tried one after the other until the body has at most maxChatBody bytes. Chats refuse longer messages: Teams
// those of more than 28 KB, and Mattermost those of more than 16,383 characters.
var chatSizes = []chatSize{{20, 1000}, {10, 600}, {5, 400}, {3, 250}, {1, 250}}

const maxChatBody = 16_000

// chatBlocks returns the paragraphs for a chat.
func (m Message) chatBlocks(channelName string, size chatSize) []block {
	all := m.blocks(channelName)
	if n := size.blocks; len(all) > n {
		all = append(all[:n:n], block{title: fmt.Sprintf("%d further alarms are not listed.", len(all)-n)})
	}
	return all
}

// alertEnd is how long an alert lasts in Alertmanager if its end is never sent.
const alertEnd = 30 * 24 * time.Hour
