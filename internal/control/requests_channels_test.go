package control_test

import (
	"testing"

	"quantix/internal/channel"
	"quantix/internal/control/channels"
	"quantix/internal/control/requests"
	"quantix/internal/fleet"
	"quantix/internal/quota"
	"quantix/internal/request"
)

// New requests go to the fleet, the project and the users with the permission to decide; decisions to the project and the
// requester.
func TestChannelsSendRequestsAndDecisions(t *testing.T) {
	s := newProjectFixture(t)
	s.storeMember(s.member)
	s.storeMember(s.viewer)
	admin := s.addUser("root", fleet.RoleAdmin)
	hook := hookSpec(publicHook)
	ofFleet := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hook})
	ofRed := s.createChannel(s.member, channels.ChannelInput{Name: "ops", ProjectID: s.red, Spec: hook})
	ofBlue := s.createChannel(s.blueMember, channels.ChannelInput{Name: "ops", ProjectID: s.blue, Spec: hook})
	mine := s.createChannel(s.member, channels.ChannelInput{Name: "mine", UserID: s.member.UserID, Spec: hook})
	ofViewer := s.createChannel(s.viewer, channels.ChannelInput{Name: "mine", UserID: s.viewer.UserID, Spec: hook})
	ofAdmin := s.createChannel(admin, channels.ChannelInput{Name: "mine", UserID: admin.UserID, Spec: hook})
	pager := hook
	pager.Severity = fleet.AlarmCritical
	ofPager := s.createChannel(chief, channels.ChannelInput{Name: "pager", Spec: pager})
	chosen := pager
	chosen.Events = []fleet.AlarmEventKind{channel.RequestOpened}
	ofChosen := s.createChannel(chief, channels.ChannelInput{Name: "chosen", Spec: chosen})
	alerts := channel.Spec{Kind: channel.Alertmanager, URL: "https://alerts.example.org", Events: channel.AllEvents}
	ofAlerts := s.createChannel(chief, channels.ChannelInput{Name: "alerts", Spec: alerts})

	r := s.askForCPUs()
	s.notifyOfAlarms()
	s.notifyOfAlarms()
	if _, err := s.ApproveRequest(t.Context(), chief, r.ID, requests.Approval{Comment: "Until June"}); err != nil {
		t.Fatal(err)
	}
	s.notifyOfAlarms()
	const opened, decided = "request.opened: 16 vCPUs", "request.decided: 16 vCPUs was approved"
	s.wantMessages("of the fleet", ofFleet, []string{opened})
	s.wantMessages("of project red", ofRed, []string{opened, decided})
	s.wantMessages("of project blue", ofBlue)
	s.wantMessages("of the user", mine, []string{decided})
	s.wantMessages("of a viewer", ofViewer)
	s.wantMessages("of an administrator", ofAdmin, []string{opened})
	s.wantMessages("of a pager", ofPager)
	s.wantMessages("with chosen events", ofChosen, []string{opened})
	s.wantMessages("of Alertmanager", ofAlerts)
	s.execSQL(`UPDATE deliveries SET due_at = now()`)
	claimed, err := s.ClaimDeliveries(t.Context(), fleet.SystemActor)
	if err != nil || len(claimed) != 5 {
		t.Errorf("%d messages are claimed, want 5: %v", len(claimed), err)
	}
}

// Channels report a request again when its user has changed it.
func TestChannelsSendChangedRequest(t *testing.T) {
	s := newProjectFixture(t)
	ofFleet := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hookSpec(publicHook)})
	s.setQuota(s.red, quota.Quota{CPUs: limit(8)})
	for _, cpus := range []int64{16, 64} {
		in := request.Input{ProjectID: s.red, Kind: request.Quota, Reason: "Load test", Limits: map[string]int64{"cpus": cpus}}
		if _, err := s.CreateRequest(t.Context(), s.member, in); err != nil {
			t.Fatal(withFieldErrors(err))
		}
		s.notifyOfAlarms()
		s.notifyOfAlarms()
	}
	s.wantMessages("of the fleet", ofFleet, []string{"request.opened: 16 vCPUs", "request.opened: 64 vCPUs"})
}
