package channel_test

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/channel"
	"quantix/internal/fleet"
)

func TestMessageOfRequestHasRequesterReasonAndLink(t *testing.T) {
	t.Parallel()
	m := channel.Message{}
	m.Add(channel.Event{Event: channel.RequestOpened, RequestID: "r-1", Severity: fleet.AlarmInfo, Object: "shop", Cause: "16 vCPUs", Text: "16 vCPUs", Actor: "mia", Note: "Load test"})
	m.Add(channel.Event{Event: channel.RequestDecided, RequestID: "r-2", Severity: fleet.AlarmInfo, Object: "shop", Cause: "9 VMs was refused", Text: "9 VMs was refused", Actor: "root", Note: "Not now"})
	text := m.Text("ops", "https://portal.example")
	for _, want := range []string{"New request: shop: 16 vCPUs", "By mia", "Reason: Load test", "Request decided: shop: 9 VMs was refused", "Comment: Not now"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	body, err := m.Body(channel.Webhook, channel.Envelope{Portal: "https://portal.example", At: time.Unix(0, 0)})
	if err != nil || !strings.Contains(string(body), `"url":"https://portal.example/requests/r-1"`) {
		t.Errorf("%s %v", body, err)
	}
	if alerts, err := m.Body(channel.Alertmanager, channel.Envelope{}); err != nil || string(alerts) != "[]" {
		t.Errorf("Alertmanager gets %s %v", alerts, err)
	}
}
