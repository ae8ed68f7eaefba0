package channel

import (
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// Envelope is what a request says besides the message.
type Envelope struct {
	ID      DeliveryID
	Channel string    // name of the channel
	At      time.Time // when the message was made
	Portal  string    // address of the portal: "https://quantix.example.org"; empty: unknown
}

// Body returns the JSON that a channel of the kind posts.
func (m Message) Body(k Kind, e Envelope) ([]byte, error) {
	switch k {
	case Slack:
		return m.chatBody(func(s chatSize) any { return map[string]string{"text": m.slackText(e, s)} })
	case Teams:
		return m.chatBody(func(s chatSize) any { return m.teamsMessage(e, s) })
	case Alertmanager:
		return json.Marshal(m.alerts(e))
	}
	events := m.Events
	if events == nil {
		events = []Event{}
	}
	type linkedEvent struct {
		Event
		Link string `json:"url,omitempty"` // page of the alarm or request
	}
	linked := make([]linkedEvent, 0, len(events))
	for _, v := range events {
		link := ""
		if e.Portal != "" {
			link = e.Portal + v.path()
		}
		linked = append(linked, linkedEvent{v, link})
	}
	return json.Marshal(struct {
		ID      DeliveryID    `json:"id"`
		Type    string        `json:"type"`
		At      time.Time     `json:"timestamp"`
		Channel string        `json:"channel"`
		Summary string        `json:"summary"`
		Test    bool          `json:"test,omitempty"`
		Events  []linkedEvent `json:"events"`
		More    int           `json:"omitted,omitempty"`
	}{e.ID, "alarms", e.At.UTC(), e.Channel, m.Summary(), m.Test, linked, m.More})
}

// chatBody returns the JSON of a message in a chat, as short as chats need it.
func (m Message) chatBody(write func(chatSize) any) ([]byte, error) {
	for i, s := range chatSizes {
		body, err := json.Marshal(write(s))
		if err != nil || len(body) <= maxChatBody || i == len(chatSizes)-1 {
			return body, err
		}
	}
	return nil, nil
}

// slackEscaper escapes the characters with which Slack marks up links and mentions, and the links of Mattermost.
var slackEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "](", "]\u200b(")

// groupMention is a mention of all people of a chat in Mattermost and Rocket.Chat.
var groupMention = regexp.MustCompile(`(?i)@(channel|all|here|everyone)`)

func escapeSlack(text string) string {
	return groupMention.ReplaceAllString(slackEscaper.Replace(text), "@\u200b$1")
}

func (m Message) slackText(e Envelope, size chatSize) string {
	var b strings.Builder
	for _, p := range m.chatBlocks(e.Channel, size) {
		b.WriteString("*" + escapeSlack(strings.ReplaceAll(truncate(p.title, size.text), "*", "∗")) + "*\n")
		for _, l := range p.lines {
			b.WriteString("> " + escapeSlack(strings.ReplaceAll(truncate(l, size.text), "\n", " ")) + "\n")
		}
	}
	if e.Portal != "" {
		b.WriteString("<" + e.Portal + "/alarms|Open alarms>\n")
	}
	return b.String()
}

// teamsEscaper escapes Markdown.
var teamsEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "`", "\\`", "#", `\#`)

// teamsMessage returns the request of a Teams workflow.
func (m Message) teamsMessage(e Envelope, size chatSize) any {
	type object = map[string]any
	var body []object
	for _, p := range m.chatBlocks(e.Channel, size) {
		body = append(body, object{"type": "TextBlock", "text": teamsEscaper.Replace(truncate(p.title, size.text)), "weight": "Bolder", "wrap": true})
		for _, l := range p.lines {
			body = append(body, object{"type": "TextBlock", "text": teamsEscaper.Replace(truncate(l, size.text)), "wrap": true, "spacing": "None", "isSubtle": true})
		}
	}
	content := object{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body}
	if e.Portal != "" {
		content["actions"] = []object{{"type": "Action.OpenUrl", "title": "Open alarms", "url": e.Portal + "/alarms"}}
	}
	return object{"type": "message", "attachments": []object{{"contentType": "application/vnd.microsoft.card.adaptive", "content": content}}}
}

// alert is an alert of Alertmanager's API v2.
type alert struct {
	Labels       map[string]string `json:"labels"` // identify the alert
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

func (m Message) alerts(e Envelope) []alert {
	if m.Test {
		return []alert{{
			Labels: map[string]string{"alertname": "QuantixTest", "severity": "info", "channel": e.Channel}, Annotations: map[string]string{"summary": testText},
			StartsAt: e.At, EndsAt: e.At.Add(time.Minute), GeneratorURL: e.Portal,
		}}
	}
	out := []alert{}
	for _, v := range m.Events {
		if v.Event == fleet.AlarmAcknowledged || v.isRequest() || v.PolicyID != "" {
			continue // no alert changes
		}
		kind, _, _ := strings.Cut(string(v.Subject), ":")
		a := alert{
			Labels:      map[string]string{"alertname": oneLine(v.Rule), "alarm": string(v.AlarmID), "object": oneLine(v.Object), "type": kind, "severity": string(v.Severity), "source": "quantix"},
			Annotations: map[string]string{"summary": oneLine(v.Object + ": " + v.Text), "remedy": visible(v.Remedy)},
			StartsAt:    v.RaisedAt, EndsAt: v.At.Add(alertEnd),
		}
		if v.Host != "" {
			a.Labels["host"] = oneLine(v.Host)
		}
		if e.Portal != "" {
			a.GeneratorURL = e.Portal + "/alarms/" + string(v.AlarmID)
		}
		switch v.Event {
		case fleet.AlarmCleared:
			a.EndsAt = v.At
		case fleet.AlarmEscalated: // the severity is a label, so that the alert with the former severity is another alert, which ends
			for _, o := range fleet.AlarmSeverities {
				if o.Value != string(v.Severity) {
					former := a
					former.Labels = maps.Clone(a.Labels)
					former.Labels["severity"], former.EndsAt = o.Value, v.At
					out = append(out, former)
				}
			}
		}
		out = append(out, a)
	}
	return out
}
