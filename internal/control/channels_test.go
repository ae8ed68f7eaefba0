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

	"github.com/google/go-cmp/cmp"

	"quantix/internal/auth"
	"quantix/internal/channel"
	"quantix/internal/control"
	"quantix/internal/control/channels"
	"quantix/internal/fleet"
)

func hookSpec(url string) channel.Spec { return channel.Spec{Kind: channel.Webhook, URL: url} }

const publicHook = "https://hooks.example.org/secret-path"

func (s *projectFixture) createChannel(a fleet.Actor, in channels.ChannelInput) channel.ID {
	s.t.Helper()
	v, err := s.CreateChannel(s.t.Context(), a, in)
	if err != nil {
		s.t.Fatal(err)
	}
	return v.ID
}

// raiseAlarm adds a raised alarm of the object with its event.
func (s *projectFixture) raiseAlarm(subject fleet.Subject, project *fleet.ProjectID, severity fleet.AlarmSeverity, text string) fleet.AlarmID {
	s.t.Helper()
	id := fleet.NewID[fleet.AlarmID]()
	s.execSQL(`INSERT INTO alarm_rules (id, name, spec) VALUES ('r', 'any', '{"severity":"info","condition":"vm.io"}') ON CONFLICT DO NOTHING`)
	s.execSQL(`INSERT INTO alarms (id, rule_id, subject, subject_name, project_id, cause, severity, text, plain, raised_at) VALUES ($1, 'r', $2, $2, $3, $4, $5, $4 || ' on h1', $4, now())`, id, subject, project, text, severity)
	s.alarmEvent(id, fleet.AlarmRaised)
	return id
}

func (s *projectFixture) alarmEvent(id fleet.AlarmID, kind fleet.AlarmEventKind) {
	s.t.Helper()
	s.execSQL(`INSERT INTO alarm_events (alarm_id, kind) VALUES ($1, $2)`, id, kind)
}

func (s *projectFixture) notifyOfAlarms() {
	s.t.Helper()
	if err := s.NotifyAlarms(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
}

// messages returns "event: text" of each event in the messages of a channel.
func (s *projectFixture) messages(id channel.ID) (out [][]string) {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT message FROM deliveries WHERE channel_id = $1 ORDER BY id`, id)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var m channel.Message
		if err := rows.Scan(&m); err != nil {
			s.t.Fatal(err)
		}
		var events []string
		for _, e := range m.Events {
			events = append(events, string(e.Event)+": "+e.Text)
		}
		out = append(out, events)
	}
	return out
}

func (s *projectFixture) wantMessages(of string, id channel.ID, want ...[]string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.messages(id)); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", of, diff)
	}
}

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

func TestChannelSendsOnlyAlarmsThatItsOwnerMaySee(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'viewer')`, s.red, s.viewer.UserID)
	ofFleet := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hookSpec(publicHook)})
	ofRed := s.createChannel(s.member, channels.ChannelInput{Name: "ops", ProjectID: s.red, Spec: hookSpec(publicHook)})
	ofBlue := s.createChannel(s.blueMember, channels.ChannelInput{Name: "ops", ProjectID: s.blue, Spec: hookSpec(publicHook)})
	ofViewer := s.createChannel(s.viewer, channels.ChannelInput{Name: "mine", UserID: s.viewer.UserID, Spec: hookSpec(publicHook)})
	ofDisabled := s.createChannel(s.member, channels.ChannelInput{Name: "mine", UserID: s.member.UserID, Spec: hookSpec(publicHook)})
	off := hookSpec(publicHook)
	off.Disabled = true
	disabled := s.createChannel(chief, channels.ChannelInput{Name: "off", Spec: off})
	s.execSQL(`UPDATE users SET disabled = true WHERE id = $1`, s.member.UserID)

	s.raiseAlarm("vm:red", &s.red, fleet.AlarmWarning, "The VM is paused.")
	s.raiseAlarm("host:h1", nil, fleet.AlarmCritical, "The host is lost.")
	s.notifyOfAlarms()
	s.wantMessages("of the fleet", ofFleet, []string{"raised: The VM is paused. on h1", "raised: The host is lost. on h1"})
	s.wantMessages("of project red", ofRed, []string{"raised: The VM is paused."})
	s.wantMessages("of project blue", ofBlue)
	s.wantMessages("of a viewer of red", ofViewer, []string{"raised: The VM is paused."})
	s.wantMessages("of a disabled user", ofDisabled)
	s.wantMessages("disabled", disabled)
	s.execSQL(`DELETE FROM project_members WHERE user_id = $1`, s.viewer.UserID)
	s.raiseAlarm("vm:red-2", &s.red, fleet.AlarmWarning, "The VM has crashed.")
	s.notifyOfAlarms()
	s.wantMessages("of a former viewer", ofViewer, []string{"raised: The VM is paused."})
}

