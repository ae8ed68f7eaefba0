package control_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quantix/internal/channel"
	"quantix/internal/control/channels"
	"quantix/internal/fleet"
)

// deliver sends the messages that are due, one after the other.
func (s *projectFixture) deliver() (n int) {
	s.t.Helper()
	claimed, err := s.ClaimDeliveries(s.t.Context(), fleet.SystemActor)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range claimed {
		if err := s.SendDelivery(s.t.Context(), fleet.SystemActor, c); err != nil {
			s.t.Fatal(err)
		}
	}
	return len(claimed)
}

func (s *projectFixture) makeDue() {
	s.t.Helper()
	s.execSQL(`UPDATE deliveries SET due_at = now() WHERE state = 'waiting'`)
}

func TestDeliveryIsTriedAgainUntilReceived(t *testing.T) {
	s := newProjectFixture(t)
	var answer atomic.Int64
	answer.Store(http.StatusInternalServerError)
	ids := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ids <- r.Header.Get("Webhook-Id")
		w.WriteHeader(int(answer.Load()))
	}))
	defer server.Close()
	id := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hookSpec(server.URL)})
	s.raiseAlarm("vm:a", nil, fleet.AlarmWarning, "A.")
	s.notifyOfAlarms()
	if n := s.deliver(); n != 0 {
		t.Errorf("%d messages were sent before their time", n)
	}
	s.makeDue()
	s.deliver()
	got := s.delivery(id)
	if wait := time.Until(got.DueAt); got.State != channel.Waiting || got.Attempts != 1 || !strings.Contains(got.Error, "500") || wait < 5*time.Second || wait > 15*time.Second {
		t.Errorf("after a fault of the receiver: %+v", got)
	}
	if v, err := s.GetChannel(t.Context(), chief, id); err != nil || v.LastError == "" || v.Waiting != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	answer.Store(http.StatusNoContent)
	s.makeDue()
	s.deliver()
	if got := s.delivery(id); got.State != channel.Sent || got.Attempts != 2 || got.Error != "" || got.EndedAt == nil {
		t.Errorf("after the receipt: %+v", got)
	}
	if a, b := <-ids, <-ids; a != b || a == "" {
		t.Errorf("the attempts have the IDs %q and %q", a, b)
	}
	answer.Store(http.StatusGone)
	s.raiseAlarm("vm:b", nil, fleet.AlarmWarning, "B.")
	s.notifyOfAlarms()
	s.makeDue()
	s.deliver()
	if got := s.delivery(id); got.State != channel.Failed || got.Attempts != 1 {
		t.Errorf("after a permanent refusal: %+v", got)
	}
}

func (s *projectFixture) delivery(id channel.ID) channel.Delivery {
	s.t.Helper()
	all, err := s.ListDeliveries(s.t.Context(), chief, id)
	if err != nil || len(all) == 0 {
		s.t.Fatal(all, err)
	}
	return all[0]
}

// A portal that stops while it sends leaves a lease that ends. Its late result does not count.
func TestLeaseOfStoppedPortalEnds(t *testing.T) {
	s := newProjectFixture(t)
	id := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hookSpec("https://hooks.invalid/")})
	if _, err := s.TestChannel(t.Context(), chief, id); err != nil {
		t.Fatal(err)
	}
	stopped, err := s.ClaimDeliveries(t.Context(), fleet.SystemActor)
	if err != nil || len(stopped) != 1 {
		t.Fatal(stopped, err)
	}
	if again, err := s.ClaimDeliveries(t.Context(), fleet.SystemActor); err != nil || len(again) != 0 {
		t.Errorf("two portals have the message: %v, %v", again, err)
	}
	s.execSQL(`UPDATE deliveries SET leased_until = now() - interval '1 second'`)
	again, err := s.ClaimDeliveries(t.Context(), fleet.SystemActor)
	if err != nil || len(again) != 1 || again[0].Attempts != 2 {
		t.Fatal(again, err)
	}
	if err := s.SendDelivery(t.Context(), fleet.SystemActor, stopped[0]); err != nil {
		t.Fatal(err)
	}
	if got := s.delivery(id); got.State != channel.Waiting || got.Attempts != 2 {
		t.Errorf("the late result counts: %+v", got)
	}
}

