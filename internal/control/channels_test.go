package control_test

import (
	"strings"
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