func TestEventsJoinMessageThatWaits(t *testing.T) {
	s := newProjectFixture(t)
	id := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hookSpec(publicHook)})
	first := s.raiseAlarm("vm:a", nil, fleet.AlarmWarning, "A.")
	s.notifyOfAlarms()
	s.alarmEvent(first, fleet.AlarmCleared)
	silenced := s.raiseAlarm("vm:b", nil, fleet.AlarmWarning, "B.")
	s.execSQL(`UPDATE alarms SET silenced_until = now() + interval '1 hour' WHERE id = $1`, silenced)
	s.notifyOfAlarms()
	s.notifyOfAlarms()
	s.wantMessages("within the wait", id, []string{"raised: A. on h1", "cleared: A. on h1"})

	s.makeDue()
	if _, err := s.ClaimDeliveries(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	s.raiseAlarm("vm:c", nil, fleet.AlarmWarning, "C.")
	s.notifyOfAlarms()
	s.wantMessages("while a portal sends", id, []string{"raised: A. on h1", "cleared: A. on h1"}, []string{"raised: C. on h1"})
	s.makeDue()
	if n := s.deliver(); n != 0 {
		t.Errorf("%d messages were sent before the older one had ended", n)
	}
}

// An event whose transaction commits after events with higher numbers is sent too.
func TestEventThatCommitsLateIsSent(t *testing.T) {
	s := newProjectFixture(t)
	id := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hookSpec(publicHook)})
	late := s.raiseAlarm("vm:late", nil, fleet.AlarmWarning, "Late.")
	s.notifyOfAlarms()
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `INSERT INTO alarm_events (alarm_id, kind) VALUES ($1, 'cleared')`, late); err != nil {
		t.Fatal(err)
	}
	s.raiseAlarm("vm:later", nil, fleet.AlarmWarning, "Later.")
	s.notifyOfAlarms()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.notifyOfAlarms()
	s.wantMessages("after the commit", id, []string{"raised: Late. on h1", "raised: Later. on h1", "cleared: Late. on h1"})
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

func TestAddressOfReceiverIsEncryptedAndKept(t *testing.T) {
	s := newProjectFixture(t)
	spec := hookSpec(publicHook)
	spec.Secret = "a-key-of-20-characters"
	id := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: spec})
	v, err := s.GetChannel(t.Context(), chief, id)
	if err != nil || v.Target != "https://hooks.example.org/…" || !v.Signed || v.Spec.URL != "" || v.Spec.Secret != "" {
		t.Errorf("%+v, %v", v, err)
	}
	v.Spec.DigestMinutes = 5
	if v, err = s.UpdateChannel(t.Context(), chief, id, channels.ChannelInput{Name: "ops", Spec: v.Spec}); err != nil || v.Target != "https://hooks.example.org/…" || !v.Signed || v.Generation != 2 {
		t.Errorf("a change without address: %+v, %v", v, err)
	}
	var stored string
	if err := s.pool.QueryRow(t.Context(), `SELECT (SELECT string_agg(c::text, '') FROM channels c) || (SELECT string_agg(a::text, '') FROM audit a)`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secret-path", spec.Secret} {
		if strings.Contains(stored, secret) {
			t.Errorf("the database contains %q in plain text", secret)
		}
	}
	other := control.New(s.pool, control.Options{Vault: auth.NewVault()})
	if _, err := other.UpdateChannel(t.Context(), chief, id, channels.ChannelInput{Name: "new", Spec: v.Spec}); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("a portal with another key: %v", err)
	}
	if _, err := other.UpdateChannel(t.Context(), chief, id, channels.ChannelInput{Name: "new", Spec: spec}); err != nil {
		t.Errorf("a new address with another key: %v", err)
	}
}