func TestReceiverThatHangsDelaysNoOther(t *testing.T) {
	s := newProjectFixture(t)
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer hanging.Close()
	defer close(release)
	working := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer working.Close()
	s.createChannel(chief, channels.ChannelInput{Name: "hangs", Spec: hookSpec(hanging.URL)})
	works := s.createChannel(chief, channels.ChannelInput{Name: "works", Spec: hookSpec(working.URL)})
	s.raiseAlarm("vm:a", nil, fleet.AlarmWarning, "A.")
	s.notifyOfAlarms()
	s.makeDue()
	claimed, err := s.ClaimDeliveries(t.Context(), fleet.SystemActor)
	if err != nil || len(claimed) != 2 {
		t.Fatal(claimed, err)
	}
	for _, c := range claimed {
		go s.SendDelivery(t.Context(), fleet.SystemActor, c)
	}
	s.raiseAlarm("vm:b", nil, fleet.AlarmWarning, "B.")
	s.notifyOfAlarms()
	sent := func() bool {
		s.makeDue()
		s.deliver()
		all, err := s.ListDeliveries(t.Context(), chief, works)
		return err == nil && len(all) == 2 && all[0].State == channel.Sent && all[1].State == channel.Sent
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !sent(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("the channel that works waits for the one that hangs")
		}
	}
}

func TestTenThousandAlarmsAreOneBoundedMessage(t *testing.T) {
	s := newProjectFixture(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !json.Valid(body) || len(body) > 1<<20 {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer server.Close()
	id := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hookSpec(server.URL)})
	alerts := hookSpec(server.URL)
	alerts.Kind = channel.Alertmanager
	all := s.createChannel(chief, channels.ChannelInput{Name: "alerts", Spec: alerts})
	s.execSQL(`INSERT INTO alarm_rules (id, name, spec) VALUES ('r', 'any', '{"severity":"info","condition":"vm.io"}')`)
	s.execSQL(`INSERT INTO alarms (id, rule_id, subject, subject_name, cause, severity, text, plain, raised_at)
		SELECT 'a' || n, 'r', 'vm:' || n, 'vm-' || n, 'Lost.', 'critical', 'Lost.', 'Lost.', now() FROM generate_series(1, 10000) n`)
	s.execSQL(`INSERT INTO alarm_events (alarm_id, kind) SELECT id, 'raised' FROM alarms`)
	begin := time.Now()
	s.notifyOfAlarms()
	t.Logf("10,000 events became messages of two channels in %s", time.Since(begin))
	s.makeDue()
	s.deliver()
	if got := s.delivery(id); got.State != channel.Sent || got.Events != 10_000 {
		t.Errorf("%+v", got)
	}
	var names []string
	for _, m := range s.messages(all) {
		names = append(names, m...)
	}
	if len(names) != 10_000 {
		t.Errorf("Alertmanager gets %d of 10,000 alarms", len(names))
	}
}

func TestOldDeliveriesAreDeleted(t *testing.T) {
	s := newProjectFixture(t)
	id := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hookSpec(publicHook)})
	for i, age := range []int{1, 31} {
		s.execSQL(`INSERT INTO deliveries (id, channel_id, message, summary, events, state, due_at, ended_at) VALUES ($1, $2, '{}', '', 0, 'sent', now(), now() - make_interval(days => $3))`, strconv.Itoa(i), id, age)
	}
	s.notifyOfAlarms()
	all, err := s.ListDeliveries(t.Context(), chief, id)
	if err != nil || len(all) != 1 || !slices.ContainsFunc(all, func(d channel.Delivery) bool { return d.ID == "0" }) {
		t.Errorf("%v, %v", all, err)
	}
}

// Rights can change while a message waits for its time.
func TestWaitingMessagesFollowRightsOfTheUser(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'viewer')`, s.red, s.viewer.UserID)
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'viewer') ON CONFLICT DO NOTHING`, s.red, s.member.UserID)
	removed := s.createChannel(s.viewer, channels.ChannelInput{Name: "mine", UserID: s.viewer.UserID, Spec: hookSpec(publicHook)})
	disabled := s.createChannel(s.member, channels.ChannelInput{Name: "mine", UserID: s.member.UserID, Spec: hookSpec("https://hooks.invalid/")})
	s.raiseAlarm("vm:red", &s.red, fleet.AlarmWarning, "The VM is paused.")
	s.notifyOfAlarms()
	s.execSQL(`DELETE FROM project_members WHERE user_id = $1`, s.viewer.UserID)
	s.execSQL(`UPDATE users SET disabled = true WHERE id = $1`, s.member.UserID)
	s.makeDue()
	if n := s.deliver(); n != 1 {
		t.Errorf("%d messages were sent, want that of the user who is not disabled", n)
	}
	if got := s.delivery(removed); got.State != channel.Failed || !strings.Contains(got.Error, "may not see") {
		t.Errorf("of a former member: %+v", got)
	}
	if got := s.delivery(disabled); got.State != channel.Waiting || got.Attempts != 0 {
		t.Errorf("of a disabled user: %+v", got)
	}
}