func TestChannelOfOtherOwnerRefused(t *testing.T) {
	s := newProjectFixture(t)
	mine := s.createChannel(s.member, channels.ChannelInput{Name: "mine", UserID: s.member.UserID, Spec: hookSpec(publicHook)})
	ofFleet := s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hookSpec(publicHook)})
	for name, c := range map[string]struct {
		a    fleet.Actor
		id   channel.ID
		code fleet.ErrorCode
	}{
		"a personal channel of another member": {s.viewer, mine, fleet.NotFound},
		"a channel of the fleet, by a tenant":  {s.member, ofFleet, fleet.NotFound},
	} {
		if _, err := s.TestChannel(t.Context(), c.a, c.id); fleet.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, in := range map[string]channels.ChannelInput{
		"for another user":         {Name: "a", UserID: s.viewer.UserID, Spec: hookSpec(publicHook)},
		"for the fleet":            {Name: "a", Spec: hookSpec(publicHook)},
		"for another project":      {Name: "a", ProjectID: s.blue, Spec: hookSpec(publicHook)},
		"for a user and a project": {Name: "a", ProjectID: s.red, UserID: s.member.UserID, Spec: hookSpec(publicHook)},
	} {
		if _, err := s.CreateChannel(t.Context(), s.member, in); err == nil {
			t.Errorf("a tenant created a channel %s", name)
		}
	}
	if _, err := s.CreateChannel(t.Context(), s.viewer, channels.ChannelInput{Name: "a", ProjectID: s.red, Spec: hookSpec(publicHook)}); fleet.CodeOf(err) != fleet.Forbidden {
		t.Errorf("a viewer created a channel of the project: %v", err)
	}
	if err := s.DeleteChannel(t.Context(), chief, mine); err != nil {
		t.Errorf("an administrator cannot delete a personal channel: %v", err)
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

func TestChannelsOfOthersLeaveRoomForTheFleet(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`INSERT INTO channels (id, name, project_id, spec, target, signed) SELECT 'c' || i, 'c' || i, $1, '{"kind":"webhook"}', '', false FROM generate_series(1, 1000) i`, s.blue)
	s.createChannel(chief, channels.ChannelInput{Name: "ops", Spec: hookSpec(publicHook)})
	if _, err := s.CreateChannel(t.Context(), s.member, channels.ChannelInput{Name: "ops", ProjectID: s.red, Spec: hookSpec(publicHook)}); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("beyond the limit: %v", err)
	}
	if all, err := s.ListChannels(t.Context(), chief); err != nil || len(all) != 1001 {
		t.Errorf("%d channels are listed, %v", len(all), err)
	}
}

func TestEndOfSilencedAlarmReachesAlertmanager(t *testing.T) {
	s := newProjectFixture(t)
	people := s.createChannel(chief, channels.ChannelInput{Name: "people", Spec: hookSpec(publicHook)})
	manager := s.createChannel(chief, channels.ChannelInput{Name: "manager", Spec: channel.Spec{Kind: channel.Alertmanager, URL: "https://alerts.example.org"}})
	id := s.raiseAlarm("vm:a", nil, fleet.AlarmWarning, "A.")
	s.execSQL(`UPDATE alarms SET silenced_until = now() + interval '1 hour'`)
	s.alarmEvent(id, fleet.AlarmCleared)
	s.notifyOfAlarms()
	s.wantMessages("of people", people)
	s.wantMessages("of Alertmanager", manager, []string{"cleared: A. on h1"})
}

// Who creates and deletes channels all the time does not stop the messages of others.
func TestChannelThatIsDeletedMeanwhileStopsNoOther(t *testing.T) {
	s := newProjectFixture(t)
	gone := s.createChannel(chief, channels.ChannelInput{Name: "gone", Spec: hookSpec(publicHook)})
	stays := s.createChannel(chief, channels.ChannelInput{Name: "stays", Spec: hookSpec(publicHook)})
	s.raiseAlarm("vm:a", nil, fleet.AlarmWarning, "A.")
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `DELETE FROM channels WHERE id = $1`, gone); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- s.NotifyAlarms(t.Context(), fleet.SystemActor) }()
	time.Sleep(500 * time.Millisecond)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	s.wantMessages("of the other channel", stays, []string{"raised: A. on h1"})
}