func TestTestMessageDoesNotWaitForDigest(t *testing.T) {
	s := newProjectFixture(t)
	spec := hookSpec("https://hooks.invalid/")
	spec.DigestMinutes = 60
	id := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: spec})
	s.raiseAlarm("vm:a", nil, fleet.AlarmWarning, "A.")
	s.notifyOfAlarms()
	for range 2 {
		if _, err := s.TestChannel(t.Context(), chief, id); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 { // one after the other
		if n := s.deliver(); n != 1 {
			t.Errorf("%d messages were sent at attempt %d", n, i)
		}
	}
	s.makeDue()
	if n := s.deliver(); n != 1 {
		t.Errorf("%d messages were sent, want the digest", n)
	}
}

func TestTestMessagesOfOneUserAreLimited(t *testing.T) {
	s := newProjectFixture(t)
	var err error
	n := 0
	for ; n < 60 && err == nil; n++ { // a new channel is no new limit
		id := s.createChannel(s.member, channels.ChannelInput{Name: "mine", UserID: s.member.UserID, Spec: hookSpec(publicHook)})
		_, err = s.TestChannel(t.Context(), s.member, id)
		if failed := s.DeleteChannel(t.Context(), s.member, id); failed != nil {
			t.Fatal(failed)
		}
	}
	if fleet.CodeOf(err) != fleet.TooMany || n < 10 {
		t.Errorf("after %d test messages: %v", n, err)
	}
}

func TestUnreadableMessageStopsNoOther(t *testing.T) {
	s := newProjectFixture(t)
	bad := s.createChannel(chief, channels.ChannelInput{Name: "bad", Spec: hookSpec("https://hooks.invalid/")})
	good := s.createChannel(chief, channels.ChannelInput{Name: "good", Spec: hookSpec("https://hooks.invalid/")})
	s.raiseAlarm("vm:a", nil, fleet.AlarmWarning, "A.")
	s.notifyOfAlarms()
	s.execSQL(`UPDATE deliveries SET message = '{"events": "of a later version"}' WHERE channel_id = $1`, bad)
	s.raiseAlarm("vm:b", nil, fleet.AlarmWarning, "B.")
	s.notifyOfAlarms()
	s.wantMessages("of the other channel", good, []string{"raised: A. on h1", "raised: B. on h1"})
	s.wantMessages("of the channel", bad, nil, []string{"raised: B. on h1"})
	s.makeDue()
	if n := s.deliver(); n != 2 {
		t.Errorf("%d messages were claimed, want 2", n)
	}
	all, err := s.ListDeliveries(t.Context(), chief, bad)
	if err != nil || len(all) != 2 || all[1].State != channel.Failed || !strings.Contains(all[1].Error, "version") {
		t.Errorf("%+v, %v", all, err)
	}
}

// A message whose result was lost while the database restarts is sent twice.
func TestResultIsRecordedAfterRestartOfDatabase(t *testing.T) {
	s := newProjectFixture(t)
	id := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hookSpec("https://hooks.invalid/")})
	if _, err := s.TestChannel(t.Context(), chief, id); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.ClaimDeliveries(t.Context(), fleet.SystemActor)
	if err != nil || len(claimed) != 1 {
		t.Fatal(claimed, err)
	}
	s.execSQL(`ALTER TABLE deliveries RENAME TO away`)
	result := make(chan error, 1)
	go func() { result <- s.SendDelivery(t.Context(), fleet.SystemActor, claimed[0]) }()
	time.Sleep(1500 * time.Millisecond)
	s.execSQL(`ALTER TABLE away RENAME TO deliveries`)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if got := s.delivery(id); got.State != channel.Failed {
		t.Errorf("%+v", got)
	}
}
